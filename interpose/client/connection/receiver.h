// The receiving half of a connection: takes what the proxy sends and gives it to whom it concerns.
#pragma once

#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "common/mutex.h"
#include "ops.gen.h"
#include "protocol/channel/channel.h"

namespace cuspan {

class Connection;

// What comes is received by the session's one receiver thread, or by threads that wait for a reply
// and would otherwise only watch how the receiver takes it for them. Any thread.
class Receiver {
 public:
  explicit Receiver(Connection* connection);
  Receiver(const Receiver&) = delete;

  // Handles what has arrived; true when there was something. Nothing while another thread does.
  bool Receive();
  // For the receiver thread: whether there is something that no waiting thread takes.
  bool HasWork();
  // A thread takes what comes while it waits.
  bool watched() const { return watching_.load(std::memory_order_seq_cst) != 0; }
  // Handles all that the proxy sent before it closed the channel, until `over()`. Not by a thread
  // that receives.
  template <typename Over>
  void Drain(Over&& over) {
    const MutexLock receiving(receiving_);
    while (!over() && ReceiveSome()) {
    }
  }
  // The other end broke the protocol: the device is lost, and nothing more of it is read.
  void GiveUp(const std::string& reason);

  // Receives until `over()` or for so long that sleeping costs little; the caller then waits
  // otherwise. For what an answer of the device will end.
  template <typename Over>
  void Watch(Over&& over) {
    const auto start = std::chrono::steady_clock::now();
    watching_.fetch_add(1, std::memory_order_relaxed);
    while (!over()) {
      if (Receive()) continue;
      const auto waited = std::chrono::steady_clock::now() - start;
      if (waited >= stages_.await) break;
      if (waited >= stages_.spin) std::this_thread::yield();
    }
    if (watching_.fetch_sub(1, std::memory_order_seq_cst) != 1) return;  // Others receive.
    channel_.own_bell().RingShortSleepers();
    // What came meanwhile and is not this thread's to wait for.
    if (HasWork()) channel_.own_bell().Ring();
  }
  // Events that the proxy has told of are complete for the program as soon as the bytes that came
  // before are stored: shows those now, and not when something is received next. The second form
  // leaves it to another thread that receives just now.
  void ShowStored();
  void TryShowStored();
  // Changes when something has come.
  std::uint64_t heard() const { return heard_.load(std::memory_order_relaxed); }
  // Posts if there is room now.
  template <typename T>
  bool TryPost(const T& message) {
    const std::vector<std::byte> frame = MakeFrame(message);
    FrameHeader header;
    std::memcpy(&header, frame.data(), sizeof header);
    return channel_.TryPost(header, Bytes(frame).subspan(sizeof header));
  }
  // Posts without ever waiting: at once, or later from Receive. For threads that receive.
  void Post(const Signal& signal);

 private:
  bool HasWorkNow() const CUSPAN_REQUIRES(receiving_);
  bool ReceiveSome() CUSPAN_REQUIRES(receiving_);
  void ShowEvents() CUSPAN_REQUIRES(receiving_);
  // False when the message makes no sense.
  bool HandleFrame(const Frame& frame) CUSPAN_REQUIRES(receiving_);
  bool HandlePostedFailure(const Frame& frame);
  void PostDeferred();

  Connection& connection_;
  Channel& channel_;
  const WaitStages stages_ = WaitStages::ForThisMachine();
  std::atomic<std::uint64_t> heard_{0};
  std::atomic<bool> broken_{false};  // The other end broke the protocol.
  // Written all the time while the receiver thread watches: on lines of their own.
  alignas(64) Mutex receiving_;   // Of the thread that receives.
  std::atomic<int> watching_{0};  // Threads that wait for a reply and receive meanwhile.
  // Completions that wait for chunks: of the thread that receives.
  std::deque<EventReached> unshown_events_ CUSPAN_GUARDED_BY(receiving_);
  std::atomic<bool> has_unshown_{false};
  // Posts that wait for room.
  Mutex deferred_mutex_;
  std::deque<Signal> deferred_ CUSPAN_GUARDED_BY(deferred_mutex_);
  std::atomic<bool> has_deferred_{false};
};

}  // namespace cuspan
