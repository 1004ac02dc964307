// Devices: enumeration, and constant properties.
#include <algorithm>
#include <cstring>
#include <optional>

#include "common/format.h"
#include "interpose/calls/base/attributes.h"
#include "interpose/calls/pci_bus_id.h"
#include "interpose/nvml/library.h"
#include "interpose/nvml/text.h"

namespace cuspan::nvml {
namespace {

// Calls body(const DeviceDescription&) → NVML result if `out` is not null.
template <typename Body>
int Describe(Device handle, const void* out, Body&& body) {
  return AnswerAbout(handle, [&](ManagementLibrary&, const DeviceDescription& device) -> int {
    return out != nullptr ? body(device) : kInvalidArgument;
  });
}

// Finds the first device matching is(device).
template <typename Is>
int FindDevice(const void* given, Device* found, Is&& is) {
  return Answer([&](ManagementLibrary& library) -> int {
    if (given == nullptr || found == nullptr) return kInvalidArgument;
    const auto& all = library.devices();
    const auto device = std::find_if(all.begin(), all.end(), is);
    if (device == all.end()) return kNotFound;
    *found = ManagementLibrary::HandleOf(*device);
    return kSuccess;
  });
}

PciBusId BusOf(const DeviceDescription& device) {
  return ParsePciBusId(device.pci_bus_id).value_or(PciBusId{});
}

template <std::size_t kSize>
void Print(char (&buffer)[kSize], const std::string& text) {
  static_cast<void>(CopyText(text, buffer, kSize));
}

// NVML's format of bus addresses. Its devices are always function 0.
std::string BusText(const PciBusId& bus, int domain_digits) {
  return Format("{:0{}X}:{:02X}:{:02X}.0", bus.domain, domain_digits, bus.bus, bus.device);
}

// Fills the members common to all versions of the structure.
void FillPciInfo(const DeviceDescription& device, PciInfo* info) {
  const PciBusId bus = BusOf(device);
  Print(info->bus_id_legacy, BusText(bus, 4));
  info->domain = bus.domain;
  info->bus = bus.bus;
  info->device = bus.device;
  info->pci_device_id =
      static_cast<unsigned>(AttributeOf(device, CU_DEVICE_ATTRIBUTE_GPU_PCI_DEVICE_ID));
  info->pci_subsystem_id =
      static_cast<unsigned>(AttributeOf(device, CU_DEVICE_ATTRIBUTE_GPU_PCI_SUBSYSTEM_ID));
}

// NVML_DEVICE_ARCH_…, by compute capability.
unsigned Architecture(int major, int minor) {
  constexpr unsigned kUnknownArchitecture = 0xFFFFFFFF;
  switch (major) {
    case 5:
      return 3;  // Maxwell
    case 6:
      return 4;  // Pascal
    case 7:
      return minor < 5 ? 5 : 6;  // Volta, Turing
    case 8:
      return minor < 9 ? 7 : 8;  // Ampere, Ada
    case 9:
      return 9;  // Hopper
    case 10:
    case 11:
    case 12:
      return 10;  // Blackwell
    default:
      return kUnknownArchitecture;
  }
}

}  // namespace
}  // namespace cuspan::nvml

using namespace cuspan;        // NOLINT: the entry points below are the C API.
using namespace cuspan::nvml;  // NOLINT: the same.

// --- Enumeration

CUSPAN_EXPORT int nvmlDeviceGetCount_v2(unsigned* count) {
  return Answer([&](ManagementLibrary& library) -> int {
    if (count == nullptr) return kInvalidArgument;
    *count = static_cast<unsigned>(library.devices().size());
    return kSuccess;
  });
}

CUSPAN_EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device) {
  return Answer([&](ManagementLibrary& library) -> int {
    if (device == nullptr || index >= library.devices().size()) return kInvalidArgument;
    *device = ManagementLibrary::HandleOf(library.devices()[index]);
    return kSuccess;
  });
}

CUSPAN_EXPORT int nvmlDeviceGetHandleByUUID(const char* uuid, Device* device) {
  return FindDevice(uuid, device, [&](const DeviceDescription& each) {
    return UuidText(each.mig, each.uuid) == uuid;
  });
}

// Devices of different hosts may have the same address. The first one is found.
CUSPAN_EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char* text, Device* device) {
  const std::optional<PciBusId> bus =
      text != nullptr ? ParsePciBusId(text) : std::optional<PciBusId>();
  return FindDevice(text, device, [&](const DeviceDescription& each) {
    return bus && ParsePciBusId(each.pci_bus_id) == bus;
  });
}

CUSPAN_EXPORT int nvmlDeviceGetIndex(Device device, unsigned* index) {
  return AnswerAbout(device,
                     [&](ManagementLibrary& library, const DeviceDescription& described) -> int {
                       if (index == nullptr) return kInvalidArgument;
                       *index = library.IndexOf(described);
                       return kSuccess;
                     });
}

// --- Properties

CUSPAN_EXPORT int nvmlDeviceGetName(Device device, char* name, unsigned length) {
  return Describe(device, name, [&](const DeviceDescription& described) {
    return CopyText(described.name, name, length);
  });
}

CUSPAN_EXPORT int nvmlDeviceGetUUID(Device device, char* uuid, unsigned length) {
  return Describe(device, uuid, [&](const DeviceDescription& described) {
    return CopyText(UuidText(described.mig, described.uuid), uuid, length);
  });
}

CUSPAN_EXPORT int nvmlDeviceGetCudaComputeCapability(Device device, int* major, int* minor) {
  return Describe(device, major, [&](const DeviceDescription& described) -> int {
    if (minor == nullptr) return kInvalidArgument;
    *major = AttributeOf(described, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    *minor = AttributeOf(described, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    return kSuccess;
  });
}

CUSPAN_EXPORT int nvmlDeviceGetArchitecture(Device device, unsigned* architecture) {
  return Describe(device, architecture, [&](const DeviceDescription& described) -> int {
    *architecture =
        Architecture(AttributeOf(described, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
                     AttributeOf(described, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
    return kSuccess;
  });
}

CUSPAN_EXPORT int nvmlDeviceGetMemoryBusWidth(Device device, unsigned* bits) {
  return Describe(device, bits, [&](const DeviceDescription& described) -> int {
    const int width = AttributeOf(described, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
    if (width <= 0) return kNotSupported;
    *bits = static_cast<unsigned>(width);
    return kSuccess;
  });
}

// --- Bus addresses

CUSPAN_EXPORT int nvmlDeviceGetPciInfo_v3(Device device, PciInfo* info) {
  return Describe(device, info, [&](const DeviceDescription& described) -> int {
    FillPciInfo(described, info);
    Print(info->bus_id, BusText(BusOf(described), 8));
    return kSuccess;
  });
}

// Structures of earlier versions end after the subsystem.
CUSPAN_EXPORT int nvmlDeviceGetPciInfo_v2(Device device, PciInfo* info) {
  return Describe(device, info, [&](const DeviceDescription& described) -> int {
    PciInfo whole{};
    FillPciInfo(described, &whole);
    std::memcpy(static_cast<void*>(info), &whole, offsetof(PciInfo, bus_id));
    return kSuccess;
  });
}

CUSPAN_EXPORT int nvmlDeviceGetPciInfoExt(Device device, PciInfoExt* info) {
  return Describe(device, info, [&](const DeviceDescription& described) -> int {
    if (info->version != VersionOf<PciInfoExt>(1)) return kVersionMismatch;
    PciInfo known{};
    FillPciInfo(described, &known);
    info->domain = known.domain;
    info->bus = known.bus;
    info->device = known.device;
    info->pci_device_id = known.pci_device_id;
    info->pci_subsystem_id = known.pci_subsystem_id;
    // 3D controller, a class of the PCI Code and ID Assignment Specification.
    info->base_class = 3;
    info->sub_class = 2;
    Print(info->bus_id, BusText(BusOf(described), 8));
    return kSuccess;
  });
}

// --- MIG: programs see every device of the run as a whole GPU.

CUSPAN_EXPORT int nvmlDeviceGetMigMode(Device device, unsigned* current, unsigned* pending) {
  return Describe(device, current, [&](const DeviceDescription& described) -> int {
    if (pending == nullptr) return kInvalidArgument;
    if (described.software ||
        AttributeOf(described, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) < 8)
      return kNotSupported;
    *current = *pending = 0;
    return kSuccess;
  });
}

CUSPAN_EXPORT int nvmlDeviceIsMigDeviceHandle(Device device, unsigned* is) {
  return Describe(device, is, [&](const DeviceDescription&) -> int {
    *is = 0;
    return kSuccess;
  });
}

CUSPAN_EXPORT int nvmlDeviceGetMaxMigDeviceCount(Device device, unsigned* count) {
  return Describe(device, count, [&](const DeviceDescription&) -> int {
    *count = 0;
    return kSuccess;
  });
}
