// Every CUSPAN_* variable, declared in one place for --help and for the code. Options of the
// `cuspan` command set the variable of the same meaning for the processes of its run.
#pragma once

#include <cstdint>
#include <span>

#include "common/status.h"

namespace cuspan {

struct Setting {
  const char* name;           // Name of the environment variable.
  const char* default_value;  // Default shown by --help.
  const char* help;
};

namespace settings {
inline constexpr Setting kLog{"CUSPAN_LOG", "warn",
                              "log level on stderr: error, warn, info or debug"};
inline constexpr Setting kLogFormat{
    "CUSPAN_LOG_FORMAT", "text",
    "text: lines on stderr for a person; json: a JSON object a line, with run, session, host and "
    "device"};
inline constexpr Setting kDevice{
    "CUSPAN_DEVICE", "auto",
    "driver that the proxies use: cuda, soft (the software GPU), or auto (cuda where it works)"};
inline constexpr Setting kSameNode{
    "CUSPAN_SAME_NODE", "auto",
    "auto: program and GPU share memory if they are on one node; never: always use agents"};
inline constexpr Setting kStagingBuffers{
    "CUSPAN_STAGING_BUFFERS", "16",
    "staging buffers per device and direction (2 … 64); with three lanes or more, 8 per lane"};
inline constexpr Setting kStagingBytes{"CUSPAN_STAGING_BYTES", "1M",
                                       "size of one staging buffer (4K … 64M)"};
inline constexpr Setting kSendsInFlight{
    "CUSPAN_SENDS_IN_FLIGHT", "8",
    "staging buffers in flight to each other node, per lane (1 … 64); with three lanes or more, 4"};
inline constexpr Setting kLanes{"CUSPAN_LANES", "1",
                                "lanes per node for bulk data between nodes: 1 (the agent "
                                "itself) … 16, or auto (by the number of cores)"};
inline constexpr Setting kRelay{
    "CUSPAN_RELAY", "mpi",
    "what brings messages from host to host: mpi; ucx, which needs no mpirun; or auto (ucx where "
    "it is installed, but for CUSPAN_MPIRUN_ARGS, and in batch jobs without --remote-shell)"};
inline constexpr Setting kSecure{
    "CUSPAN_SECURE", "off",
    "what goes from host to host: off (over any interface), auto (only over interfaces of "
    "WireGuard), or the names of the interfaces that encrypt"};
inline constexpr Setting kMetrics{
    "CUSPAN_METRICS", "",
    "where runs serve or write metrics, as --metrics has it; %r in a path is the id of the run"};
inline constexpr Setting kBatch{
    "CUSPAN_BATCH", "auto",
    "inside a job of Slurm, PBS or LSF: auto (its nodes and GPUs are used unless hosts are named; "
    "in a step of Slurm's that has GPUs those), job (also there all of the job), or off (the job "
    "does not count)"};
inline constexpr Setting kHeartbeat{
    "CUSPAN_HEARTBEAT_SECONDS", "10",
    "heartbeat timeout: seconds without a message after which a host is lost (1 … 3600), or off"};
inline constexpr Setting kPipeline{
    "CUSPAN_PIPELINE", "on",
    "on: the stages of a copy overlap; off: one stage after the other, for comparison"};
inline constexpr Setting kPeerMemory{"CUSPAN_PEER_MEMORY", "auto",
                                     "auto: GPUs of one node use peer access where the driver "
                                     "allows it; never: copies between them use staging buffers"};
inline constexpr Setting kNccl{
    "CUSPAN_NCCL", "auto",
    "libnccl.so.2 that the proxies load on the nodes of the GPUs: a path, or auto (the program's "
    "own if the node has that file, or the one that the dynamic linker finds)"};
inline constexpr Setting kManaged{
    "CUSPAN_MANAGED", "auto",
    "auto: managed memory of a program that sees one GPU of its own node is on that GPU and "
    "migrates on access; with several GPUs, or a software GPU, it is in host memory; device, host: "
    "always the first, where one GPU is seen, or always the second"};
inline constexpr Setting kStrict{
    "CUSPAN_STRICT", "off",
    "on: the program ends at the first use of an unsupported feature (exit status 69)"};
inline constexpr Setting kStats{
    "CUSPAN_STATS", "off",
    "on: Python programs note on which lines they wait for GPUs; cuspan run --stats sets it"};
inline constexpr Setting kLeases{"CUSPAN_LEASES", "auto",
                                 "auto: a run has its GPUs to itself, except software GPUs; on: "
                                 "software GPUs too; off: runs share GPUs"};
inline constexpr Setting kLeaseFolder{
    "CUSPAN_LEASE_FOLDER", "/tmp",
    "directory of the GPU locks on each node; the same for all users"};
inline constexpr Setting kShareFolder{
    "CUSPAN_SHARE_FOLDER", "/dev/shm",
    "directory of the tables of shared GPUs on each node, in memory"};
inline constexpr Setting kMpsControl{
    "CUSPAN_MPS_CONTROL", "nvidia-cuda-mps-control",
    "program that controls NVIDIA's MPS on each node, for --share=pair: a path, or a name that is "
    "looked for in PATH and /usr/bin"};
inline constexpr Setting kKernelTimes{
    "CUSPAN_KERNEL_TIMES", "~/.cache/cuspan/kernel-times",
    "cache of the kernel times that runs with --share measure (below XDG_CACHE_HOME if that is "
    "set), or off"};
inline constexpr Setting kLeaseLog{
    "CUSPAN_LEASE_LOG", "off",
    "file to which agents append a line when a run arrives, gets GPUs or returns them, or off"};
inline constexpr Setting kGpusPerRank{
    "CUSPAN_GPUS_PER_RANK", "0",
    "GPUs per rank of an MPI program, assigned in rank order; 0: every rank sees all GPUs"};
inline constexpr Setting kMpirunArguments{
    "CUSPAN_MPIRUN_ARGS", "", "additional arguments for the mpirun that starts the agents"};
inline constexpr Setting kSoftGpus{"CUSPAN_SOFT_GPUS", "1",
                                   "software GPUs per node (1 … 64), or by host: HOST=N,…,N, where "
                                   "the last applies to all other hosts"};
inline constexpr Setting kSoftVisible{
    "CUSPAN_SOFT_VISIBLE", "all",
    "software GPUs that there are: all of the node; or chosen: those of them that "
    "CUDA_VISIBLE_DEVICES names, for batch systems that give them out"};
inline constexpr Setting kSoftMemory{"CUSPAN_SOFT_MEMORY", "4G", "memory of a software GPU"};
inline constexpr Setting kSoftName{"CUSPAN_SOFT_NAME", "cuspan software GPU",
                                   "name of the software GPU"};
inline constexpr Setting kSoftCapability{"CUSPAN_SOFT_CAPABILITY", "9.0",
                                         "compute capability of the software GPU"};
inline constexpr Setting kSoftThreads{"CUSPAN_SOFT_THREADS", "cores",
                                      "worker threads of a software GPU"};
inline constexpr Setting kSoftModel{
    "CUSPAN_SOFT_MODEL", "auto",
    "execution of its kernels: vector (warps as vectors), thread (one fiber per thread), or auto"};
inline constexpr Setting kSoftTier{
    "CUSPAN_SOFT_TIER", "auto",
    "code of its kernels: last (optimised; the first launch waits for it), first (compiled "
    "quickly, "
    "slow), or auto (large kernels have the first until the last is there)"};
inline constexpr Setting kSoftInstructions{
    "CUSPAN_SOFT_INSTRUCTIONS", "host",
    "instruction set of its compiled kernels: host (all that the processor supports), or avx2"};
inline constexpr Setting kSoftCache{
    "CUSPAN_SOFT_CACHE", "~/.cache/cuspan/kernels",
    "cache of its compiled kernels (below XDG_CACHE_HOME if that is set), or off"};
inline constexpr Setting kSoftWatchdog{
    "CUSPAN_SOFT_WATCHDOG", "off", "time limit of its kernels in seconds (1 … 1000000), or off"};
inline constexpr Setting kSoftCheck{"CUSPAN_SOFT_CHECK", "off",
                                    "what is looked for in its kernels (slow): memory (invalid "
                                    "accesses), races (unordered accesses "
                                    "of threads to the same memory), all, or off"};
inline constexpr Setting kSoftSchedule{
    "CUSPAN_SOFT_SCHEDULE", "barrier",
    "when one thread of its kernels makes place for the next: barrier (when it has to wait), "
    "interleaved (at each access to memory, as if all ran at once; slow), or random:SEED (at any)"};
inline constexpr Setting kSoftRate{
    "CUSPAN_SOFT_RATE", "off",
    "microseconds that each block of its kernels takes at least (0.001 … 1000000), or off"};
inline constexpr Setting kSoftCopyRate{"CUSPAN_SOFT_COPY_RATE", "off",
                                       "limit of its host copies in GB/s (0.001 … 10000), or off"};
inline constexpr Setting kSoftCacheBytes{"CUSPAN_SOFT_CACHE_BYTES", "256M",
                                         "size limit of that cache (1M … 1T)"};
}  // namespace settings

// All settings, in the order of --help.
std::span<const Setting> AllSettings();

// The variable's value, or its default.
const char* SettingText(const Setting& setting);
// A count within [lowest, highest]; kInvalid names the variable, its value and the range.
Result<std::uint64_t> SettingNumber(const Setting& setting, std::uint64_t lowest,
                                    std::uint64_t highest);
// Bytes, with an optional suffix K, M or G (powers of 1024).
Result<std::uint64_t> SettingBytes(const Setting& setting, std::uint64_t lowest,
                                   std::uint64_t highest);

// "on" or "off".
Result<bool> SettingSwitch(const Setting& setting);

}  // namespace cuspan
