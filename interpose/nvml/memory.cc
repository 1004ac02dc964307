// Used and free memory of devices.
#include "interpose/nvml/questions.h"
#include "interpose/nvml/this_process.h"

namespace cuspan::nvml {
namespace {

// Software GPUs are unknown to the node's NVML. Each process has their memory for itself.
Memory OfSoftware(const DeviceDescription& device) {
  const unsigned long long used = UsedHere(device).value_or(0);
  return {device.memory_bytes, device.memory_bytes - used, used};
}

}  // namespace
}  // namespace cuspan::nvml

using namespace cuspan;        // NOLINT: the entry points below are the C API.
using namespace cuspan::nvml;  // NOLINT: the same.

CUSPAN_EXPORT int nvmlDeviceGetMemoryInfo(Device device, Memory* memory) {
  bool software = false;
  const int found =
      AnswerAbout(device, [&](ManagementLibrary&, const DeviceDescription& described) -> int {
        software = described.software;
        if (memory == nullptr) return kInvalidArgument;
        if (software) *memory = OfSoftware(described);
        return kSuccess;
      });
  if (found != kSuccess || software) return found;
  return AskAbout(device, "nvmlDeviceGetMemoryInfo", memory);
}

CUSPAN_EXPORT int nvmlDeviceGetMemoryInfo_v2(Device device, MemoryV2* memory) {
  return AnswerAbout(
      device, [&](ManagementLibrary& library, const DeviceDescription& described) -> int {
        if (memory == nullptr) return kInvalidArgument;
        if (memory->version != VersionOf<MemoryV2>(2)) return kVersionMismatch;
        if (described.software) {
          const Memory known = OfSoftware(described);
          *memory = {memory->version, known.total, 0, known.free, known.used};
          return kSuccess;
        }
        std::vector<std::uint64_t> values;
        const int result = library.Ask(described, "nvmlDeviceGetMemoryInfo_v2", {}, &values);
        if (result != kSuccess) return result;
        if (values.size() != 4) return kUnknown;
        *memory = {memory->version, values[0], values[1], values[2], values[3]};
        return kSuccess;
      });
}
