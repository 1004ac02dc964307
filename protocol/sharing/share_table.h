// The table of runs sharing one GPU of a host: a small file in memory, mapped by agents and
// proxies. Each agent has a slot for its run, each proxy a slot for its session. No process is in
// charge: a process changing the table decides for all (common/scheduling).
//
//   FOLDER/cuspan-share-HOST-GPU-USER     USER: a number; for runs of one user
//   FOLDER/cuspan-share-HOST-GPU-all      for runs of several users, time-sliced
//
// The second form requires a directory made by an administrator: owned by root, set-group-ID,
// sticky, writable for its group and not for others (mode 3770). The group's members can change the
// table: they have to trust each other.
//
// Slots and the right to change the table are locks on single bytes of the file (fcntl,
// F_OFD_SETLK). The kernel releases them when the process dies. If a process died while changing
// the table, the next one repairs it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/scheduling/time_slices.h"
#include "common/status.h"
#include "common/unique_fd.h"
#include "structs.gen.h"

namespace cuspan {
namespace sharing {
class ShareFile;
}

inline constexpr std::uint32_t kMaxSharingSessions = 64;

// Threads: one. Each object has its own open file description, and holds its slots by it.
class ShareTable {
 public:
  // The table of a GPU for runs in pairs, or time-sliced. `host` is in the form of file names,
  // `gpu` the GPU's key. An unused table is reinitialized. Call with the host's queue locked.
  static Result<ShareTable> OpenOrCreate(const std::string& folder, const std::string& host,
                                         const std::string& gpu, bool pairs = false);
  // kNotFound if it does not exist.
  static Result<ShareTable> Open(const std::string& folder, const std::string& host,
                                 const std::string& gpu, bool pairs = false);
  // Removes the host's unused tables accessible to this user. Call with the host's queue locked.
  static void RemoveUnused(const std::string& folder, const std::string& host);
  ShareTable(ShareTable&&) noexcept;
  ShareTable& operator=(ShareTable&&) = delete;
  // Releases the run's slot. The file stays until RemoveUnused.
  ~ShareTable();

  // A new open file description, for a proxy.
  Result<UniqueFd> OpenAgain() const;

  // Size of the GPU's memory. Called by the process that created the table.
  void SetGpuMemory(std::uint64_t bytes);

  // --- Runs

  // True if any run has a slot.
  bool HasRuns() const;
  // Checks if a run with these parameters may join now. kExhausted gives the reason as a phrase ("4
  // runs share it already").
  Status MayJoin(const ShareTerms& terms);
  // Takes a slot for a run; errors as MayJoin.
  Status JoinRun(const std::string& run, const std::string& user, const std::string& program,
                 const ShareTerms& terms);
  // The slot of the run with this id.
  Result<std::uint32_t> FindRun(const std::string& run);
  // All runs, for display.
  Result<std::vector<SharingRun>> Query();

 private:
  explicit ShareTable(std::unique_ptr<sharing::ShareFile> file);
  Status MayJoinLocked(const ShareTerms& terms) const;
  void Leave();

  std::unique_ptr<sharing::ShareFile> file_;
  std::optional<std::uint32_t> joined_;
};

}  // namespace cuspan
