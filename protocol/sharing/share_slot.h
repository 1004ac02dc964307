// A session's place in the table of the runs that share its GPU: it says whether it has work, and
// is told whether it may hand it to the GPU.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "common/scheduling/pairs.h"
#include "common/status.h"
#include "common/unique_fd.h"
#include "protocol/sharing/share_memory.h"
#include "structs.gen.h"

namespace cuspan {
namespace sharing {
class ShareFile;
struct SessionSlot;
}  // namespace sharing

// One thread, but for AwaitRing and what is said to be any's.
class ShareSlot {
 public:
  // `table` is of ShareTable::OpenAgain, `run_place` of FindRun.
  static Result<std::unique_ptr<ShareSlot>> Take(UniqueFd table, std::uint32_t run_place);
  ~ShareSlot();
  ShareSlot(const ShareSlot&) = delete;

  // Gives the place back, so that others need not find out. To be called once at most, and nothing
  // but gated and rings after it.
  void Leave();

  // On which terms its run shares the GPU.
  ShareTerms terms() const;
  // The table's file, by which others find it; empty where nobody knows it any more.
  std::string path() const;

  // Its account of the GPU's memory, which is not to be used after Leave.
  Result<std::unique_ptr<ShareMemory>> OpenMemory() const;

  // --- Cheap: what the table said last.

  // Whether the session's work has to pass its gate: other runs have a place, or the run has a
  // limit.
  bool gated() const { return gated_.load(std::memory_order_relaxed) != 0; }
  // Whether this session may hand work to the GPU.
  bool open() const;
  // So many bytes of this session's memory are to make room for another run.
  std::uint64_t evict() const;
  // Whether one of the other runs may take the GPU away at any time.
  bool preemptible() const;
  // Whether another run may be on the GPU at the same time.
  bool paired() const;
  // How often that has begun. Any thread.
  std::uint32_t pairings() const;
  // How often one of a pair had to make room for a better one, and what the last time was to gain
  // and to cost (ns of work).
  struct Changes {
    std::uint64_t number = 0;
    double gain = 0, cost = 0;
  };
  Changes changes() const;
  // Whether some run waits for the GPU.
  bool some_wait() const;
  // When to decide again, of the clock of Now, if nothing happens before.
  std::uint64_t look_next() const;

  // --- What the session does. To be followed by Decide where it matters to others at once.

  // It has work, from now on: that is published before open() is read the next time.
  void SetWants();
  // It has none, since `now`.
  void SetIdle(std::uint64_t now);
  // What it has on the GPU should be done by that time (0: who knows); with false nothing is there.
  bool on_gpu() const;  // Any thread.
  void SetOnGpu(bool on_gpu, std::uint64_t done_by, std::uint64_t now);

  // What limits its work.
  void SetLimits(scheduling::Limits limits);
  // Whether it is known how long its work takes alone, and how much has been done, by that (ns).
  void SetKnown(bool known);
  void SetDone(std::uint64_t nanoseconds);

  // Decides, for all. A failure is that of the table: then the session goes on as if it were alone.
  Status Decide();

  // Sleeps until the table has something to say to this session, and says how often it had; for a
  // thread of its own.
  std::uint32_t AwaitRing(std::uint32_t seen, std::chrono::milliseconds limit);
  std::uint32_t rings() const { return rung_.load(std::memory_order_acquire); }
  // Ends the sleep of this session's own thread. Any thread.
  void RingSelf();

  static std::uint64_t Now();

 private:
  ShareSlot(std::unique_ptr<sharing::ShareFile> file, std::uint32_t place);
  sharing::SessionSlot& own() const;

  const std::unique_ptr<sharing::ShareFile> file_;
  const std::uint32_t place_;
  bool left_ = false;
  // In the table.
  const std::atomic<std::uint32_t>& gated_;
  const std::atomic<std::uint32_t>& rung_;
};

}  // namespace cuspan
