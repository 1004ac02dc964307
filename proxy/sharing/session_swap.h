// Brings device memory of a session to the host while another run needs the room, and back when the
// run has its turn (ShareTerms::swap). Memory for which there is no room when it is made counts as
// memory that is out: also memory that is kept for a run, where others still have it.
//
// While all of the memory is there, ops go as in any run that shares its GPU. When the table asks
// for room (ShareSeat::evict), and the run may not use the GPU, all queues and the worker are held;
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
#include "protocol/sharing/share_seat.h"
#include "proxy/sharing/shared_device.h"

namespace cuspan::proxy {

// Threads: the receiving thread, but for AwaitRoom.
class SessionSwap {
 public:
  // All outlive it. To be made before the first op. Without ShareTerms::swap what is there stays.
  SessionSwap(SharedDevice& device, const ShareSeat& seat, ShareMemory& memory);
  SessionSwap(const SessionSwap&) = delete;

  // Memory is not there, or goes just now.
  bool out() const { return state_ != State::kThere && state_ != State::kEnding; }
  // Something of the session waits for memory that is not there.
  bool wished() const;
  // Memory is on its way there, or waits for the room.
  bool coming() const { return state_ == State::kClaiming || state_ == State::kComing; }

  // Frames of the client had better stay where they are: what they bring would only wait.
  bool KeepsFrames() const;
  // For a frame that needs the memory at once: whether that is there. If not, it is a wish.
  bool MayTake() {
    if (!out()) return true;
    frame_waits_ = true;
    return false;
  }
  // Takes notice of what the table says and of what is done. `open`: the run may use the GPU;
  // `rests`: so many ops that hold their streams wait for just that.
  void GoOn(bool open, std::size_t rests);
  // Whether there is something for GoOn, whatever the table says.
  bool MayGoOn(bool open) const;
  // When to look again if nothing happens (ns of ShareSeat::Now); the largest number: never.
  std::uint64_t next_look() const { return look_at_; }
  // The device is lost, or the session over: nothing is held any more.
  void End();

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
  bool AwaitRoom(std::uint64_t bytes, unsigned refused);
  void GiveAnswer(Answer answer);
  // What counts as out.
  std::uint64_t Out() const { return swapped_ + asked_; }
  void Hold();
  void Let();
  void WhileThere(bool open);
  void WhileOut(bool open);
  void BeOut();
  void AllIsThere();
  void BeginToEnd();
  void WhileEnding(bool open);
  void GoOnAsBefore();
  void SwapOut();
  void Claim();
  void LookForRoom();
  void SwapIn();
  // The worker is done with what was begun.
  void Moved();
  void TakeMoved();
  void TakeGone();
  void TakeCome();
  // For the log and the trace: what the worker did, and for how long (ns).
  void Note(const char* what, std::uint64_t took) const;

  SharedDevice& device_;
  const ShareSeat& seat_;
  ShareMemory& memory_;
  State state_ = State::kThere;
  bool held_ = false;
  bool over_ = false;
  bool frame_waits_ = false;
  bool resting_ = false;  // It had the turn, and no room; until claim_at_ it wants nothing.
  std::shared_ptr<std::atomic<bool>> ended_;  // In kEnding; null until the end is awaited.
  std::uint64_t end_by_ = 0;
  std::uint64_t stuck_ = 0;          // As published.
  std::uint64_t no_more_until_ = 0;  // What is there has to stay.
  bool told_ = false;                // That memory can not go, or come.
  std::size_t rests_ = 0;            // As GoOn was told.
  std::uint64_t look_at_ = ~std::uint64_t{0};
  std::uint64_t claim_at_ = 0;  // Not before.
  std::uint64_t claimed_since_ = 0;
  std::uint64_t room_wait_ = 0;  // Of earlier claims for the same.
  std::uint64_t wanted_ = 0;     // Bytes to bring to the host.
  std::uint64_t began_ = 0;      // What the worker does.

  std::atomic<bool> moved_ = false;
  // The worker's until it is done.
  CUresult result_ = CUDA_SUCCESS;
  std::uint64_t moved_bytes_ = 0;
  std::atomic<std::uint64_t> swapped_ = 0;  // Bytes on the host.
  // What a task of the worker awaits room for; 0: none does. How often that was refused.
  std::atomic<std::uint64_t> asked_ = 0;
  std::atomic<unsigned> refused_ = 0;
  Answer answer_ = Answer::kNone;  // The worker's.
};

}  // namespace cuspan::proxy
