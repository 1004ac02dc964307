// The receiving half of a connection: dispatches the proxy's messages.
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

// Receives on the session's one receiver thread, or on threads waiting for a reply: these would
// otherwise only watch the receiver thread. Threads: any.
class Receiver {
 public:
  explicit Receiver(Connection* connection);
  Receiver(const Receiver&) = delete;

  // Handles arrived messages; true if there were any. Returns false at once if another thread
  // receives.
  bool Receive();
  // Receiver thread: true if there is work and no waiting thread receives.
  bool HasWork();
  // True while a waiting thread receives.
  bool watched() const { return watching_.load(std::memory_order_seq_cst) != 0; }
  // Handles the messages arrived so far, after those another thread is handling.
  void ReceiveArrived();
  // Handles all messages sent before the proxy closed the channel, until over() is true. Not for
  // receiving threads.
  template <typename Over>
  void Drain(Over&& over) {
    const MutexLock receiving(receiving_);
    while (!over() && ReceiveSome()) {
    }
  }
  // Handles a protocol violation of the proxy: the device is lost, and its remaining messages are
  // not read.
  void GiveUp(const std::string& reason);

  // Receives until over() is true or the wait is long enough to make sleeping cheap; the caller
  // then blocks. For waits ended by an answer of the device.
  template <typename Over>
  void Watch(Over&& over) {
    const auto start = std::chrono::steady_clock::now();
    BeginWatch();
    while (!over()) {
      if (Receive()) continue;
      const auto waited = std::chrono::steady_clock::now() - start;
      if (waited >= stages_.await) break;
      if (waited >= stages_.spin) std::this_thread::yield();
    }
    EndWatch();
  }
  // Events reported by the proxy are complete for the program once the bytes sent before them are
  // stored. ShowStored completes these events now instead of at the next message. If another thread
  // is receiving, TryShowStored leaves this to it.
  void ShowStored();
  void TryShowStored();
  // Changes when messages have arrived.
  std::uint64_t received() const { return received_.load(std::memory_order_relaxed); }
  // Posts if there is room now.
  template <typename T>
  bool TryPost(const T& message) {
    const std::vector<std::byte> frame = MakeFrame(message);
    FrameHeader header;
    std::memcpy(&header, frame.data(), sizeof header);
    return channel_.TryPost(header, Bytes(frame).subspan(sizeof header));
  }
  // Queues a post for the next Receive: never blocks. For receiving threads.
  void Post(const Signal& signal);

 private:
  void BeginWatch();
  void EndWatch();
  bool HasWorkNow() const CUSPAN_REQUIRES(receiving_);
  bool ReceiveSome() CUSPAN_REQUIRES(receiving_);
  void ShowEvents() CUSPAN_REQUIRES(receiving_);
  // False if the message is invalid.
  bool HandleFrame(const Frame& frame) CUSPAN_REQUIRES(receiving_);
  bool HandlePostedFailure(const Frame& frame);
  void PostDeferred();

  Connection& connection_;
  Channel& channel_;
  const WaitStages stages_ = WaitStages::ForThisMachine();
  std::atomic<std::uint64_t> received_{0};
  std::atomic<bool> broken_{false};  // The proxy violated the protocol.
  // Written constantly while the receiver thread polls: on separate cache lines.
  alignas(64) Mutex receiving_;   // Held by the receiving thread.
  std::atomic<int> watching_{0};  // Threads receiving while they wait for a reply.
  // Completions waiting for chunks to be stored.
  std::deque<EventReached> unshown_events_ CUSPAN_GUARDED_BY(receiving_);
  std::atomic<bool> has_unshown_{false};
  // Posts waiting for room.
  Mutex deferred_mutex_;
  std::deque<Signal> deferred_ CUSPAN_GUARDED_BY(deferred_mutex_);
  std::atomic<bool> has_deferred_{false};
};

}  // namespace cuspan
