#include "interpose/calls/device.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>

#include "interpose/calls/base/attributes.h"
#include "interpose/calls/pci_bus_id.h"
#include "interpose/client/arrays.h"

namespace cuspan {

int DriverVersion(const Session& session) {
  const Devices& devices = session.devices();
  if (devices.count() == 0) return 0;
  auto oldest = devices.description(0).driver_version;
  for (int device = 1; device < devices.count(); ++device)
    oldest = std::min(oldest, devices.description(device).driver_version);
  return static_cast<int>(oldest);
}

Error GetPciBusId(const Session& session, int device, char* text, int length) {
  if (!HasDevice(session, device)) return CUDA_ERROR_INVALID_DEVICE;
  const std::string& id = session.devices().description(device).pci_bus_id;
  // Text beyond `length` is cut (measured natively).
  const std::size_t bytes = std::min(id.size(), static_cast<std::size_t>(length) - 1);
  std::memcpy(text, id.data(), bytes);
  text[bytes] = '\0';
  return bytes == id.size() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

Error FindByPciBusId(const Session& session, const char* text, int* device) {
  const std::optional<PciBusId> wanted = ParsePciBusId(text);
  if (!wanted) return CUDA_ERROR_INVALID_VALUE;
  for (int candidate = 0; candidate < session.devices().count(); ++candidate) {
    if (ParsePciBusId(session.devices().description(candidate).pci_bus_id) == wanted) {
      *device = candidate;
      return CUDA_SUCCESS;
    }
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

Error LinearTextureWidth(const DeviceDescription& device, std::uint32_t format, unsigned channels,
                         std::size_t* elements) {
  constexpr CUarray_format kFormats[] = {CU_AD_FORMAT_UNSIGNED_INT8,  CU_AD_FORMAT_UNSIGNED_INT16,
                                         CU_AD_FORMAT_UNSIGNED_INT32, CU_AD_FORMAT_SIGNED_INT8,
                                         CU_AD_FORMAT_SIGNED_INT16,   CU_AD_FORMAT_SIGNED_INT32,
                                         CU_AD_FORMAT_HALF,           CU_AD_FORMAT_FLOAT};
  if (std::find(std::begin(kFormats), std::end(kFormats), static_cast<CUarray_format>(format)) ==
          std::end(kFormats) ||
      (channels != 1 && channels != 2 && channels != 4))
    return CUDA_ERROR_INVALID_VALUE;
  // The attribute is for the largest elements. On an H100 the limit in bytes is the same for
  // smaller ones, but at most four times as many elements (measured natively, driver 580).
  constexpr std::uint64_t kLargestElement = 16;
  constexpr std::uint64_t kMaxTimes = 4;
  Array element{};
  element.shape.format = format;
  element.shape.channels = channels;
  const auto width = static_cast<std::uint64_t>(
      AttributeOf(device, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH));
  *elements = width * std::min(kMaxTimes, kLargestElement / element.element_bytes());
  return CUDA_SUCCESS;
}

Error GetMemoryInfo(Session& session, ContextConnection& connection, std::size_t* free,
                    std::size_t* total) {
  session.virtual_memory().EndClosed();
  MemoryInfo::Reply reply;
  CUSPAN_RETURN_IF_FAILED(connection.Call(MemoryInfo{}, &reply));
  // Idle memory already mapped for this program is free for it.
  if (free != nullptr) *free = reply.free + connection.memory().idle_bytes();
  if (total != nullptr) *total = reply.total;
  return CUDA_SUCCESS;
}

}  // namespace cuspan
