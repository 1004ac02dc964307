// Swaps a session's device memory out to the host while another run needs it, and back in when this
// run has its time slice (ShareTerms::swap). If the GPU is full, newly allocated memory counts as
// swapped out. This also applies to a run with reserved memory still occupied by others.
//
// While all memory is on the GPU, ops are executed as in any run sharing its GPU. If the table
// requests memory (ShareSlot::evict) while the run may not use the GPU, all queues and the worker
// are held. After all submitted work has ended, the worker swaps out the requested bytes.
//
// From then on any waiting work requests the time slice. When the session gets it, all its memory
// is charged as present, so others are asked to free memory. When it fits, the worker swaps it in,
// and the queues continue.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "protocol/sharing/share_memory.h"
#include "protocol/sharing/share_slot.h"
#include "proxy/sharing/shared_device.h"
#include "proxy/streams/roles.h"

namespace cuspan::proxy {

// Threads: the receiving thread, except for AwaitRoom.
class SessionSwap {
 public:
  // All arguments must outlive it. Create it before the first op. Without ShareTerms::swap,
  // allocated memory is never swapped out.
  SessionSwap(SharedDevice& device, const ShareSlot& slot, ShareMemory& memory);
  SessionSwap(const SessionSwap&) = delete;

  // True if memory is swapped out or being moved.
  bool out() const CUSPAN_REQUIRES(receiving_thread) {
    return state_ != State::kThere && state_ != State::kEnding;
  }
  // True if work of the session waits for swapped-out memory.
  bool wants_memory() const CUSPAN_REQUIRES(receiving_thread);
  // True if memory is being swapped in, or waits for free memory on the GPU.
  bool coming() const CUSPAN_REQUIRES(receiving_thread) {
    return state_ == State::kClaiming || state_ == State::kComing;
  }

  // True if the client's frames should stay in the ring: their ops would only wait.
  bool KeepsFrames() const CUSPAN_REQUIRES(receiving_thread);
  // True if the memory is on the GPU, for a frame needing it at once. If not, requests the time
  // slice.
  bool MayTakeFrame() CUSPAN_REQUIRES(receiving_thread) {
    if (!out()) return true;
    frame_waits_ = true;
    return false;
  }
  // Reacts to the table's state and to completed work. `open`: the run may use the GPU; `rests`:
  // number of partly submitted ops waiting for it.
  void GoOn(bool open, std::size_t rests) CUSPAN_REQUIRES(receiving_thread);
  // True if GoOn has work to do, independently of the table.
  bool MayGoOn(bool open) const CUSPAN_REQUIRES(receiving_thread);
  // Time of the next query if nothing happens (ns of ShareSlot::Now); the largest number: never.
  std::uint64_t next_poll() const CUSPAN_REQUIRES(receiving_thread) { return poll_at_; }
  // Releases everything held: the device is lost, or the session has ended.
  void End() CUSPAN_REQUIRES(receiving_thread);

 private:
  enum class State {
    kThere,
    // Held; submitted work is still running. ended_ is null until its completion is being awaited.
    kEnding,
    kGoing,     // Held; the worker swaps memory out.
    kOut,       // Held. Part of the memory may be present, also in the next two states.
    kClaiming,  // Held; charged as present, waiting for free GPU memory.
    kComing,    // Held; the worker swaps memory in.
  };
  // Result for a worker's task waiting for free memory.
  enum class Answer { kNone, kTryAgain, kNoRoom };

  // MemoryAccount::AwaitRoom. Threads: the worker.
  bool AwaitRoom(std::uint64_t bytes, unsigned refused) CUSPAN_REQUIRES(worker_thread);
  void GiveAnswer(Answer answer) CUSPAN_REQUIRES(receiving_thread);
  // Bytes counted as swapped out.
  std::uint64_t Out() const CUSPAN_REQUIRES(receiving_thread) { return swapped_ + asked_; }
  void Hold() CUSPAN_REQUIRES(receiving_thread);
  void Let() CUSPAN_REQUIRES(receiving_thread);
  void WhileThere(bool open) CUSPAN_REQUIRES(receiving_thread);
  void WhileOut(bool open) CUSPAN_REQUIRES(receiving_thread);
  void BeOut() CUSPAN_REQUIRES(receiving_thread);
  void AllIsThere() CUSPAN_REQUIRES(receiving_thread);
  void BeginToEnd() CUSPAN_REQUIRES(receiving_thread);
  void WhileEnding(bool open) CUSPAN_REQUIRES(receiving_thread);
  void GoOnAsBefore() CUSPAN_REQUIRES(receiving_thread);
  void SwapOut() CUSPAN_REQUIRES(receiving_thread);
  void Claim() CUSPAN_REQUIRES(receiving_thread);
  void PollRoom() CUSPAN_REQUIRES(receiving_thread);
  void SwapIn() CUSPAN_REQUIRES(receiving_thread);
  // Called when the worker has finished moving.
  void Moved();
  void HandleMoved() CUSPAN_REQUIRES(receiving_thread);
  void EndSwapOut() CUSPAN_REQUIRES(receiving_thread);
  void EndSwapIn() CUSPAN_REQUIRES(receiving_thread);
  // Writes the worker's operation and its duration (ns) to the log and the trace.
  void Note(const char* what, std::uint64_t took) const CUSPAN_REQUIRES(receiving_thread);

  SharedDevice& device_;
  const ShareSlot& slot_;
  ShareMemory& memory_;
  State state_ CUSPAN_GUARDED_BY(receiving_thread) = State::kThere;
  bool held_ CUSPAN_GUARDED_BY(receiving_thread) = false;
  bool over_ CUSPAN_GUARDED_BY(receiving_thread) = false;
  bool frame_waits_ CUSPAN_GUARDED_BY(receiving_thread) = false;
  bool resting_ CUSPAN_GUARDED_BY(receiving_thread) =
      false;  // Did not fit during its time slice; requests nothing until claim_at_.
  std::shared_ptr<std::atomic<bool>> ended_ CUSPAN_GUARDED_BY(receiving_thread);
  std::uint64_t end_by_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  std::uint64_t stuck_ CUSPAN_GUARDED_BY(receiving_thread) = 0;  // Last published value.
  std::uint64_t no_more_until_ CUSPAN_GUARDED_BY(receiving_thread) =
      0;                                                       // Present memory stays until then.
  bool reported_ CUSPAN_GUARDED_BY(receiving_thread) = false;  // A failure was logged.
  std::size_t rests_ CUSPAN_GUARDED_BY(receiving_thread) = 0;  // From the last GoOn.
  std::uint64_t poll_at_ CUSPAN_GUARDED_BY(receiving_thread) = ~std::uint64_t{0};
  // Earliest time of a claim; start of the current claim; total waiting time of suspended claims.
  std::uint64_t claim_at_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  std::uint64_t claimed_since_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  std::uint64_t room_wait_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  std::uint64_t wanted_ CUSPAN_GUARDED_BY(receiving_thread) = 0;  // Bytes to swap out.
  // Start of the worker's operation.
  std::uint64_t began_ CUSPAN_GUARDED_BY(receiving_thread) = 0;

  std::atomic<bool> moved_ = false;
  // Written by the worker until it has finished.
  CUresult result_ = CUDA_SUCCESS;
  std::uint64_t moved_bytes_ = 0;
  std::atomic<std::uint64_t> swapped_ = 0;  // Bytes on the host.
  // Bytes a worker's task waits for; 0: none. Number of refusals by the driver.
  std::atomic<std::uint64_t> asked_ = 0;
  std::atomic<unsigned> refused_ = 0;
  Answer answer_ CUSPAN_GUARDED_BY(worker_thread) = Answer::kNone;  // Only for the worker.
};

}  // namespace cuspan::proxy
