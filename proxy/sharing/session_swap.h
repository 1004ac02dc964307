// Brings device memory of a session to the host while another run needs the room, and back when the
// run has its turn (ShareTerms::swap). Memory for which there is no room when it is made counts as
// memory that is out: also memory that is kept for a run, where others still have it.
//
// While all of the memory is there, ops go as in any run that shares its GPU. When the table asks
// for room (ShareSlot::evict), and the run may not use the GPU, all queues and the worker are held;
// what was handed over before ends, and the worker swaps so much out. From then on whatever waits
// is a wish for the turn. With the turn, the session counts its memory as there, which asks others
// for room; when there is room the worker swaps it in, and all goes on.
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

// Threads: the receiving thread, but for AwaitRoom.
class SessionSwap {
 public:
  // All outlive it. To be made before the first op. Without ShareTerms::swap what is there stays.
  SessionSwap(SharedDevice& device, const ShareSlot& slot, ShareMemory& memory);
  SessionSwap(const SessionSwap&) = delete;

  // Memory is not there, or goes just now.
  bool out() const CUSPAN_REQUIRES(receiving_thread) {
    return state_ != State::kThere && state_ != State::kEnding;
  }
  // Something of the session waits for memory that is not there.
  bool wished() const CUSPAN_REQUIRES(receiving_thread);
  // Memory is on its way there, or waits for the room.
  bool coming() const CUSPAN_REQUIRES(receiving_thread) {
    return state_ == State::kClaiming || state_ == State::kComing;
  }

  // Frames of the client had better stay where they are: what they bring would only wait.
  bool KeepsFrames() const CUSPAN_REQUIRES(receiving_thread);
  // For a frame that needs the memory at once: whether that is there. If not, it is a wish.
  bool MayTake() CUSPAN_REQUIRES(receiving_thread) {
    if (!out()) return true;
    frame_waits_ = true;
    return false;
  }
  // Takes notice of what the table says and of what is done. `open`: the run may use the GPU;
  // `rests`: so many ops that hold their streams wait for just that.
  void GoOn(bool open, std::size_t rests) CUSPAN_REQUIRES(receiving_thread);
  // Whether there is something for GoOn, whatever the table says.
  bool MayGoOn(bool open) const CUSPAN_REQUIRES(receiving_thread);
  // When to look again if nothing happens (ns of ShareSlot::Now); the largest number: never.
  std::uint64_t next_look() const CUSPAN_REQUIRES(receiving_thread) { return look_at_; }
  // The device is lost, or the session over: nothing is held any more.
  void End() CUSPAN_REQUIRES(receiving_thread);

 private:
  enum class State {
    kThere,
    kEnding,    // Held; what was handed over before still runs.
    kGoing,     // Held; the worker swaps it out.
    kOut,       // Held. As in kClaiming and kComing, a part may be there.
    kClaiming,  // Held; all is counted as there, without the room.
    kComing,    // Held; the worker swaps it in.
  };
  // What becomes of a task that awaits room.
  enum class Answer { kNone, kTryAgain, kNoRoom };

  // MemoryAccount::AwaitRoom; by the worker.
  bool AwaitRoom(std::uint64_t bytes, unsigned refused) CUSPAN_REQUIRES(worker_thread);
  void GiveAnswer(Answer answer) CUSPAN_REQUIRES(receiving_thread);
  // What counts as out.
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
  void LookForRoom() CUSPAN_REQUIRES(receiving_thread);
  void SwapIn() CUSPAN_REQUIRES(receiving_thread);
  // The worker is done with what was begun.
  void Moved();
  void TakeMoved() CUSPAN_REQUIRES(receiving_thread);
  void TakeGone() CUSPAN_REQUIRES(receiving_thread);
  void TakeCome() CUSPAN_REQUIRES(receiving_thread);
  // For the log and the trace: what the worker did, and for how long (ns).
  void Note(const char* what, std::uint64_t took) const CUSPAN_REQUIRES(receiving_thread);

  SharedDevice& device_;
  const ShareSlot& slot_;
  ShareMemory& memory_;
  State state_ CUSPAN_GUARDED_BY(receiving_thread) = State::kThere;
  bool held_ CUSPAN_GUARDED_BY(receiving_thread) = false;
  bool over_ CUSPAN_GUARDED_BY(receiving_thread) = false;
  bool frame_waits_ CUSPAN_GUARDED_BY(receiving_thread) = false;
  bool resting_ CUSPAN_GUARDED_BY(receiving_thread) =
      false;  // It had the turn, and no room; until claim_at_ it wants nothing.
  std::shared_ptr<std::atomic<bool>> ended_
      CUSPAN_GUARDED_BY(receiving_thread);  // In kEnding; null until the end is awaited.
  std::uint64_t end_by_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  std::uint64_t stuck_ CUSPAN_GUARDED_BY(receiving_thread) = 0;  // As published.
  std::uint64_t no_more_until_ CUSPAN_GUARDED_BY(receiving_thread) =
      0;                                                       // What is there has to stay.
  bool told_ CUSPAN_GUARDED_BY(receiving_thread) = false;      // That memory can not go, or come.
  std::size_t rests_ CUSPAN_GUARDED_BY(receiving_thread) = 0;  // As GoOn was told.
  std::uint64_t look_at_ CUSPAN_GUARDED_BY(receiving_thread) = ~std::uint64_t{0};
  std::uint64_t claim_at_ CUSPAN_GUARDED_BY(receiving_thread) = 0;  // Not before.
  std::uint64_t claimed_since_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  std::uint64_t room_wait_ CUSPAN_GUARDED_BY(receiving_thread) =
      0;                                                          // Of earlier claims for the same.
  std::uint64_t wanted_ CUSPAN_GUARDED_BY(receiving_thread) = 0;  // Bytes to bring to the host.
  std::uint64_t began_ CUSPAN_GUARDED_BY(receiving_thread) = 0;   // What the worker does.

  std::atomic<bool> moved_ = false;
  // The worker's until it is done.
  CUresult result_ = CUDA_SUCCESS;
  std::uint64_t moved_bytes_ = 0;
  std::atomic<std::uint64_t> swapped_ = 0;  // Bytes on the host.
  // What a task of the worker awaits room for; 0: none does. How often that was refused.
  std::atomic<std::uint64_t> asked_ = 0;
  std::atomic<unsigned> refused_ = 0;
  Answer answer_ CUSPAN_GUARDED_BY(worker_thread) = Answer::kNone;  // The worker's.
};

}  // namespace cuspan::proxy
