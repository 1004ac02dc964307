#include "interpose/cufile/statistics.h"

#include <algorithm>
#include <bit>

namespace cuspan::cufile {
namespace {

// Class of a size in the histograms: class 0 is below 1 KiB, class n from 2^(n-1) KiB.
std::size_t ClassOf(std::uint64_t bytes) {
  return std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(bytes >> 10)),
                               kSizeClasses - 1);
}

std::uint64_t Rate(std::uint64_t count, double seconds) {
  return static_cast<std::uint64_t>(static_cast<double>(count) / seconds);
}

std::uint64_t Average(std::uint64_t sum, const Counter& counter) {
  return counter.done == 0 ? 0 : sum / counter.done;
}

// The values of one direction, wherever they are.
struct Direction {
  Counter* counter;
  std::uint64_t* bytes;
  std::uint64_t* sum_us;
};

}  // namespace

void Statistics::Start() {
  const MutexLock lock(mutex_);
  if (counting_.exchange(true)) return;
  begun_ = Clock::now();
}

void Statistics::Stop() {
  const MutexLock lock(mutex_);
  if (counting_.exchange(false)) counted_ += Clock::now() - begun_;
}

void Statistics::Reset() {
  const MutexLock lock(mutex_);
  basic_ = {};
  histograms_ = {};
  devices_ = {};
  counted_ = {};
  begun_ = Clock::now();
}

double Statistics::Seconds() const {
  const Clock::duration now = counting_.load() ? Clock::now() - begun_ : Clock::duration{0};
  return std::max(std::chrono::duration<double>(counted_ + now).count(), 1e-6);
}

void Statistics::Note(Counter Statistics1::*counter, bool done) {
  if (!counting()) return;
  const MutexLock lock(mutex_);
  ++(done ? (basic_.*counter).done : (basic_.*counter).failed);
}

void Statistics::Note(const Transferred& one) {
  if (!counting()) return;
  const MutexLock lock(mutex_);
  const bool done = one.result >= 0;
  const auto bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(one.result, 0));
  const auto us = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(one.time).count());
  const bool reads = one.opcode == kRead;
  Direction into{};
  switch (one.kind) {
    case Transferred::Kind::kSingle:
      into = reads ? Direction{&basic_.read, &basic_.read_bytes, &basic_.read_sum_us}
                   : Direction{&basic_.write, &basic_.write_bytes, &basic_.write_sum_us};
      break;
    case Transferred::Kind::kVector:
      into = reads ? Direction{&basic_.readv, &basic_.readv_bytes, &basic_.readv_sum_us}
                   : Direction{&basic_.writev, &basic_.writev_bytes, &basic_.writev_sum_us};
      break;
    case Transferred::Kind::kBatchEntry:
      into = {&basic_.batch_processed, reads ? &basic_.batch_read_bytes : &basic_.batch_write_bytes,
              &basic_.batch_complete_sum_us};
      ++(done ? basic_.batch_complete.done : basic_.batch_complete.failed);
      (reads ? basic_.last_batch_read_bytes : basic_.last_batch_write_bytes) = bytes;
      break;
  }
  ++(done ? into.counter->done : into.counter->failed);
  *into.bytes += bytes;
  *into.sum_us += us;
  auto& sizes = reads ? histograms_.read : histograms_.write;
  ++sizes[ClassOf(one.wanted)];
  if (one.device < 0 || static_cast<std::size_t>(one.device) >= devices_.size()) return;
  DeviceStatistics& device = devices_[static_cast<std::size_t>(one.device)];
  constexpr std::uint64_t kPage = 4096;
  const bool unaligned = (one.file_offset | one.wanted) % kPage != 0;
  if (reads) {
    device.read_bytes += bytes;
    device.read_us += us;
    ++device.reads;
    ++device.posix_reads;
    device.unaligned_reads += unaligned ? 1 : 0;
    device.failed_reads += done ? 0 : 1;
  } else {
    device.write_bytes += bytes;
    device.write_us += us;
    ++device.writes;
    ++device.posix_writes;
    device.unaligned_writes += unaligned ? 1 : 0;
    device.failed_writes += done ? 0 : 1;
  }
}

void Statistics::NoteSubmit(bool done, std::chrono::nanoseconds time) {
  Note(&Statistics1::batch_submit, done);
  if (!counting()) return;
  const MutexLock lock(mutex_);
  basic_.batch_submit_sum_us += static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(time).count());
}

void Statistics::NoteBuffer(int device, std::int64_t bytes) {
  if (!counting() || device < 0 || static_cast<std::size_t>(device) >= kMaxDevicesOfStatistics)
    return;
  const MutexLock lock(mutex_);
  DeviceStatistics& one = devices_[static_cast<std::size_t>(device)];
  if (bytes < 0) {
    // It may have been registered before counting began.
    one.registered_bytes -= std::min(one.registered_bytes, static_cast<std::uint64_t>(-bytes));
    ++one.unmaps;
    return;
  }
  one.registered_bytes += static_cast<std::uint64_t>(bytes);
  ++one.maps;
  ++one.good_maps;
}

Statistics1 Statistics::basic() const {
  const MutexLock lock(mutex_);
  Statistics1 all = basic_;
  const double seconds = Seconds();
  all.read_bytes_per_second = Rate(all.read_bytes, seconds);
  all.write_bytes_per_second = Rate(all.write_bytes, seconds);
  all.read_average_us = Average(all.read_sum_us, all.read);
  all.write_average_us = Average(all.write_sum_us, all.write);
  all.reads_per_second = Rate(all.read.done, seconds);
  all.writes_per_second = Rate(all.write.done, seconds);
  all.batch_enqueued = all.batch_posix_enqueued = all.batch_posix_processed = all.batch_processed;
  all.batch_total = all.batch_submit;
  all.batch_read_bytes_per_second = Rate(all.batch_read_bytes, seconds);
  all.batch_write_bytes_per_second = Rate(all.batch_write_bytes, seconds);
  all.batch_submit_average_us = Average(all.batch_submit_sum_us, all.batch_submit);
  all.batch_complete_average_us = Average(all.batch_complete_sum_us, all.batch_complete);
  all.batch_submits_per_second = Rate(all.batch_submit.done, seconds);
  all.batch_completes_per_second = Rate(all.batch_complete.done, seconds);
  all.readv_bytes_per_second = Rate(all.readv_bytes, seconds);
  all.writev_bytes_per_second = Rate(all.writev_bytes, seconds);
  all.readv_average_us = Average(all.readv_sum_us, all.readv);
  all.writev_average_us = Average(all.writev_sum_us, all.writev);
  all.readvs_per_second = Rate(all.readv.done, seconds);
  all.writevs_per_second = Rate(all.writev.done, seconds);
  return all;
}

Histograms Statistics::histograms() const {
  const MutexLock lock(mutex_);
  return histograms_;
}

void Statistics::Copy(std::span<DeviceStatistics> devices) const {
  const MutexLock lock(mutex_);
  const double seconds = Seconds();
  const std::size_t count = std::min(devices.size(), devices_.size());
  for (std::size_t i = 0; i < count; ++i) {
    DeviceStatistics& device = devices[i];
    device = devices_[i];
    device.read_bytes_per_second = Rate(device.read_bytes, seconds);
    device.write_bytes_per_second = Rate(device.write_bytes, seconds);
    device.read_utilization =
        std::min<std::uint64_t>(100, Rate(device.read_us * 100, seconds * 1e6));
    device.write_utilization =
        std::min<std::uint64_t>(100, Rate(device.write_us * 100, seconds * 1e6));
  }
}

}  // namespace cuspan::cufile
