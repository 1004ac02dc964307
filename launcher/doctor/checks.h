// Checks for conditions that prevent a run, or may: pure functions over the facts of hosts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/doctor/facts.h"
#include "launcher/run/plan.h"

namespace cuspan::doctor {

enum class Severity { kWarning, kError };

struct Finding {
  std::string id;  // Id of its kind; the same in all versions.
  Severity severity = Severity::kError;
  std::string host;
  std::string message;  // The problem,
  std::string action;   // and the remedy.
  bool operator==(const Finding&) const = default;
};

// Requirements of the run.
struct Needs {
  std::string device = "auto";  // See ClusterOptions.
  RelayKind relay = RelayKind::kMpi;
  bool relayed = false;         // Agents communicate, on several hosts or on this one.
  std::string mpi;              // Name of the agents' MPI for users.
  bool mpi_has_prefix = false;  // mpirun is called by its path, and so are its daemons.
  std::string remote_shell;     // Command to reach other hosts.
  std::string cuspan;           // Path on other hosts.
  bool may_lack_shell = false;  // A batch system has its own way to reach them.
  bool mpi_relay() const { return relayed && relay == RelayKind::kMpi; }
  bool ucx_relay() const { return relayed && relay == RelayKind::kUcx; }
};

// Result of querying one host.
struct Visit {
  std::string host;
  bool own = false;                     // The host that would start the run.
  std::uint32_t devices = kAllDevices;  // Maximum number for the run.
  bool resolves = true;                 // Its name has an address here.
  std::optional<HostFacts> facts;
  // Only without facts:
  std::optional<int> wait_status;  // Status of the remote shell; empty: timeout.
  std::uint32_t waited_seconds = 0;
  std::string errors;  // Standard error of the remote shell.
  // Independent of facts:
  std::string stray;  // Standard output other than facts.
  // Minimum lead of its clock on this host's, in s; negative: lag.
  double clock_apart = 0;
  std::vector<Reached> reached;     // Other hosts, as reached from there.
  bool unanswered = false;          // The query about other hosts timed out.
  std::optional<Reached> measured;  // Path from the first host to this one.
};

// Bandwidth below this causes a warning: 1 Gbit/s, minus the overhead of Ethernet and TCP.
inline constexpr double kEnoughBytesPerSecond = 0.85e9 / 8;

// The first visit is the run's own host.
std::vector<Finding> CheckAll(const Needs& needs, const std::vector<Visit>& visits);

// --- Parts of CheckAll

std::vector<Finding> CheckReached(const Needs& needs, const Visit& visit);
// Requires a host with the same version.
std::vector<Finding> CheckPrograms(const Needs& needs, const Visit& visit);
// A problem with a host's GPUs is an error, unless the run `has_gpus` elsewhere: then a warning.
std::vector<Finding> CheckGpus(const Needs& needs, const Visit& visit, bool has_gpus);
// `devices`: number of devices with a channel on this host; on the run's own host, all of the
// run's.
std::vector<Finding> CheckLimits(const Needs& needs, const Visit& visit, std::uint64_t devices);
std::vector<Finding> CheckFolders(const Needs& needs, const Visit& visit);
std::vector<Finding> CheckSettings(const Visit& visit, const Visit& own);
// Check of all hosts together: software GPUs used without being requested.
std::vector<Finding> CheckSoftware(const Needs& needs, const std::vector<Visit>& visits);
std::vector<Finding> CheckLinks(const Visit& visit, const Visit& own);

// Number of the host's GPUs usable for a run.
std::uint64_t UsableDevices(const Visit& visit);
}  // namespace cuspan::doctor
