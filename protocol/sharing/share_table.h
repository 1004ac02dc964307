// The table of the runs that share one GPU of a host: a small file in memory, mapped by the agents
// that have a place in it for their run, and by the proxies that have one for their session. There
// is no process that keeps it: whoever changes something decides for all (common/scheduling).
//
//   FOLDER/cuspan-share-HOST-GPU-USER     USER: a number, since a table is for the runs of one user
//   FOLDER/cuspan-share-HOST-GPU-all      of runs of several users, in turns
//
// The latter in a directory that an administrator made for that: of root, set-group-ID, sticky, and
// such that its group may write there and others may not (mode 3770). The members of the group can
// change the table: they have to trust each other.
//
// Places and the right to change the table are locks on single bytes of the file (fcntl,
// F_OFD_SETLK), which the kernel takes back when the process dies. Who finds that the last one died
// while it changed the table makes what it left whole again.
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

// One thread. Of one open file description: its places end with it.
class ShareTable {
 public:
  // The table of a GPU (`host` as file names have it, `gpu` its key), for runs that share it by
  // time, or in pairs. One that nobody uses is made anew. To be called while the host's queue is
  // locked.
  static Result<ShareTable> OpenOrCreate(const std::string& folder, const std::string& host,
                                         const std::string& gpu, bool pairs = false);
  // kNotFound where there is none.
  static Result<ShareTable> Open(const std::string& folder, const std::string& host,
                                 const std::string& gpu, bool pairs = false);
  // Removes the tables of the host that this user may use and nobody does. To be called while the
  // host's queue is locked.
  static void RemoveUnused(const std::string& folder, const std::string& host);
  ShareTable(ShareTable&&) noexcept;
  ShareTable& operator=(ShareTable&&) = delete;
  // Leaves the run's place. The file stays until RemoveUnused.
  ~ShareTable();

  // Another open file description of it, for a proxy.
  Result<UniqueFd> OpenAgain() const;

  // How much memory the GPU has. To be called by who has made the table.
  void SetGpuMemory(std::uint64_t bytes);

  // --- Runs.

  // Whether a run has a place.
  bool HasRuns() const;
  // Whether a run with these terms may come in now: kExhausted says why not, as a phrase ("4 runs
  // share it already").
  Status MayJoin(const ShareTerms& terms);
  // Takes a place for a run; as MayJoin.
  Status JoinRun(const std::string& run, const std::string& user, const std::string& program,
                 const ShareTerms& terms);
  // The place of a run of this id.
  Result<std::uint32_t> FindRun(const std::string& run);
  // All runs, for people.
  Result<std::vector<SharingRun>> Look();

 private:
  explicit ShareTable(std::unique_ptr<sharing::ShareFile> file);
  Status MayJoinLocked(const ShareTerms& terms) const;
  void Leave();

  std::unique_ptr<sharing::ShareFile> file_;
  std::optional<std::uint32_t> joined_;
};

}  // namespace cuspan
