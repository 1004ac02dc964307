#include "interpose/calls/device.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "interpose/calls/pci_bus_id.h"

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
  if (static_cast<std::size_t>(length) <= id.size()) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(text, id.c_str(), id.size() + 1);
  return CUDA_SUCCESS;
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

Error GetMemoryInfo(Session& session, Link& link, std::size_t* free, std::size_t* total) {
  session.virtual_memory().EndClosed();
  MemoryInfo::Reply reply;
  CUSPAN_RETURN_IF_FAILED(link.Call(MemoryInfo{}, &reply));
  // What is mapped for this program and not in use is free for it.
  if (free != nullptr) *free = reply.free + link.memory().idle_bytes();
  if (total != nullptr) *total = reply.total;
  return CUDA_SUCCESS;
}

}  // namespace cuspan
