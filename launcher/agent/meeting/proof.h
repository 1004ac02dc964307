// Proof that one knows a run's secret, to somebody of whom one does not know that yet: each side
// answers the other's question, and the secret never crosses.
#pragma once

#include <array>
#include <cstdint>

#include "common/status.h"
#include "protocol/api/types.h"

namespace cuspan {

// Thrown once: a question.
using Nonce = std::array<std::uint8_t, 32>;
using Proof = std::array<std::uint8_t, 32>;

// From the kernel's random numbers.
Nonce RandomNonce();

// Whose proof it is: that of one side is none of the other's.
enum class Side : std::uint8_t { kHome, kAway };

// HMAC-SHA256 (RFC 2104) under the secret of both questions, the side that answers, and the rank
// that is claimed. kExhausted where libcrypto has no memory.
Result<Proof> Prove(const Key128& secret, Side side, const Nonce& of_home, const Nonce& of_away,
                    std::uint32_t rank);

// In constant time.
bool SameProof(const Proof& one, const Proof& other);

}  // namespace cuspan
