// What keeps a run from working, or may: pure functions over what hosts say of themselves.
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
  std::string id;  // Of its kind; stays the same from version to version.
  Severity severity = Severity::kError;
  std::string host;
  std::string message;  // What is wrong,
  std::string action;   // and what to do.
  bool operator==(const Finding&) const = default;
};

// What the run would use.
struct Needs {
  std::string device = "auto";  // As in ClusterOptions.
  RelayKind relay = RelayKind::kMpi;
  bool relayed = false;  // Agents of several hosts, or of this one alone, talk to each other.
  std::string mpi;       // The MPI of the agents, as users know it.
  bool mpi_has_prefix = false;  // Its mpirun is called by its path, and so are its daemons.
  std::string remote_shell;     // By which other hosts are reached.
  std::string cuspan;           // Its path on other hosts.
  bool may_lack_shell = false;  // A batch system has a way of its own.
  bool mpi_relay() const { return relayed && relay == RelayKind::kMpi; }
  bool ucx_relay() const { return relayed && relay == RelayKind::kUcx; }
};

// What came of asking one host.
struct Visit {
  std::string host;
  bool own = false;                     // The one where the run would start.
  std::uint32_t devices = kAllDevices;  // Of it, for the run at most.
  bool resolves = true;                 // Its name has an address here.
  std::optional<HostFacts> facts;
  // Where there are no facts:
  std::optional<int> wait_status;  // How the remote shell ended; none: it was late.
  std::uint32_t waited_seconds = 0;
  std::string errors;  // Its standard error,
  // and with facts or without:
  std::string stray;                // what came on standard output that is no fact.
  double clock_apart = 0;           // Seconds by which its clock is ahead of ours, at least.
  std::vector<Reached> reached;     // Others, from there.
  bool unanswered = false;          // It was asked about them, and did not answer in time.
  std::optional<Reached> measured;  // From the first host to there.
};

// A link that is slower is worth a warning. Of 1 Gbit/s, without what Ethernet and TCP add.
inline constexpr double kEnoughBytesPerSecond = 0.85e9 / 8;

// The first visit is that of the run's own host.
std::vector<Finding> CheckAll(const Needs& needs, const std::vector<Visit>& visits);

// --- Its parts

std::vector<Finding> CheckReached(const Needs& needs, const Visit& visit);
// Of a host of the same version.
std::vector<Finding> CheckPrograms(const Needs& needs, const Visit& visit);
// What costs a host its GPUs is an error where no other `has_gpus`.
std::vector<Finding> CheckGpus(const Needs& needs, const Visit& visit, bool has_gpus);
// `devices` of the whole run have a channel on its own host.
std::vector<Finding> CheckLimits(const Needs& needs, const Visit& visit, std::uint64_t devices);
std::vector<Finding> CheckFolders(const Needs& needs, const Visit& visit);
std::vector<Finding> CheckSettings(const Visit& visit, const Visit& own);
// Of all hosts together: software GPUs that nobody has asked for.
std::vector<Finding> CheckSoftware(const Needs& needs, const std::vector<Visit>& visits);
std::vector<Finding> CheckLinks(const Visit& visit, const Visit& own);

// How many of its GPUs a run would use.
std::uint64_t UsableDevices(const Visit& visit);
}  // namespace cuspan::doctor
