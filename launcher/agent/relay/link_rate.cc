#include "launcher/agent/relay/link_rate.h"

#include <algorithm>
#include <bit>

namespace cuspan {
namespace {

using std::chrono::duration;

// Smaller chunks, in bytes, are not counted: their time is dominated by latency.
constexpr std::uint32_t kMinCounted = 32 * 1024;
// Busy time of the link per estimate.
constexpr std::chrono::milliseconds kSample{5};
// Limits, as factors, for one change of the estimate: a burst passed by the link, or a process not
// scheduled for a while, must not distort it.
constexpr double kMaxGrowth = 2;
constexpr double kMaxLoss = 8;

// Limits in seconds of the link's rate. kWindowSeconds: bulk in flight, since a frame waits behind
// it. kStagedSeconds: the same and the staging buffers, since copies from the device wait behind
// both.
constexpr double kWindowSeconds = 0.004;
constexpr double kStagedSeconds = 0.006;
// Time of one chunk on the link. On its other hops, the first and the last chunk of a copy overlap
// with no others.
constexpr double kChunkSeconds = 0.0004;
constexpr std::uint32_t kMinSlots = 4;

}  // namespace

void LinkRate::Started(Time now) {
  if (under_way_++ == 0) last_ = now;
}

void LinkRate::Finished(std::uint32_t bytes, Time now) {
  --under_way_;
  if (bytes >= kMinCounted) {
    busy_ += now - last_;
    bytes_ += bytes;
  }
  last_ = now;
  if (busy_ < kSample) return;
  const double sample = static_cast<double>(bytes_) / duration<double>(busy_).count();
  rate_ = std::clamp(sample, rate_ / kMaxLoss, rate_ * kMaxGrowth);
  busy_ = {};
  bytes_ = 0;
}

std::uint64_t LinkRate::window_bytes() const {
  return static_cast<std::uint64_t>(rate_ * kWindowSeconds);
}

Pace LinkRate::PaceFor(const ChannelLayout& layout, std::size_t routes) const {
  Pace pace;
  const auto chunk = std::bit_floor(static_cast<std::uint64_t>(rate_ * kChunkSeconds));
  pace.chunk_bytes =
      static_cast<std::uint32_t>(std::min(std::max(chunk, least_chunk_), layout.staging_bytes));
  const double slots = rate_ * kStagedSeconds / pace.chunk_bytes /
                       static_cast<double>(std::max<std::size_t>(routes, 1));
  pace.slots = static_cast<std::uint32_t>(
      std::clamp<double>(slots, std::min(kMinSlots, layout.staging_slots), layout.staging_slots));
  return pace;
}

}  // namespace cuspan
