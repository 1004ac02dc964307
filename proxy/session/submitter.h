// A thread submitting delegated work of some streams: launches, and marks behind them.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <optional>
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

// A mark behind the stream's work.
struct DelegatedMark {
  std::shared_ptr<AskedStream> asked;
  std::uint64_t submitted = 0;
  ClientMark mark;
};

// A launch with its arguments, and perhaps a mark behind it.
struct DelegatedLaunch {
  // Most kernels have fewer bytes of arguments.
  static constexpr std::size_t kMaxArgumentBytes = 256;

  DelegatedLaunch() {}  // Does not clear the arguments.

  const Kernel* kernel = nullptr;
  GridShape shape;
  Origin origin;
  std::optional<DelegatedMark> mark;
  std::uint32_t argument_bytes = 0;
  std::array<std::byte, kMaxArgumentBytes> arguments;
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
  // Number of ops given and not submitted. A mark counts as submitted when it is written, or the
  // device is to write it.
  std::size_t load() const {
    return given_.load(std::memory_order_relaxed) - submitted_.load(std::memory_order_acquire);
  }

  // --- Threads: the receiving thread.

  // Ends its sleep.
  void Wake() CUSPAN_REQUIRES(receiving_thread);
  bool HasRoom() const {
    return given_.load(std::memory_order_relaxed) - taken_.load(std::memory_order_acquire) < kRoom;
  }
  // Place for the next op, written by the caller before Give. Requires room.
  DelegatedOp& NextOp() CUSPAN_REQUIRES(receiving_thread) {
    return ops_[given_.load(std::memory_order_relaxed) % kRoom];
  }
  // Submits this op, in the order of calls. Then reports it by DelegatedWork::Submitted.
  void Give() CUSPAN_REQUIRES(receiving_thread);
  // While true, marks are left to the device at once: somebody waits for the work to be submitted.
  void Hurry(bool hurry) { hurry_.store(hurry, std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kRoom = 64;
  Submitter(const Driver& driver, Faults& faults, StreamPoints& points)
      : driver_(driver), faults_(faults), points_(points) {}
  void Loop(const Device& device, std::chrono::microseconds poll_time);
  bool HasOp() const {
    return given_.load(std::memory_order_acquire) != taken_.load(std::memory_order_relaxed);
  }
  void SubmitNext();
  void Submit(Stream& stream, DelegatedLaunch& launch);
  void Submit(Stream& stream, DelegatedMark& mark);
  // Reports an op of the stream as submitted. The receiving thread may now destroy the stream.
  void Finish(Stream& stream);
  // Writes the watched marks with complete work, and leaves those watched too long to the device.
  void PollMarks();
  void Sleep();

  const Driver& driver_;
  Faults& faults_;
  StreamPoints& points_;

  std::atomic<bool> awake_ = false;
  std::atomic<bool> called_ = false;  // Wake was called.
  std::atomic<bool> ending_ = false;
  Mutex mutex_;
  std::condition_variable arrived_;

  // Ops given. Of these, the ones taken out of ops_, and the ones submitted.
  alignas(64) std::atomic<std::uint64_t> given_ = 0;
  std::atomic<bool> hurry_ = false;
  alignas(64) std::atomic<std::uint64_t> taken_ = 0;
  std::atomic<std::uint64_t> submitted_ = 0;
  std::array<DelegatedOp, kRoom> ops_;

  // A mark to be written by this thread when the stream's work is complete. It is a stream's last
  // op: a later op first leaves the mark to the device.
  struct WatchedMark {
    Stream* stream;
    DelegatedMark mark;
    std::chrono::steady_clock::time_point since;
  };
  void LeaveToDevice(const WatchedMark& watched);
  std::vector<WatchedMark> watched_;  // Owner: the thread.

  std::vector<void*> argument_pointers_;  // Owner: the thread.

  std::thread thread_;
};

}  // namespace cuspan::proxy
