#include "launcher/agent/meeting/proof.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <string_view>
#include <vector>

namespace cuspan {

Nonce RandomNonce() {
  Nonce nonce{};
  // The kernel does not split requests this small.
  while (::getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size())) {
  }
  return nonce;
}

Result<Proof> Prove(const Key128& secret, Side side, const Nonce& head_nonce,
                    const Nonce& worker_nonce, std::uint32_t rank) {
  constexpr std::string_view kWhat = "cuspan agents 1";
  std::vector<std::uint8_t> text(kWhat.begin(), kWhat.end());
  text.push_back(static_cast<std::uint8_t>(side));
  text.insert(text.end(), head_nonce.begin(), head_nonce.end());
  text.insert(text.end(), worker_nonce.begin(), worker_nonce.end());
  for (int shift = 0; shift < 32; shift += 8)
    text.push_back(static_cast<std::uint8_t>(rank >> shift));
  Proof proof{};
  unsigned int bytes = proof.size();
  if (::HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()), text.data(), text.size(),
             proof.data(), &bytes) == nullptr)
    return Status::Exhausted("libcrypto cannot compute a HMAC-SHA256");
  return proof;
}

bool SameProof(const Proof& one, const Proof& other) {
  return ::CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

}  // namespace cuspan
