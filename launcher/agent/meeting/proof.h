// Mutual proof of knowing a run's secret: each side answers the other's challenge, and the secret
// is never sent.
#pragma once

#include <array>
#include <cstdint>

#include "common/status.h"
#include "protocol/api/types.h"

namespace cuspan {

// A random challenge, used once.
using Nonce = std::array<std::uint8_t, 32>;
using Proof = std::array<std::uint8_t, 32>;

// Drawn from the kernel's random numbers.
Nonce RandomNonce();

// The proving side. A proof of one side is not valid for the other.
enum class Side : std::uint8_t { kHead, kWorker };

// HMAC-SHA256 (RFC 2104), keyed with the secret, over both nonces, the proving side and the claimed
// rank. kExhausted if libcrypto is out of memory.
Result<Proof> Prove(const Key128& secret, Side side, const Nonce& head_nonce,
                    const Nonce& worker_nonce, std::uint32_t rank);

// Compares in constant time.
bool SameProof(const Proof& one, const Proof& other);

}  // namespace cuspan
