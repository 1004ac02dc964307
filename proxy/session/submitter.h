// A thread submitting delegated work of some streams: launches, and marks behind them.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <thread>
#include <variant>
#include <vector>

#include "common/mutex.h"
#include "common/status.h"
#include "proxy/gpu/device.h"
#include "proxy/objects/kernel_call.h"
#include "proxy/session/stream_points.h"
#include "proxy/streams/faults.h"
#include "proxy/streams/roles.h"
#include "proxy/streams/stream.h"

namespace cuspan::proxy {

// A launch with its arguments.
struct DelegatedLaunch {
  // Most kernels have fewer bytes of arguments.
  static constexpr std::size_t kMaxArgumentBytes = 256;

  const Kernel* kernel = nullptr;
  GridShape shape;
  Origin origin;
  std::uint32_t argument_bytes = 0;
  std::array<std::byte, kMaxArgumentBytes> arguments;
};

// StreamPoints::PutMark.
struct DelegatedMark {
  std::shared_ptr<AskedStream> asked;
  std::uint64_t submitted = 0;
  ClientMark mark;
};

// An op of a stream. Stream and kernel exist until the receiving thread has awaited it.
struct DelegatedOp {
  Stream* stream = nullptr;
  std::variant<DelegatedLaunch, DelegatedMark> op;
};

class Submitter {
 public:
  // All references outlive it. The thread sleeps after `poll_time` without work. kExhausted if the
  // system allows no more threads.
  static Result<std::unique_ptr<Submitter>> Start(const Device& device, const Driver& driver,
                                                  Faults& faults, StreamPoints& points,
                                                  std::chrono::microseconds poll_time);
  // Drops work not submitted yet.
  ~Submitter();
  Submitter(const Submitter&) = delete;

  // True while the thread polls for work. Asleep, it would take some 50 µs to begin.
  bool awake() const { return awake_.load(std::memory_order_acquire); }
  // Number of ops given and not submitted.
  std::size_t load() const {
    return given_.load(std::memory_order_relaxed) - submitted_.load(std::memory_order_acquire);
  }

  // --- Threads: the receiving thread.

  // Ends its sleep.
  void Wake() CUSPAN_REQUIRES(receiving_thread);
  bool HasRoom() const { return load() < kRoom; }
  // Place for the next op, written by the caller before Give. Requires room.
  DelegatedOp& NextOp() CUSPAN_REQUIRES(receiving_thread) {
    return ops_[given_.load(std::memory_order_relaxed) % kRoom];
  }
  // Submits this op, in the order of calls. Then reports it by DelegatedWork::Submitted.
  void Give() CUSPAN_REQUIRES(receiving_thread);

 private:
  static constexpr std::size_t kRoom = 64;
  Submitter(const Driver& driver, Faults& faults, StreamPoints& points)
      : driver_(driver), faults_(faults), points_(points) {}
  void Loop(const Device& device, std::chrono::microseconds poll_time);
  bool HasOp() const {
    return given_.load(std::memory_order_acquire) != submitted_.load(std::memory_order_relaxed);
  }
  void SubmitNext();
  void Submit(const Stream& stream, const DelegatedLaunch& launch);
  void Submit(const Stream& stream, const DelegatedMark& mark);
  void Sleep();

  const Driver& driver_;
  Faults& faults_;
  StreamPoints& points_;

  std::atomic<bool> awake_ = false;
  std::atomic<bool> called_ = false;  // Wake was called.
  std::atomic<bool> ending_ = false;
  Mutex mutex_;
  std::condition_variable arrived_;

  // Ops given, and of these the ones submitted. The others are in ops_.
  alignas(64) std::atomic<std::uint64_t> given_ = 0;
  alignas(64) std::atomic<std::uint64_t> submitted_ = 0;
  std::array<DelegatedOp, kRoom> ops_;

  std::vector<void*> argument_pointers_;  // Owner: the thread.

  std::thread thread_;
};

}  // namespace cuspan::proxy
