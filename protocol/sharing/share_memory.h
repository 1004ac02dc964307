// The account of a shared GPU's memory: what each run has of it, and may have.
//
// A run may have a cap (ShareTerms::memory), which is kept for it: it has no more than that, and
// the runs without one share what the caps of all, and what contexts need, leave. As long as no run
// has a cap only the driver decides.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "common/mutex.h"
#include "common/status.h"
#include "common/unique_fd.h"

namespace cuspan {
namespace sharing {
class ShareFile;
}

// What one run has, and may have.
struct MemoryRoom {
  std::uint64_t cap = 0;                   // 0: none.
  std::uint64_t used = 0;                  // Of all its sessions.
  std::uint64_t left = ~std::uint64_t{0};  // Without a limit where no run has a cap.
  bool made = false;                       // Others make room for what is left.
};

// Threads: any.
class ShareMemory {
 public:
  // `table` is of ShareTable::OpenAgain, `run` of FindRun. `session`: whose account it is, of
  // ShareSlot; without one it only looks.
  static Result<std::unique_ptr<ShareMemory>> Open(UniqueFd table, std::uint32_t run,
                                                   std::optional<std::uint32_t> session);
  ~ShareMemory();
  ShareMemory(const ShareMemory&) = delete;

  // Counts `bytes` as the session's; false, and nothing is counted, when its run may not have as
  // much more. `fixed`: they can not be brought to the host.
  bool Take(std::uint64_t bytes, bool fixed = false);
  void Give(std::uint64_t bytes, bool fixed = false);
  MemoryRoom Look();

  // --- Of a run whose memory may be brought to the host. What is to be there is counted first;
  // then others are asked for room until nothing lacks.

  // So much of what is counted as the session's is not on the GPU, and as much more can not be
  // brought away for now.
  void SetOut(std::uint64_t bytes, std::uint64_t stuck = 0);
  // The driver has no room for so much, whatever is known of the GPU: others make as much more.
  void SetRefused(std::uint64_t bytes);
  // Whether all that is counted as there can be there, or nobody can make more room: then the
  // driver knows. If not, sessions of other runs are asked to bring theirs to the host as soon as
  // they may not use the GPU (ShareSlot::evict), and this one is rung when that has changed.
  bool HasRoom();
  // The same, without asking anybody.
  bool Fits();
  // Moving so much took so long.
  void Learn(std::uint64_t bytes, std::chrono::nanoseconds time);

 private:
  ShareMemory(std::unique_ptr<sharing::ShareFile> file, std::uint32_t run,
              std::optional<std::uint32_t> session);

  Mutex mutex_;
  const std::unique_ptr<sharing::ShareFile> file_;
  const std::uint32_t run_;
  const std::optional<std::uint32_t> session_;
};

}  // namespace cuspan
