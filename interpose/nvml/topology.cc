// Connections between devices, as visible to the program. Devices of one node may have peer access.
// NVLink and fabrics are not usable by the program, and not reported.
#include <cstddef>
#include <cstring>

#include "interpose/nvml/library.h"

namespace cuspan::nvml {
namespace {

bool SameNode(const DeviceDescription& one, const DeviceDescription& other) {
  return one.agent == other.agent && one.host == other.host;
}

int PeerStatusOf(ManagementLibrary& library, const DeviceDescription& device,
                 const DeviceDescription& peer, unsigned ability, int* status) {
  *status = kPeerNotSupported;
  if (&device == &peer || !SameNode(device, peer)) return kSuccess;
  if (ability != kPeerRead && ability != kPeerWrite && ability != kPeerAtomics) return kSuccess;
  // Software GPUs of a node share its memory.
  if (device.software || peer.software) {
    if (device.software && peer.software) *status = kPeerOk;
    return kSuccess;
  }
  std::vector<std::uint32_t> arguments(5);
  arguments[0] = ability;
  static_assert(sizeof peer.uuid == 4 * sizeof(std::uint32_t));
  std::memcpy(&arguments[1], peer.uuid.data(), sizeof peer.uuid);
  std::vector<std::uint64_t> values;
  const int result = library.Ask(device, "nvmlDeviceGetP2PStatus", std::move(arguments), &values);
  if (result != kSuccess) return result;
  if (values.size() != 1) return kUnknown;
  *status = static_cast<int>(values[0]);
  return kSuccess;
}

// Result for a missing NVLink.
int NoNvLink(Device handle, const void* out) {
  return AnswerAbout(handle, [&](ManagementLibrary&, const DeviceDescription&) -> int {
    return out != nullptr ? kNotSupported : kInvalidArgument;
  });
}

}  // namespace
}  // namespace cuspan::nvml

using namespace cuspan;        // NOLINT: the entry points below are the C API.
using namespace cuspan::nvml;  // NOLINT: the same.

CUSPAN_EXPORT int nvmlDeviceGetP2PStatus(Device device, Device peer, unsigned ability,
                                         int* status) {
  return AnswerAbout(device, [&](ManagementLibrary& library, const DeviceDescription& one) -> int {
    const DeviceDescription* const other = library.Find(peer);
    if (other == nullptr || status == nullptr || ability >= kPeerAbilities) return kInvalidArgument;
    return PeerStatusOf(library, one, *other, ability, status);
  });
}

CUSPAN_EXPORT int nvmlDeviceGetNvLinkCapability(Device device, unsigned /*connection*/,
                                                unsigned /*capability*/, unsigned* result) {
  return NoNvLink(device, result);
}

CUSPAN_EXPORT int nvmlDeviceGetNvLinkState(Device device, unsigned /*connection*/,
                                           unsigned* active) {
  return NoNvLink(device, active);
}

CUSPAN_EXPORT int nvmlDeviceGetNvLinkVersion(Device device, unsigned /*connection*/,
                                             unsigned* version) {
  return NoNvLink(device, version);
}

CUSPAN_EXPORT int nvmlDeviceGetNvLinkRemoteDeviceType(Device device, unsigned /*connection*/,
                                                      unsigned* type) {
  return NoNvLink(device, type);
}

CUSPAN_EXPORT int nvmlDeviceGetNvLinkRemotePciInfo_v2(Device device, unsigned /*connection*/,
                                                      PciInfo* info) {
  return NoNvLink(device, info);
}

CUSPAN_EXPORT int nvmlDeviceGetGpuFabricInfo(Device device, FabricInfo* info) {
  return AnswerAbout(device, [&](ManagementLibrary&, const DeviceDescription&) -> int {
    if (info == nullptr) return kInvalidArgument;
    *info = {};
    return kSuccess;
  });
}

CUSPAN_EXPORT int nvmlDeviceGetGpuFabricInfoV(Device device, FabricInfoV* info) {
  return AnswerAbout(device, [&](ManagementLibrary&, const DeviceDescription&) -> int {
    if (info == nullptr) return kInvalidArgument;
    // The structure of version 2 ends before health_summary; its size is this offset.
    constexpr unsigned kSecond = offsetof(FabricInfoV, health_summary) | 2U << 24U;
    const unsigned version = info->version;
    if (version != kSecond && version != VersionOf<FabricInfoV>(3)) return kVersionMismatch;
    const FabricInfoV none{version, {}, kSuccess, 0, 0, 0, 0};
    std::memcpy(static_cast<void*>(info), &none, version & 0xFFFFFF);
    return kSuccess;
  });
}
