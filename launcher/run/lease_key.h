// Names of GPUs' leases.
#pragma once

#include <string>
#include <string_view>

#include "common/status.h"
#include "launcher/run/run_key.h"
#include "structs.gen.h"

namespace cuspan {

// CUSPAN_LEASES: the GPUs subject to leases. kAuto: all except software GPUs.
enum class LeaseMode { kAuto, kOn, kOff };
inline Result<LeaseMode> ParseLeaseMode(std::string_view text) {
  if (text == "auto") return LeaseMode::kAuto;
  if (text == "on") return LeaseMode::kOn;
  if (text == "off") return LeaseMode::kOff;
  return Status::Invalid("CUSPAN_LEASES must be auto, on or off, not '{}'", text);
}

// Mode in effect for a run: a sharing run has leases of software GPUs too.
inline LeaseMode LeaseModeOf(LeaseMode setting, const ShareTerms& terms) {
  return terms.shared && setting == LeaseMode::kAuto ? LeaseMode::kOn : setting;
}

inline bool IsLeased(const DeviceDescription& device, LeaseMode mode) {
  return mode == LeaseMode::kOn || (mode == LeaseMode::kAuto && !device.software);
}

// Key of a GPU, unique on its host: its UUID in hexadecimal digits, or the ordinal for a software
// GPU. Each process creates its own software GPUs, but equal ordinals on a host count as the same
// GPU.
inline std::string LeaseKey(const DeviceDescription& device) {
  return device.software ? Format("soft{}", device.ordinal) : ToHex(device.uuid);
}
inline bool IsSoftwareKey(std::string_view key) { return key.starts_with("soft"); }

}  // namespace cuspan
