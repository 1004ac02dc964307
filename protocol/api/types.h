// The field types of the op table that C++ does not have by itself.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cuspan {

// Who waits for an op; see ops.table.
enum class OpClass { kControl, kPosted, kCall, kPush, kChunk };

// Bytes inside the frame that was decoded: valid as long as the frame is.
using Bytes = std::span<const std::byte>;

// The secret of a run.
using Key128 = std::array<std::uint8_t, 16>;

struct Dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
  template <typename Self, typename Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit(self.x);
    visit(self.y);
    visit(self.z);
  }
};

// The device addresses that one device of a session may use.
struct AddressWindow {
  std::uint64_t base = 0;
  std::uint64_t bytes = 0;
  // A proxy that can not have `base` tries base + stride, base + 2 × stride, …;
  // the stride spans the windows of all devices, so that they never meet.
  std::uint64_t stride = 0;
  template <typename Self, typename Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit(self.base);
    visit(self.bytes);
    visit(self.stride);
  }
};

// A snapshot of a device: all that is asked about it without a context.
struct DeviceDescription {
  std::string host;
  std::uint32_t agent = 0;    // Rank of the agent that serves it.
  std::uint32_t ordinal = 0;  // As that node's driver counts.
  std::string name;
  std::array<std::uint8_t, 16> uuid{};
  std::string pci_bus_id;
  std::uint64_t memory_bytes = 0;
  std::uint32_t driver_version = 0;  // As cuDriverGetVersion says.
  bool software = false;
  bool virtual_memory = false;  // The driver can map memory where we ask.
  std::vector<std::int32_t> attributes;  // Indexed by CUdevice_attribute; 0 where the driver knows none.
  template <typename Self, typename Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit(self.host);
    visit(self.agent);
    visit(self.ordinal);
    visit(self.name);
    visit(self.uuid);
    visit(self.pci_bus_id);
    visit(self.memory_bytes);
    visit(self.driver_version);
    visit(self.software);
    visit(self.virtual_memory);
    visit(self.attributes);
  }
};

// What one session did with one device: `cuspan run --stats`.
struct DeviceReport {
  std::uint32_t session = 0;
  std::uint32_t device = 0;
  std::string host;
  std::string name;
  bool relayed = false;  // Through agents; otherwise client and proxy share memory.
  std::uint64_t posted = 0;
  std::uint64_t calls = 0;
  std::uint64_t bytes_to_device = 0;
  std::uint64_t bytes_from_device = 0;
  std::uint64_t wait_nanoseconds = 0;
  template <typename Self, typename Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit(self.session);
    visit(self.device);
    visit(self.host);
    visit(self.name);
    visit(self.relayed);
    visit(self.posted);
    visit(self.calls);
    visit(self.bytes_to_device);
    visit(self.bytes_from_device);
    visit(self.wait_nanoseconds);
  }
};

}  // namespace cuspan
