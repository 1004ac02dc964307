// What the software GPU's lines for machines say of the process that they come from: the library
// has a log of its own. It exports cuspan_soft_set_log_identity for that; no other driver has it.
#pragma once

#include <cstdint>

namespace cuspan::softgpu {

struct LogIdentity {
  const char* run;
  std::uint32_t session;
  std::uint32_t device;
};

// The exported function's type. `identity` is copied. Called before other threads use the library.
using SetLogIdentity = void (*)(const LogIdentity* identity);
inline constexpr const char* kSetLogIdentity = "cuspan_soft_set_log_identity";

}  // namespace cuspan::softgpu
