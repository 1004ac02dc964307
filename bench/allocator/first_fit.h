// The baseline for the policies: the first GPUs in the order of the pool.
#pragma once

#include <optional>
#include <string_view>

#include "launcher/allocator/policy.h"

namespace cuspan::bench::allocator {

// A policy of the product; empty: first-fit.
using TestedPolicy = std::optional<Policy>;
inline constexpr TestedPolicy kFirstFit = std::nullopt;

// Parses "first-fit", or the name of a policy of the product.
Result<TestedPolicy> ParseTestedPolicy(std::string_view text);
const char* NameOf(TestedPolicy policy);

// Same as cuspan::Decide for a request without shared GPUs, but by first-fit; ignores the policy of
// the request.
Decision DecideFirstFit(const GpuPool& pool, const PoolLeases& leases,
                        const AllocationRequest& request);

}  // namespace cuspan::bench::allocator
