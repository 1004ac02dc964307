// Statistics of cuFile, in the vendor's layouts.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>

#include "common/mutex.h"
#include "interpose/cufile/api.h"

namespace cuspan::cufile {

// A finished read or write.
struct Transferred {
  enum class Kind { kSingle, kVector, kBatchEntry };
  Kind kind = Kind::kSingle;
  Opcode opcode = kRead;
  int device = -1;          // -1: memory of the program.
  std::int64_t result = 0;  // Bytes; negative: it has failed.
  std::uint64_t wanted = 0;
  std::uint64_t file_offset = 0;
  std::chrono::nanoseconds time{0};
};

// Threads: any. A table of the session.
class Statistics {
 public:
  static constexpr int kMaxLevel = 3;

  // Counts while it is started and the level is not 0.
  void SetLevel(int level) { level_.store(level, std::memory_order_relaxed); }
  int level() const { return level_.load(std::memory_order_relaxed); }
  void Start();
  void Stop();
  void Reset();
  bool counting() const { return counting_.load(std::memory_order_relaxed) && level() > 0; }

  // Counts a call by the counter that it belongs to, such as &Statistics1::batch_setup.
  void Note(Counter Statistics1::*counter, bool done);
  void Note(const Transferred& transferred);
  void NoteSubmit(bool done, std::chrono::nanoseconds time);
  // A buffer of a device was registered or, with negative bytes, deregistered.
  void NoteBuffer(int device, std::int64_t bytes);

  Statistics1 basic() const;
  Histograms histograms() const;
  // Those of the first devices.
  void Copy(std::span<DeviceStatistics> devices) const;

 private:
  using Clock = std::chrono::steady_clock;
  // Seconds of counting so far, at least one microsecond.
  double Seconds() const CUSPAN_REQUIRES(mutex_);

  std::atomic<int> level_{0};
  std::atomic<bool> counting_{false};
  mutable Mutex mutex_;
  Statistics1 basic_ CUSPAN_GUARDED_BY(mutex_){};
  Histograms histograms_ CUSPAN_GUARDED_BY(mutex_){};
  std::array<DeviceStatistics, kMaxDevicesOfStatistics> devices_ CUSPAN_GUARDED_BY(mutex_){};
  Clock::time_point begun_ CUSPAN_GUARDED_BY(mutex_);
  Clock::duration counted_ CUSPAN_GUARDED_BY(mutex_){0};  // Before the last Start.
};

}  // namespace cuspan::cufile
