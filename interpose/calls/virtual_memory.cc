#include "interpose/calls/virtual_memory.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "common/high_fd.h"

namespace cuspan {
namespace {

// Message in an exported allocation's descriptor, a socket; it is only peeked, never removed. The
// exporting process notices when the last copy of the descriptor is closed.
struct SharedAllocation {
  std::uint64_t magic;
  std::uint32_t agent;    // Agent of the device.
  std::uint32_t ordinal;  // Number on its node: processes may number devices differently.
  std::uint64_t bytes;
  std::uint64_t number;
  std::array<char, 64> exchange;  // NUL-terminated.
};
constexpr std::uint64_t kAllocationMagic = 0x616c'6c6f'6361'7431;

}  // namespace

Error CheckAllocation(Session& session, const CUmemAllocationProp* properties,
                      AllocationFacts* facts) {
  if (properties == nullptr || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
      properties->win32HandleMetaData != nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  const CUmemLocation& location = properties->location;
  if (location.type == CU_MEM_LOCATION_TYPE_HOST || location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA)
    return NotSupported("cuMemCreate of host memory");
  if (location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
  if (!HasDevice(session, location.id)) return CUDA_ERROR_INVALID_DEVICE;
  if (!session.devices().description(location.id).virtual_memory) return CUDA_ERROR_NOT_SUPPORTED;
  // Programs try FABRIC to test its support: CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED is 0.
  constexpr unsigned kKnownHandles = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR |
                                     CU_MEM_HANDLE_TYPE_WIN32 | CU_MEM_HANDLE_TYPE_WIN32_KMT |
                                     CU_MEM_HANDLE_TYPE_FABRIC;
  // Other bits are ignored (measured natively).
  const unsigned handles = properties->requestedHandleTypes & kKnownHandles;
  if (handles == CU_MEM_HANDLE_TYPE_FABRIC) return CUDA_ERROR_NOT_SUPPORTED;
  if (handles != CU_MEM_HANDLE_TYPE_NONE && handles != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return NotSupported("cuMemCreate with a handle type other than a file descriptor");
  if (properties->allocFlags.usage != 0) return NotSupported("cuMemCreate with a usage");
  *facts = {location.id, 0, handles};
  return CUDA_SUCCESS;
}

CUmemAllocationProp PropertiesOf(const AllocationFacts& facts) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = static_cast<CUmemAllocationHandleType>(facts.handle_types);
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = facts.device;
  return properties;
}

Error ExportAllocation(Session& session, std::uint64_t handle, int* file) {
  const auto facts = session.virtual_memory().Find(handle);
  if (!facts || (facts->handle_types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == 0)
    return CUDA_ERROR_INVALID_VALUE;
  session.ipc_memory().SetInUse();
  ExportedAllocation exported;
  CUSPAN_RETURN_IF_FAILED(session.virtual_memory().Export(handle, &exported));
  const DeviceDescription& device = session.devices().description(exported.facts.device);
  SharedAllocation content{kAllocationMagic,     device.agent,    device.ordinal,
                           exported.facts.bytes, exported.number, {}};
  if (exported.exchange.size() >= content.exchange.size()) return CUDA_ERROR_OPERATING_SYSTEM;
  exported.exchange.copy(content.exchange.data(), content.exchange.size() - 1);
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return CUDA_ERROR_OPERATING_SYSTEM;
  UniqueFd own = MoveHigh(UniqueFd(ends[0]));
  UniqueFd given(ends[1]);
  if (::send(own.get(), &content, sizeof content, MSG_NOSIGNAL) != sizeof content)
    return CUDA_ERROR_OPERATING_SYSTEM;
  CUSPAN_RETURN_IF_FAILED(session.virtual_memory().KeepFor(handle, std::move(own)));
  *file = given.Release();
  return CUDA_SUCCESS;
}

Error ImportAllocation(Session& session, int file, std::uint64_t* handle) {
  SharedAllocation content{};
  const ssize_t got = ::recv(file, &content, sizeof content, MSG_PEEK | MSG_DONTWAIT);
  if (got < 0 && errno == EBADF) return CUDA_ERROR_UNKNOWN;  // No descriptor (measured natively).
  if (got != sizeof content || content.magic != kAllocationMagic || content.exchange.back() != '\0')
    return CUDA_ERROR_INVALID_VALUE;
  for (int device = 0; device < session.devices().count(); ++device) {
    const DeviceDescription& description = session.devices().description(device);
    if (description.agent != content.agent || description.ordinal != content.ordinal) continue;
    session.ipc_memory().SetInUse();
    return session.virtual_memory().Import(
        {{device, content.bytes, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR},
         content.exchange.data(),
         content.number},
        handle);
  }
  return CUDA_ERROR_NOT_SUPPORTED;
}

Error SetAccess(Session& session, CUdeviceptr address, std::size_t bytes,
                const CUmemAccessDesc& access) {
  if (!IsAccess(access.flags)) return CUDA_ERROR_INVALID_VALUE;
  if (access.location.type == CU_MEM_LOCATION_TYPE_HOST ||
      access.location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA)
    return NotSupported("cuMemSetAccess for the host");
  if (access.location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
  if (!HasDevice(session, access.location.id)) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result =
      session.virtual_memory().SetAccess(address, bytes, access.location.id, access.flags);
  if (result == CUDA_ERROR_NOT_SUPPORTED)
    return NotSupported("cuMemSetAccess for a device that has no peer access to the memory");
  return result;
}

Error GetAccess(Session& session, CUdeviceptr address, const CUmemLocation& location,
                CUmemAccess_flags* flags) {
  switch (location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      if (!HasDevice(session, location.id)) return CUDA_ERROR_INVALID_DEVICE;
      return session.virtual_memory().GetAccess(address, location.id, flags);
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      if (!session.virtual_memory().At(address)) return CUDA_ERROR_INVALID_VALUE;
      *flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace cuspan
