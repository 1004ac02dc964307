// A session's slot in the table of runs sharing its GPU. The session publishes its work, and reads
// its permission to submit.
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

// Threads: one, except for AwaitRing and functions marked otherwise.
class ShareSlot {
 public:
  // `table` is from ShareTable::OpenAgain, `run_slot` from FindRun.
  static Result<std::unique_ptr<ShareSlot>> Take(UniqueFd table, std::uint32_t run_slot);
  ~ShareSlot();
  ShareSlot(const ShareSlot&) = delete;

  // Releases the slot at once, before others detect the process's end. Call at most once;
  // afterwards only gated() and rings() may be called.
  void Leave();

  // Sharing parameters of its run.
  ShareTerms terms() const;
  // Path of the table's file; empty if it was deleted.
  std::string path() const;

  // The session's memory account; not to be used after Leave.
  Result<std::unique_ptr<ShareMemory>> OpenMemory() const;

  // --- The table's last decision (cheap)

  // True if the session's work has to pass its gate: other runs are present, or the run has a
  // limit.
  bool gated() const { return gated_.load(std::memory_order_relaxed) != 0; }
  // True if this session may submit work to the GPU.
  bool open() const;
  // Bytes of this session's memory to be swapped out for another run.
  std::uint64_t evict() const;
  // True if another run may preempt this one at any time.
  bool preemptible() const;
  // True if another run may be on the GPU at the same time.
  bool paired() const;
  // Number of times this has begun. Threads: any.
  std::uint32_t pairings() const;
  // Number of partners replaced by a better one, and the last change's expected gain and cost (ns
  // of work).
  struct Changes {
    std::uint64_t number = 0;
    double gain = 0, cost = 0;
  };
  Changes changes() const;
  // True if any run waits for the GPU.
  bool some_wait() const;
  // Time of the next decision by the clock of Now, if nothing changes before.
  std::uint64_t next_decision() const;

  // --- The session's state. Call Decide afterwards if others must react at once.

  // It has work from now on. Visible to others before the next read of open().
  void SetWants();
  // It has no work since `now`.
  void SetIdle(std::uint64_t now);
  // True if it has work on the GPU. `done_by` is the predicted end of this work (0: unknown).
  bool on_gpu() const;  // Threads: any.
  void SetOnGpu(bool on_gpu, std::uint64_t done_by, std::uint64_t now);

  // Bottleneck of its work.
  void SetBottleneck(scheduling::Bottleneck bottleneck);
  // True if the stand-alone time of its work is known; and the work completed, in ns of stand-alone
  // time.
  void SetKnown(bool known);
  void SetDone(std::uint64_t nanoseconds);

  // Decides for all runs. If it fails because of the table, the session continues as if alone on
  // the GPU.
  Status Decide();

  // Sleeps until the table wakes this session; returns the number of wake-ups. For a separate
  // thread.
  std::uint32_t AwaitRing(std::uint32_t seen, std::chrono::milliseconds limit);
  std::uint32_t rings() const { return rung_.load(std::memory_order_acquire); }
  // Wakes this session's own thread. Threads: any.
  void RingSelf();

  static std::uint64_t Now();

 private:
  ShareSlot(std::unique_ptr<sharing::ShareFile> file, std::uint32_t place);
  sharing::SessionSlot& own() const;

  const std::unique_ptr<sharing::ShareFile> file_;
  const std::uint32_t slot_;
  bool left_ = false;
  // Both point into the table.
  const std::atomic<std::uint32_t>& gated_;
  const std::atomic<std::uint32_t>& rung_;
};

}  // namespace cuspan
