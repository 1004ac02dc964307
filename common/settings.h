// Every CUSPAN_* variable, declared in one place: what --help prints and what
// the code reads. Options of the `cuspan` command set the variable of the same
// meaning for the processes of its run.
#pragma once

#include <cstdint>
#include <span>

#include "common/status.h"

namespace cuspan {

struct Setting {
  const char* name;           // Of the environment variable.
  const char* default_value;  // As --help shows it.
  const char* help;
};

namespace settings {
inline constexpr Setting kLog{"CUSPAN_LOG", "warn", "lines on stderr: error, warn, info or debug"};
inline constexpr Setting kDevice{
    "CUSPAN_DEVICE", "auto", "driver of the proxies: cuda, soft, or auto (cuda where it works)"};
inline constexpr Setting kSameNode{
    "CUSPAN_SAME_NODE", "auto",
    "auto: a program and a GPU on one node share memory; never: agents and MPI always"};
inline constexpr Setting kStagingBuffers{
    "CUSPAN_STAGING_BUFFERS", "16",
    "staging buffers of a device, each way (2 … 64); with three lanes or more 8 for each"};
inline constexpr Setting kStagingBytes{"CUSPAN_STAGING_BYTES", "1M",
                                       "size of one staging buffer (4K … 64M)"};
inline constexpr Setting kSendsInFlight{"CUSPAN_SENDS_IN_FLIGHT", "8",
                                        "staging buffers that a node sends another at a time, on "
                                        "each lane (1 … 64); with three lanes or more 4"};
inline constexpr Setting kLanes{"CUSPAN_LANES", "1",
                                "processes of a node that move bulk between agents: 1 (the agent "
                                "itself) … 16, or auto (as many as this node has cores for)"};
inline constexpr Setting kHeartbeat{
    "CUSPAN_HEARTBEAT_SECONDS", "10",
    "for how long a node may be silent before its GPUs are given up (1 … 3600), or off"};
inline constexpr Setting kPipeline{
    "CUSPAN_PIPELINE", "on",
    "on: the legs of a copy work at the same time; off: one after the other, for comparison"};
inline constexpr Setting kPeerMemory{
    "CUSPAN_PEER_MEMORY", "auto",
    "auto: GPUs of one node use each other's memory where their driver lets them; never: copies "
    "between them go through staging buffers"};
inline constexpr Setting kManaged{
    "CUSPAN_MANAGED", "auto",
    "auto: managed memory of a program that sees one GPU, of its own node, lies on that, and what "
    "the "
    "host touches is fetched; with several GPUs it lies in the host's memory; host: always there"};
inline constexpr Setting kStrict{
    "CUSPAN_STRICT", "off",
    "on: a program ends at the first use of something that is not supported"};
inline constexpr Setting kLeases{
    "CUSPAN_LEASES", "auto",
    "auto: a run has its GPUs for itself, software GPUs aside; on: these too; off: runs share"};
inline constexpr Setting kLeaseFolder{
    "CUSPAN_LEASE_FOLDER", "/tmp",
    "folder on each node where the locks on its GPUs lie; the same for all users"};
inline constexpr Setting kLeaseLog{
    "CUSPAN_LEASE_LOG", "off",
    "file to which agents add a line whenever a run arrives, gets GPUs or gives them back, or off"};
inline constexpr Setting kGpusPerRank{
    "CUSPAN_GPUS_PER_RANK", "0",
    "GPUs that each rank of an MPI program has for itself, in the order of ranks; 0: every rank "
    "sees all"};
inline constexpr Setting kMpirunArguments{"CUSPAN_MPIRUN_ARGS", "",
                                          "more arguments for the mpirun that starts the agents"};
inline constexpr Setting kSoftGpus{
    "CUSPAN_SOFT_GPUS", "1",
    "software GPUs of a node (1 … 64), or of each node: HOST=N,…,N, the last for all others"};
inline constexpr Setting kSoftMemory{"CUSPAN_SOFT_MEMORY", "4G", "memory of a software GPU"};
inline constexpr Setting kSoftName{"CUSPAN_SOFT_NAME", "cuspan software GPU", "its name"};
inline constexpr Setting kSoftCapability{"CUSPAN_SOFT_CAPABILITY", "9.0", "its compute capability"};
inline constexpr Setting kSoftThreads{"CUSPAN_SOFT_THREADS", "cores",
                                      "worker threads of a software GPU"};
inline constexpr Setting kSoftModel{
    "CUSPAN_SOFT_MODEL", "auto",
    "how its kernels run: vector (warps as vectors), thread (a fiber a thread), or auto"};
inline constexpr Setting kSoftInstructions{
    "CUSPAN_SOFT_INSTRUCTIONS", "host",
    "what its kernels are compiled to: host (all that the processor has), or avx2"};
inline constexpr Setting kSoftCache{
    "CUSPAN_SOFT_CACHE", "~/.cache/cuspan/kernels",
    "folder of kernels it has compiled (below XDG_CACHE_HOME where that is set), or off"};
inline constexpr Setting kSoftWatchdog{
    "CUSPAN_SOFT_WATCHDOG", "off",
    "seconds that a kernel may run before it is ended with an error (1 … 1000000), or off"};
inline constexpr Setting kSoftCheck{
    "CUSPAN_SOFT_CHECK", "off",
    "memory: every access of a kernel is checked, a bad one named (slow); or off"};
inline constexpr Setting kSoftCopyRate{
    "CUSPAN_SOFT_COPY_RATE", "off",
    "GB/s that its copies to and from the host reach at most (0.001 … 10000), or off"};
inline constexpr Setting kSoftCacheBytes{"CUSPAN_SOFT_CACHE_BYTES", "256M",
                                         "most that this folder holds (1M … 1T)"};
}  // namespace settings

// All of the above, in the order of --help.
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
