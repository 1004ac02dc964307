// What a GPU's lease is called.
#pragma once

#include <string>
#include <string_view>

#include "common/status.h"
#include "launcher/run/run_key.h"
#include "structs.gen.h"

namespace cuspan {

// CUSPAN_LEASES: of which GPUs runs have leases.
enum class LeaseMode { kAuto, kOn, kOff };
inline Result<LeaseMode> ParseLeaseMode(std::string_view text) {
  if (text == "auto") return LeaseMode::kAuto;
  if (text == "on") return LeaseMode::kOn;
  if (text == "off") return LeaseMode::kOff;
  return Status::Invalid("CUSPAN_LEASES must be auto, on or off, not '{}'", text);
}

// What the setting means for a run: who shares its GPUs has leases of software GPUs, too.
inline LeaseMode LeaseModeOf(LeaseMode setting, const ShareTerms& terms) {
  return terms.shared && setting == LeaseMode::kAuto ? LeaseMode::kOn : setting;
}

inline bool IsLeased(const DeviceDescription& device, LeaseMode mode) {
  return mode == LeaseMode::kOn || (mode == LeaseMode::kAuto && !device.software);
}

// Of one host: a GPU's UUID in hexadecimal digits, or the number of a software GPU, which each
// process makes anew and which is taken for the same one on all of its host.
inline std::string LeaseKey(const DeviceDescription& device) {
  return device.software ? Format("soft{}", device.ordinal) : ToHex(device.uuid);
}
inline bool IsSoftwareKey(std::string_view key) { return key.starts_with("soft"); }

}  // namespace cuspan
