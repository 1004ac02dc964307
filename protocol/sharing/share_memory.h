// Account of a shared GPU's memory: each run's usage and limits.
//
// A run may have a cap (ShareTerms::memory): its maximum, and reserved for it. Runs without a cap
// share the rest of the memory, after all caps and the contexts. If no run has a cap, only the
// driver limits allocations.
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

// Usage and limits of one run.
struct MemoryRoom {
  std::uint64_t cap = 0;                   // 0: no cap.
  std::uint64_t used = 0;                  // Total of its sessions.
  std::uint64_t left = ~std::uint64_t{0};  // Unlimited if no run has a cap.
  bool made = false;                       // Other runs swap out memory to provide `left`.
};

// Threads: any.
class ShareMemory {
 public:
  // `table` is from ShareTable::OpenAgain, `run` from FindRun. `session` is the account's session,
  // from ShareSlot; if empty, the account is read only.
  static Result<std::unique_ptr<ShareMemory>> Open(UniqueFd table, std::uint32_t run,
                                                   std::optional<std::uint32_t> session);
  ~ShareMemory();
  ShareMemory(const ShareMemory&) = delete;

  // Charges `bytes` to the session. If they exceed the run's limit, returns false and charges
  // nothing. `fixed`: they can not be swapped out.
  bool Take(std::uint64_t bytes, bool fixed = false);
  void Give(std::uint64_t bytes, bool fixed = false);
  MemoryRoom Query();

  // --- Runs with swapping. Memory is charged before it is brought to the GPU; then
  // --- other runs are asked to free memory until it fits.

  // Sets the bytes of the session swapped out, and the bytes not evictable for now.
  void SetOut(std::uint64_t bytes, std::uint64_t stuck = 0);
  // Sets the bytes refused by the driver in spite of the accounts: others must free as many more.
  void SetRefused(std::uint64_t bytes);
  // True if the charged memory fits, or no run can free more: then the driver decides. Otherwise
  // other runs' sessions are asked to swap out memory once they may not use the GPU
  // (ShareSlot::evict). This session is woken when that has changed.
  bool HasRoom();
  // True if the charged memory fits; requests nothing.
  bool Fits();
  // Records the time of moving `bytes`.
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
