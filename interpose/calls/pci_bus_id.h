// Parses the text form of a device's PCI address.
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

// Hexadecimal domain:bus:device.function, domain:bus:device or bus:device.function, as documented
// for cudaDeviceGetByPCIBusId; nullopt for other text.
std::optional<PciBusId> ParsePciBusId(std::string_view text);

}  // namespace cuspan
