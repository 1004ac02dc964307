// Identity of a run: its id, part of the head agent's socket address, and its secret, part of every
// handshake.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "common/status.h"
#include "protocol/api/types.h"

namespace cuspan {

// Lower-case hexadecimal digits, two per byte.
std::string ToHex(std::span<const std::uint8_t> bytes);

struct RunKey {
  // Variable that passes the run's key to agents. The program never has it.
  static constexpr const char* kVariable = "CUSPAN_AGENT_KEY";

  std::array<std::uint8_t, 8> id{};
  Key128 secret{};

  // Uses the kernel's random numbers.
  static Result<RunKey> Random();
  // Parses the output of Text(). Error messages never contain the key.
  static Result<RunKey> Parse(std::string_view text);

  // "id:secret" in hexadecimal; must not be shown or logged.
  std::string Text() const;
  // Abstract socket address of the head agent for clients.
  std::string Address() const { return "cuspan-" + Id(); }
  // Id of the run as shown to users.
  std::string Id() const { return ToHex(id); }
  // Abstract socket address of the launcher for the head agent.
  std::string LauncherAddress() const { return Address() + "-launcher"; }
};

}  // namespace cuspan
