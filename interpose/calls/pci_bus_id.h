// The text form of a device's place on the PCI bus.
#pragma once

#include <optional>
#include <string_view>

namespace cuspan {

struct PciBusId {
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned function;
  bool operator==(const PciBusId&) const = default;
};

// Hexadecimal domain:bus:device.function, domain:bus:device or
// bus:device.function, as cudaDeviceGetByPCIBusId documents; nothing for other text.
std::optional<PciBusId> ParsePciBusId(std::string_view text);

}  // namespace cuspan
