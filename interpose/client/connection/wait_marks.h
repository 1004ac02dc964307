// Waits for streams by marks of the channel (protocol/channel/marks.h): the device writes the mark,
// the waiting thread looks at it, and no reply is sent.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "common/mutex.h"
#include "interpose/client/base/thread_state.h"

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

 private:
  // The calling thread's mark, given back at the thread's end; null if all are in use.
  ThreadState::WaitMark* MarkOfThread();
  std::optional<std::uint32_t> Take();
  void Return(const ThreadState::WaitMark& mark);

  Connection& connection_;
  Mutex mutex_;
  std::uint32_t taken_ CUSPAN_GUARDED_BY(mutex_) = 0;  // The marks below it were taken once.
  std::vector<std::uint32_t> returned_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan
