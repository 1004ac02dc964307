// Process identity in the machine-readable log lines of the software GPU: the library has its own
// log. It exports cuspan_soft_set_log_identity for it; no other driver does.
#pragma once

#include <cstdint>

namespace cuspan::softgpu {

struct LogIdentity {
  const char* run;
  std::uint32_t session;
  std::uint32_t device;
};

// Type of the exported function. Copies `identity`. Called before other threads use the library.
using SetLogIdentity = void (*)(const LogIdentity* identity);
inline constexpr const char* kSetLogIdentity = "cuspan_soft_set_log_identity";

}  // namespace cuspan::softgpu
