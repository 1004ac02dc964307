// Facts of one host about itself: the conditions for a run there.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace cuspan::doctor {

// A folder used for writing.
struct FolderFacts {
  std::string path;              // Empty: not used.
  std::string problem;           // Reason it cannot be used; empty: usable.
  std::uint64_t free_bytes = 0;  // Maximum value: unknown.
};

struct GpuFacts {
  std::string name;
  bool software = false;
  std::int32_t compute_mode = 0;     // CUcomputemode from cuda.h.
  std::uint32_t driver_version = 0;  // 12040 is CUDA 12.4.
};

struct LimitFacts {
  // Maximum value: no limit.
  std::uint64_t locked_bytes = 0;  // ulimit -l
  // ulimit -Hn; agents raise their soft limit to it
  std::uint64_t open_files = 0;
  std::uint64_t processes = 0;                      // ulimit -u; no limit for root
  std::uint64_t file_bytes = 0;                     // ulimit -f
  std::uint64_t address_bytes = ~std::uint64_t{0};  // ulimit -v
};

struct HostFacts {
  std::string host;      // The host's own name.
  std::string version;   // Version of cuspan there,
  std::string protocol;  // and of its messages.
  // Problems; empty if there is none.
  std::string install_problem;  // A missing file of cuspan.
  std::string agent_problem;    // Failure of cuspan-agent to start,
  std::string ucx_problem;      // and of cuspan-agent-ucx.
  std::string code_problem;     // Code cannot be written and then executed.
  std::string thread_problem;   // A process cannot start as many threads as in a run.
  std::string gpu_problem;      // Reason for no GPUs, or only software GPUs.
  std::string mpirun;           // Its path; empty: not found.
  std::string mpirun_kind;      // "Open MPI", "MPICH", or empty: unknown.
  std::string mpi_daemon;  // Program started by mpirun on other hosts: its path; empty: not found.
  std::vector<GpuFacts> gpus;
  std::vector<std::string> denied_devices;    // Files of /dev not open to this user.
  std::vector<std::string> unknown_settings;  // Variables CUSPAN_… without a meaning.
  LimitFacts limits;
  bool rdma = false;
  FolderFacts shared_memory;        // CUSPAN_SHARE_FOLDER, also the shared memory of MPI and NCCL.
  FolderFacts temporary;            // TMPDIR.
  FolderFacts locks;                // CUSPAN_LEASE_FOLDER.
  FolderFacts kernels;              // CUSPAN_SOFT_CACHE.
  std::string leases;               // CUSPAN_LEASES.
  std::uint64_t memory_bytes = 0;   // Available memory.
  std::uint64_t channel_bytes = 0;  // Memory needed for each GPU in use.
  std::vector<std::string> places;  // Addresses with ports of the probe's listener.
  double time = 0;                  // Time of these facts, in s since 1970.
};

// One line of JSON.
std::string FactsText(const HostFacts& facts);
// True if a line may be from FactsText, of any version.
bool LooksLikeFacts(std::string_view line);
// kInvalid for text not from FactsText. If cuspan or its messages have another version, only these
// two fields are read.
Result<HostFacts> ParseFacts(std::string_view line);

// --- Requests of the doctor to a probe, and answers: lines of JSON.

// Passwords of the two ends of a connection: random numbers of a probe, in hexadecimal.
struct Passwords {
  std::string ask;
  std::string answer;
};

// Another host to be reached by a probe.
struct Target {
  std::string host;
  std::vector<std::string> places;
  Passwords passwords;
};

// Result of reaching it.
struct Reached {
  std::string host;
  std::string problem;          // Empty: it answered.
  bool stalled = false;         // It answered, but only a few bytes passed.
  std::string place;            // Address that answered.
  std::uint32_t mtu = 0;        // MTU of the path there, in bytes; 0: unknown.
  std::uint32_t peer_mtu = 0;   // MTU of the path back.
  double bytes_per_second = 0;  // Set if measured.
};

struct Request {
  std::vector<Passwords> own;  // One element: starts the probe's listener with these.
  bool clock = false;          // Requests the time.
  std::vector<Target> reach;
  std::vector<Target> measure;  // Measured one after the other.
};
struct Answer {
  double time = 0;
  std::vector<Reached> reached;
};
std::string RequestText(const Request& request);
Result<Request> ParseRequest(std::string_view line);
std::string AnswerText(const Answer& answer);
Result<Answer> ParseAnswer(std::string_view line);

// Seconds since 1970.
double Now();

}  // namespace cuspan::doctor
