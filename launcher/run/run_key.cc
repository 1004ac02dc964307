#include "launcher/run/run_key.h"

#include <sys/random.h>

#include <cerrno>
#include <charconv>
#include <cstring>

namespace cuspan {
namespace {

bool FromHex(std::string_view text, std::span<std::uint8_t> bytes) {
  if (text.size() != 2 * bytes.size()) return false;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const char* first = text.data() + 2 * i;
    const auto [end, error] = std::from_chars(first, first + 2, bytes[i], 16);
    if (error != std::errc{} || end != first + 2) return false;
  }
  return true;
}

Status FillRandom(std::span<std::uint8_t> bytes) {
  // Requests of up to 256 bytes are never satisfied partially (getrandom(2)).
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return Status::Internal("getrandom: {}", std::strerror(errno));
  return Status::Ok();
}

}  // namespace

std::string ToHex(std::span<const std::uint8_t> bytes) {
  std::string text;
  for (const std::uint8_t byte : bytes) text += Format("{:02x}", byte);
  return text;
}

Result<RunKey> RunKey::Random() {
  RunKey key;
  CUSPAN_RETURN_IF_ERROR(FillRandom(key.id));
  CUSPAN_RETURN_IF_ERROR(FillRandom(key.secret));
  return key;
}

Result<RunKey> RunKey::Parse(std::string_view text) {
  RunKey key;
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos || !FromHex(text.substr(0, colon), key.id) ||
      !FromHex(text.substr(colon + 1), key.secret))
    return Status::Invalid("{} has a value that cuspan did not set; unset it", kVariable);
  return key;
}

std::string RunKey::Text() const { return ToHex(id) + ":" + ToHex(secret); }

}  // namespace cuspan
