// What one host says of itself: what a run would find there.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace cuspan::doctor {

// A folder that something is written to.
struct FolderFacts {
  std::string path;              // Empty: nothing is.
  std::string problem;           // Why it cannot be used; empty: it can.
  std::uint64_t free_bytes = 0;  // The largest number: not known.
};

struct GpuFacts {
  std::string name;
  bool software = false;
  std::int32_t compute_mode = 0;     // CUcomputemode of cuda.h.
  std::uint32_t driver_version = 0;  // 12040 is CUDA 12.4.
};

struct LimitFacts {
  // The largest number: no limit.
  std::uint64_t locked_bytes = 0;                   // ulimit -l
  std::uint64_t open_files = 0;                     // ulimit -Hn, to which agents raise theirs
  std::uint64_t processes = 0;                      // ulimit -u; no limit for root
  std::uint64_t file_bytes = 0;                     // ulimit -f
  std::uint64_t address_bytes = ~std::uint64_t{0};  // ulimit -v
};

struct HostFacts {
  std::string host;      // Its own name.
  std::string version;   // Of the cuspan there,
  std::string protocol;  // and of its messages.
  // Empty where nothing is wrong; else what is.
  std::string install_problem;  // A file of cuspan's that is missing.
  std::string agent_problem;    // Why cuspan-agent does not start,
  std::string ucx_problem;      // and cuspan-agent-ucx.
  std::string code_problem;     // Code cannot be written and then executed.
  std::string thread_problem;   // A process cannot start as many threads as one of a run has.
  std::string gpu_problem;      // Why there are no GPUs, or only software ones.
  std::string mpirun;           // Its path; empty: there is none.
  std::string mpirun_kind;      // "Open MPI", "MPICH", or empty: not known.
  std::string mpi_daemon;  // What mpirun starts on other hosts: its path; empty: there is none.
  std::vector<GpuFacts> gpus;
  std::vector<std::string> denied_devices;    // Files of /dev that this user may not open.
  std::vector<std::string> unknown_settings;  // Variables CUSPAN_… that mean nothing.
  LimitFacts limits;
  bool rdma = false;
  FolderFacts shared_memory;        // CUSPAN_SHARE_FOLDER, and where MPI and NCCL share memory.
  FolderFacts temporary;            // TMPDIR.
  FolderFacts locks;                // CUSPAN_LEASE_FOLDER.
  FolderFacts kernels;              // CUSPAN_SOFT_CACHE.
  std::string leases;               // CUSPAN_LEASES.
  std::uint64_t memory_bytes = 0;   // To be had.
  std::uint64_t channel_bytes = 0;  // What a GPU in use takes of it.
  std::vector<std::string> places;  // Addresses with a port at which the probe listens.
  double time = 0;                  // Seconds since 1970, when this was said.
};

// One line of JSON.
std::string FactsText(const HostFacts& facts);
// Whether a line may be what FactsText writes, of whichever version.
bool LooksLikeFacts(std::string_view line);
// kInvalid for what FactsText does not write. Of another version of cuspan, or of its messages,
// only these two are read.
Result<HostFacts> ParseFacts(std::string_view line);

// --- What the doctor asks a probe, and what it answers: lines of JSON.

// By what the two ends of a connection know each other: random numbers of a probe, in hexadecimal.
struct Passwords {
  std::string ask;
  std::string answer;
};

// Another host, as a probe reaches it.
struct Target {
  std::string host;
  std::vector<std::string> places;
  Passwords passwords;
};

// What came of reaching it.
struct Reached {
  std::string host;
  std::string problem;          // Empty: it answered.
  bool stalled = false;         // It answered, but more than a few bytes did not pass.
  std::string place;            // The address that answered.
  std::uint32_t mtu = 0;        // Of the way there, in bytes; 0: not known.
  std::uint32_t peer_mtu = 0;   // And of the way back.
  double bytes_per_second = 0;  // Where it was measured.
};

struct Request {
  std::vector<Passwords> own;  // One: those of this probe, which it begins to listen for.
  bool clock = false;          // What time is it?
  std::vector<Target> reach;
  std::vector<Target> measure;  // One after the other.
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
