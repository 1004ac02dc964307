// What identifies a run: its id, which names the head agent's socket, and its
// secret, which every handshake carries.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "common/status.h"
#include "protocol/api/types.h"

namespace cuspan {

// Lower-case hexadecimal digits, two a byte.
std::string ToHex(std::span<const std::uint8_t> bytes);

struct RunKey {
  // The variable that tells agents the key of their run. The app never has it.
  static constexpr const char* kVariable = "CUSPAN_AGENT_KEY";

  std::array<std::uint8_t, 8> id{};
  Key128 secret{};

  // From the kernel's random numbers.
  static Result<RunKey> Random();
  // Reads what Text() wrote. Messages never contain the key.
  static Result<RunKey> Parse(std::string_view text);

  // "id:secret" in hexadecimal; never to be shown or logged.
  std::string Text() const;
  // The abstract socket address at which the head agent serves clients.
  std::string Address() const { return "cuspan-" + Id(); }
  // Of the run, as users see it.
  std::string Id() const { return ToHex(id); }
  // The abstract socket address at which the launcher waits for the head agent.
  std::string LauncherAddress() const { return Address() + "-launcher"; }
};

}  // namespace cuspan
