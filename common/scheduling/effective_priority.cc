#include "common/scheduling/effective_priority.h"

#include <algorithm>

namespace cuspan::scheduling {

void EffectivePriorities(std::span<const Claim> claims, double decayed_wait,
                         const PriorityWeights& weights, std::span<double> effective) {
  Claim mean;
  for (const Claim& claim : claims) {
    mean.last_wait += claim.last_wait;
    mean.gpu_time += claim.gpu_time;
    mean.proxy_priority += claim.proxy_priority;
  }
  const double count = static_cast<double>(claims.size());
  for (std::size_t i = 0; i < claims.size(); ++i) {
    const Claim& claim = claims[i];
    const double had = weights.gpu_time * (mean.gpu_time / count - claim.gpu_time);
    effective[i] = claim.priority + weights.last_wait * (claim.last_wait - mean.last_wait / count) +
                   weights.average_wait * (claim.average_wait - decayed_wait) +
                   std::clamp(had, -kPriorityStep / 2, kPriorityStep / 2) +
                   weights.proxy_priority * (claim.proxy_priority - mean.proxy_priority / count);
  }
}

}  // namespace cuspan::scheduling
