// Waits for streams by marks of the channel (protocol/channel/marks.h): the device writes the mark,
// the waiting thread looks at it, and no reply is sent. If a thread waits for each of its launches,
// the marks are asked for by the launches themselves.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "common/mutex.h"
#include "interpose/client/base/thread_state.h"
#include "protocol/channel/marks.h"

namespace cuspan {

class Connection;

// The marks of one connection. Threads: any.
class WaitMarks {
 public:
  // A member of `connection`.
  explicit WaitMarks(Connection* connection) : connection_(*connection) {}

  enum class Result {
    kNotPossible,  // Use a call.
    kReached,      // Everything posted to the stream before is complete.
    kDeviceIdle,   // So is everything posted to the device up to *sequence.
  };
  // Waits for all work posted to `stream`. Not possible between nodes, or while events or bytes of
  // transfers are to be reported: their messages may come after the mark. `on_long_wait` is called
  // once if the wait takes Connection::kLongWait.
  Result Await(std::uint64_t stream, std::uint64_t* sequence,
               const std::function<void()>& on_long_wait);

  // Mark to be written behind the calling thread's next launch in `stream`; value 0: none.
  struct LaunchMark {
    std::uint32_t number = 0;
    std::uint32_t value = 0;
  };
  LaunchMark BeforeLaunch(std::uint64_t stream);
  // Called after the launch was posted.
  void AfterLaunch(std::uint64_t stream, std::uint64_t sequence, const LaunchMark& mark);

 private:
  // Launches in a row, each directly awaited, after which the next one probably is, too.
  static constexpr unsigned kHabit = 3;

  // Gets the value to wait for: the one asked for by the thread's last launch, or by a new
  // StreamMark. False if there is none.
  bool Ask(ThreadState::WaitMark& own, std::uint64_t stream, std::uint32_t* value,
           std::uint64_t* sequence);
  // The launch's mark will not be awaited.
  static void GiveUpLaunch(ThreadState::WaitMark& own);
  // If a value asked for in vain may still be written, over a later one, gets another mark. False
  // if there is none.
  bool MayAsk(ThreadState::WaitMark& own);
  static std::uint32_t NextValue(ThreadState::WaitMark& own);
  ChannelMark& MarkOf(std::uint32_t number) const;
  // True if the mark has this value, and perhaps flags.
  bool Written(std::uint32_t number, std::uint32_t value) const;

  // The calling thread's mark; null if it has none.
  ThreadState::WaitMark* KnownMark() const;
  // The calling thread's mark, given back at the thread's end; null if all are in use.
  ThreadState::WaitMark* MarkOfThread();
  // Gets a mark used by no thread, as its number and value.
  bool Take(ThreadState::WaitMark* mark);
  void Return(const ThreadState::WaitMark& mark);

  Connection& connection_;
  Mutex mutex_;
  std::uint32_t taken_ CUSPAN_GUARDED_BY(mutex_) = 0;  // The marks below it were taken once.
  struct Returned {
    std::uint32_t number;
    std::uint32_t last;  // Nobody else gets the mark until it has this value.
  };
  std::vector<Returned> returned_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan
