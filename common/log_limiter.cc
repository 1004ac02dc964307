#include "common/log_limiter.h"

#include <algorithm>
#include <iterator>

namespace cuspan {

void LogLimiter::Refill(Bucket& bucket, Clock::time_point now) {
  if (now < bucket.counted) return;
  const auto periods = (now - bucket.counted) / kEvery;
  bucket.counted += periods * kEvery;
  bucket.lines = static_cast<int>(std::min<std::int64_t>(bucket.lines + periods, kBurst));
}

LogLimiter::Bucket& LogLimiter::Find(std::string_view kind, Clock::time_point now) {
  if (const auto known = buckets_.find(kind); known != buckets_.end()) return known->second;
  if (buckets_.size() >= kMaxKinds) {
    for (auto entry = buckets_.begin(); entry != buckets_.end();) {
      Refill(entry->second, now);
      entry = entry->second.lines == kBurst ? buckets_.erase(entry) : std::next(entry);
    }
  }
  // If all buckets are in use, all other kinds share one.
  const bool room = buckets_.size() < kMaxKinds;
  Bucket& bucket = buckets_[room ? std::string(kind) : std::string()];
  if (bucket.counted == Clock::time_point()) bucket.counted = now;
  return bucket;
}

LogLimiter::Verdict LogLimiter::Judge(std::string_view kind, Clock::time_point now) {
  Bucket& bucket = Find(kind, now);
  Refill(bucket, now);
  if (bucket.lines == 0) {
    ++bucket.left_out;
    return {false, bucket.left_out};
  }
  // The first line of a series starts the refill interval.
  if (bucket.lines == kBurst) bucket.counted = now;
  --bucket.lines;
  const Verdict verdict{true, bucket.left_out};
  bucket.left_out = 0;
  return verdict;
}

}  // namespace cuspan
