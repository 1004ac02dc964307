// Checks of one host's facts.
#include <algorithm>

#include "common/settings.h"
#include "launcher/doctor/checks.h"

namespace cuspan::doctor {
namespace {

// Values of CUcomputemode, from cuda.h.
constexpr std::int32_t kProhibited = 2;
constexpr std::int32_t kExclusiveProcess = 3;

constexpr std::uint64_t kMiB = 1 << 20;
// RDMA and drivers pin an agent's staging buffers.
constexpr std::uint64_t kLockedBytes = 64 * kMiB;
// Measured: with 48 files an agent opens no device; with 64 it works on a host with two.
constexpr std::uint64_t kFewestFiles = 64;
constexpr std::uint64_t kComfortableFiles = 1024;
constexpr std::uint64_t kFewestProcesses = 256;
// Measured: with 2 MiB, Open MPI ends.
constexpr std::uint64_t kTemporaryBytes = 4 * kMiB;
// Measured: an agent of UCX 1.13 does not start with 4 MiB, but with 8. Open MPI needs none.
constexpr std::uint64_t kSharedBytes = 8 * kMiB;
constexpr std::uint64_t kComfortableShared = 64 * kMiB;
// Memory of a run's processes besides channels.
constexpr std::uint64_t kProcessBytes = 64 * kMiB;
// Minimum address space reserved by a proxy or a client, for a device's memory and its own.
constexpr std::uint64_t kFewestAddressBytes = 1024 * 1024 * kMiB;

std::string MegabytesText(std::uint64_t bytes) {
  return bytes < 10 * kMiB ? Format("{} KiB", bytes / 1024) : Format("{} MiB", bytes / kMiB);
}

class List {
 public:
  explicit List(const Visit& visit) : host_(visit.host) {}
  void Error(const char* id, std::string message, std::string action) {
    found.push_back({id, Severity::kError, host_, std::move(message), std::move(action)});
  }
  void Warning(const char* id, std::string message, std::string action) {
    found.push_back({id, Severity::kWarning, host_, std::move(message), std::move(action)});
  }
  void Add(bool error, const char* id, std::string message, std::string action) {
    (error ? Error(id, std::move(message), std::move(action))
           : Warning(id, std::move(message), std::move(action)));
  }
  std::vector<Finding> found;

 private:
  const std::string host_;
};

bool HasReal(const HostFacts& facts) {
  return std::any_of(facts.gpus.begin(), facts.gpus.end(),
                     [](const GpuFacts& gpu) { return !gpu.software; });
}
bool HasSoftware(const HostFacts& facts) {
  return std::any_of(facts.gpus.begin(), facts.gpus.end(),
                     [](const GpuFacts& gpu) { return gpu.software; });
}

// The problem without the host name that an agent prepends.
std::string GpuProblem(const HostFacts& facts) {
  const std::string& problem = facts.gpu_problem;
  const std::string name = Format("host {}: ", facts.host);
  const std::size_t at = problem.find(name);
  return at == std::string::npos ? problem : problem.substr(at + name.size());
}

// The same without the remedy.
std::string WhyNoGpu(const HostFacts& facts) {
  const std::string problem = GpuProblem(facts);
  return problem.substr(0, problem.find("; "));
}

}  // namespace

std::vector<Finding> CheckPrograms(const Needs& needs, const Visit& visit) {
  List list(visit);
  const HostFacts& facts = *visit.facts;
  if (!facts.install_problem.empty())
    list.Error("cuspan-incomplete", facts.install_problem,
               "install cuspan there again, in a directory whose path has no blanks or colons");
  else if (!facts.agent_problem.empty())
    list.Error("agent-not-starting", Format("cuspan-agent does not start: {}", facts.agent_problem),
               Format("install {} there, in the version that cuspan was built with", needs.mpi));
  if (needs.ucx_relay() && !facts.ucx_problem.empty())
    list.Error("ucx-missing", Format("cuspan-agent-ucx does not start: {}", facts.ucx_problem),
               "install UCX and cuspan's part for it there, or use --relay mpi");
  if (!facts.code_problem.empty() && (visit.own || HasSoftware(facts)))
    list.Error("code-protected",
               Format("code cannot be written and then executed: {}", facts.code_problem),
               visit.own ? "allow it for the program (SELinux: execmem and execmod; systemd: "
                           "MemoryDenyWriteExecute=no; a container: another seccomp profile)"
                         : "allow it for the software GPU (SELinux: execmem; systemd: "
                           "MemoryDenyWriteExecute=no; a container: another seccomp profile)");
  if (!needs.mpi_relay()) return list.found;
  if (visit.own && facts.mpirun.empty())
    list.Error("mpirun-missing", Format("there is no mpirun to start the agents"),
               Format("install {}, set MPIRUN to its mpirun, or use --relay ucx", needs.mpi));
  else if (visit.own && facts.mpirun_kind.empty())
    list.Warning("mpirun-unknown", Format("{} does not report its MPI", facts.mpirun),
                 Format("set MPIRUN to the mpirun of {}, the MPI of cuspan-agent", needs.mpi));
  else if (visit.own && facts.mpirun_kind != needs.mpi)
    list.Error("mpirun-other-mpi",
               Format("{} belongs to {}, but cuspan-agent was built with {}", facts.mpirun,
                      facts.mpirun_kind, needs.mpi),
               Format("set MPIRUN to the mpirun of {}", needs.mpi));
  else if (!visit.own && facts.mpi_daemon.empty())
    list.Add(
        !needs.mpi_has_prefix, "mpi-daemon-missing",
        Format("{}'s mpirun starts its daemon there, but this daemon is not in PATH", needs.mpi),
        Format("install {} there, or set PATH where the remote shell reads it", needs.mpi));
  return list.found;
}

std::vector<Finding> CheckGpus(const Needs& needs, const Visit& visit, bool has_gpus) {
  List list(visit);
  const HostFacts& facts = *visit.facts;
  if (visit.devices == 0) return list.found;
  if (!facts.denied_devices.empty() && needs.device != "soft") {
    std::string names;
    for (const std::string& name : facts.denied_devices)
      names += (names.empty() ? "" : ", ") + name;
    list.Add(!has_gpus, "device-files", Format("no permission to open {}", names),
             "add the user to the group of these files (ls -l /dev/nvidia*), or ask for the GPUs "
             "of the batch job or container");
  }
  if (needs.device == "cuda" && facts.gpus.empty() && facts.denied_devices.empty())
    list.Add(!has_gpus, "no-gpu", WhyNoGpu(facts),
             "install or repair NVIDIA's driver there (nvidia-smi has the details), omit the host, "
             "or use --device soft");
  if (needs.device != "cuda" && facts.gpus.empty())
    list.Add(!has_gpus, "software-gpu-missing", GpuProblem(facts),
             Format("see its limits (ulimit -f, memory) and {}; else install cuspan there again",
                    settings::kSoftGpus.name));
  std::uint32_t number = 0;
  for (const GpuFacts& gpu : facts.gpus) {
    if (gpu.compute_mode == kProhibited)
      list.Add(!has_gpus, "compute-mode-prohibited",
               Format("GPU {} ({}) is in compute mode prohibited", number, gpu.name),
               Format("as root: nvidia-smi -i {} -c DEFAULT", number));
    if (gpu.compute_mode == kExclusiveProcess)
      list.Warning("compute-mode-exclusive",
                   Format("GPU {} ({}) accepts one process at a time, but each process of a "
                          "program has its own proxy process",
                          number, gpu.name),
                   Format("for programs of several processes, as root: nvidia-smi -i {} -c DEFAULT",
                          number));
    ++number;
  }
  return list.found;
}

std::vector<Finding> CheckLimits(const Needs& needs, const Visit& visit, std::uint64_t devices) {
  List list(visit);
  const HostFacts& facts = *visit.facts;
  const LimitFacts& limits = facts.limits;
  if (limits.locked_bytes < kLockedBytes && (HasReal(facts) || (needs.relayed && facts.rdma)))
    list.Warning(
        "limit-locked-memory",
        Format("locked memory is limited to {} (ulimit -l), possibly too little for {}",
               MegabytesText(limits.locked_bytes), facts.rdma ? "a network with RDMA" : "GPUs"),
        "raise memlock in /etc/security/limits.conf there, or LimitMEMLOCK of the "
        "service that starts the shell");
  if (limits.open_files < kComfortableFiles)
    list.Add(limits.open_files < kFewestFiles, "limit-open-files",
             Format("processes may open {} files (ulimit -Hn), {} {}", limits.open_files,
                    limits.open_files < kFewestFiles ? "and agents need" : "fewer than",
                    limits.open_files < kFewestFiles ? kFewestFiles : kComfortableFiles),
             "raise nofile in /etc/security/limits.conf there, or LimitNOFILE of the service that "
             "starts the shell");
  if (limits.processes < kFewestProcesses)
    list.Warning("limit-processes",
                 Format("the user may have {} processes and threads (ulimit -u)", limits.processes),
                 "raise nproc in /etc/security/limits.conf there");
  if (!facts.thread_problem.empty())
    list.Error("limit-threads",
               Format("a process cannot start the threads it needs: {}", facts.thread_problem),
               "raise these limits, or ask the batch job or container for more");
  if (limits.address_bytes < kFewestAddressBytes)
    list.Error("limit-address-space",
               Format("the address space of processes is limited to {} (ulimit -v), but CUDA "
                      "reserves far more than it uses",
                      MegabytesText(limits.address_bytes)),
               "remove the limit (ulimit -v unlimited), or limit resident memory instead");
  if (limits.file_bytes < facts.channel_bytes)
    list.Error("limit-file-size",
               Format("files, including shared memory, are limited to {} (ulimit -f)",
                      MegabytesText(limits.file_bytes)),
               Format("raise the limit to {} or more", MegabytesText(facts.channel_bytes)));
  const std::uint64_t needed = devices * facts.channel_bytes + kProcessBytes;
  if (facts.memory_bytes < needed)
    list.Error("memory-low",
               Format("{} of memory are available, but {} GPUs need {}",
                      MegabytesText(facts.memory_bytes), devices, MegabytesText(needed)),
               Format("ask the batch job or container for more memory, use fewer GPUs, or smaller "
                      "buffers ({})",
                      settings::kStagingBuffers.name));
  return list.found;
}

std::vector<Finding> CheckFolders(const Needs& needs, const Visit& visit) {
  List list(visit);
  const HostFacts& facts = *visit.facts;
  const FolderFacts& shared = facts.shared_memory;
  const bool needed = needs.ucx_relay();
  if (!shared.problem.empty())
    list.Add(needed, "shm-unusable",
             Format("{}, the folder of the shared memory of {}, cannot be written to: {}",
                    shared.path, needed ? "UCX" : "NCCL and of runs with --share", shared.problem),
             Format("mount a writable tmpfs there (a container: --shm-size), or for --share set {}",
                    settings::kShareFolder.name));
  else if (shared.free_bytes < kComfortableShared)
    list.Add(needed && shared.free_bytes < kSharedBytes, "shm-low",
             Format("{} has {} free, and {}", shared.path, MegabytesText(shared.free_bytes),
                    needed ? Format("UCX needs {} for each agent", MegabytesText(kSharedBytes))
                           : Format("NCCL may need {}", MegabytesText(kComfortableShared))),
             "remove files left there by other programs, or enlarge it (a container: --shm-size; "
             "else mount -o remount,size=…)");

  const FolderFacts& temporary = facts.temporary;
  if (!temporary.problem.empty() && temporary.free_bytes >= kTemporaryBytes)
    list.Add(needs.mpi_relay(), "tmpdir-unusable",
             Format("the temporary directory {} cannot be written to: {}", temporary.path,
                    temporary.problem),
             "set TMPDIR to another directory");
  else if (temporary.free_bytes < kTemporaryBytes)
    list.Add(needs.mpi_relay(), "tmpdir-full",
             Format("the temporary directory {} has {} free{}", temporary.path,
                    MegabytesText(temporary.free_bytes),
                    temporary.problem.empty() ? "" : Format(": {}", temporary.problem)),
             "free some space there, or set TMPDIR to another directory");

  const bool leases = facts.leases == "on" || (facts.leases == "auto" && HasReal(facts));
  if (leases && visit.devices != 0 && !facts.locks.problem.empty())
    list.Error(
        "lease-folder", Format("GPU locks cannot be stored: {}", facts.locks.problem),
        Format("set {} to a sticky directory (chmod 1777) owned by root, the same on all hosts",
               settings::kLeaseFolder.name));
  if (HasSoftware(facts) && !facts.kernels.problem.empty())
    list.Warning(
        "kernel-cache",
        Format("compiled kernels of the software GPU cannot be stored: {}", facts.kernels.problem),
        Format("set {} to a directory of yours, or to off", settings::kSoftCache.name));
  return list.found;
}

std::vector<Finding> CheckSoftware(const Needs& needs, const std::vector<Visit>& visits) {
  if (needs.device != "auto") return {};
  bool real = false;
  const Visit* first = nullptr;
  std::string hosts;
  for (const Visit& visit : visits) {
    if (!visit.facts || visit.devices == 0) continue;
    real = real || HasReal(*visit.facts);
    if (!HasSoftware(*visit.facts)) continue;
    if (first == nullptr) first = &visit;
    hosts += (hosts.empty() ? "" : ", ") + visit.host;
  }
  if (first == nullptr) return {};
  return {
      {"software-gpu", Severity::kWarning, first->host,
       Format("{}, so the software GPU of {} would be used{}: {}",
              real ? "some hosts have no GPU" : "no host has a GPU", hosts,
              real ? " beside the others" : "", WhyNoGpu(*first->facts)),
       Format("install NVIDIA's driver there, {}, or use --device soft to select the software GPU",
              real ? "omit the host (--device cuda does)" : "name hosts with GPUs (--hosts)")}};
}

}  // namespace cuspan::doctor
