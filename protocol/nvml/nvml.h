// Interface of NVIDIA's management library (NVML, libnvidia-ml.so.1): the numbers and structures
// needed by cuspan, from the "NVML API Reference Guide". Not every CUDA Toolkit contains NVML's
// header. Names are without NVML's prefix; values and layouts are NVML's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace cuspan::nvml {

// nvmlReturn_t.
enum Return : int {
  kSuccess = 0,
  kUninitialized = 1,
  kInvalidArgument = 2,
  kNotSupported = 3,
  kNotFound = 6,
  kInsufficientSize = 7,
  kDriverNotLoaded = 9,
  kFunctionNotFound = 13,
  kGpuIsLost = 15,
  kVersionMismatch = 25,
  kUnknown = 999,
};

// nvmlDevice_t: created by the library called.
using Device = void*;

// Version number of a structure: NVML_STRUCT_VERSION.
template <typename T>
constexpr unsigned VersionOf(unsigned version) {
  return static_cast<unsigned>(sizeof(T)) | version << 24U;
}

struct PciInfo {
  char bus_id_legacy[16];  // "0000:01:00.0"
  unsigned domain, bus, device;
  unsigned pci_device_id;     // Device and vendor, 16 bits each.
  unsigned pci_subsystem_id;  // The last member in versions before the third.
  char bus_id[32];            // "00000000:01:00.0"; missing in versions before the third.
};
struct PciInfoExt {
  unsigned version;
  unsigned domain, bus, device;
  unsigned pci_device_id, pci_subsystem_id;
  unsigned base_class, sub_class;
  char bus_id[32];
};
// Percent of the last sample period.
struct Utilization {
  unsigned gpu, memory;
};
struct Temperature {
  unsigned version;
  unsigned sensor;
  int celsius;
};
// Units are bytes, also in the next two structures.
struct Memory {
  unsigned long long total, free, used;
};
struct MemoryV2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
struct Bar1Memory {
  unsigned long long total, free, used;
};
struct ProcessInfoV1 {
  unsigned pid;
  unsigned long long used_memory;  // Bytes.
};
struct ProcessInfo {
  unsigned pid;
  unsigned long long used_memory;
  unsigned gpu_instance, compute_instance;  // kNoInstance without MIG.
};
inline constexpr unsigned kNoInstance = 0xFFFFFFFF;

// NVML_VALUE_TYPE_…
enum ValueType : int { kUnsigned = 1, kUnsignedLongLong = 3 };
struct FieldValue {
  unsigned field, scope;
  long long timestamp, latency;  // Microseconds.
  int type, result;
  union {
    unsigned number;
    unsigned long long long_number;
  } value;
};
// NVML_FI_DEV_…
enum Field : unsigned {
  kMemoryTemperature = 82,
  kTotalEnergy = 83,
  kNvLinkCount = 91,
  kC2cLinkCount = 170,
  kPowerAverage = 185,
  kPowerInstant = 186,
};

// nvmlGpuP2PStatus_t and nvmlGpuP2PCapsIndex_t.
enum PeerStatus : int { kPeerOk = 0, kPeerNotSupported = 5 };
enum PeerAbility : unsigned {
  kPeerRead = 0,
  kPeerWrite = 1,
  kPeerNvLink = 2,
  kPeerAtomics = 3,
  kPeerPci = 4,
  kPeerAbilities = 5
};

struct FabricInfo {
  std::uint8_t cluster[16];
  int status;
  unsigned clique;
  std::uint8_t state;  // 0: not supported.
};
// Versions 2 and 3; version 2 ends with `health_mask`.
struct FabricInfoV {
  unsigned version;
  std::uint8_t cluster[16];
  int status;
  unsigned clique;
  std::uint8_t state;
  unsigned health_mask;
  std::uint8_t health_summary;
};

struct ConfComputeState {
  unsigned environment, feature, developer_tools;
};
struct ConfComputeSettings {
  unsigned version;
  unsigned environment, feature, developer_tools, multi_gpu;
};

// NVML's text form of a device's UUID, in the usual groups: "GPU-…", or "MIG-…" for a MIG instance.
std::string UuidText(bool mig, const std::array<std::uint8_t, 16>& uuid);

}  // namespace cuspan::nvml
