// Values by number (NVML_FI_…). Some are read at the device's node. The numbers of connections are
// 0.
#include <chrono>

#include "interpose/nvml/library.h"

namespace cuspan::nvml {
namespace {

void GetField(ManagementLibrary& library, const DeviceDescription& device, FieldValue& field) {
  field.timestamp = std::chrono::duration_cast<std::chrono::microseconds>(
                        std::chrono::system_clock::now().time_since_epoch())
                        .count();
  field.latency = 0;
  field.value.long_number = 0;
  switch (field.field) {
    case kNvLinkCount:
    case kC2cLinkCount:
      field.type = kUnsigned;
      field.result = kSuccess;
      return;
    case kMemoryTemperature:
    case kTotalEnergy:
    case kPowerAverage:
    case kPowerInstant: {
      std::vector<std::uint64_t> values;
      field.result =
          library.Ask(device, "nvmlDeviceGetFieldValues", {field.field, field.scope}, &values);
      if (field.result != kSuccess) return;
      if (values.size() != 2) {
        field.result = kUnknown;
        return;
      }
      field.type = static_cast<int>(values[0]);
      field.value.long_number = values[1];
      return;
    }
    default:
      field.result = kNotSupported;
  }
}

}  // namespace
}  // namespace cuspan::nvml

using namespace cuspan;        // NOLINT: the entry points below are the C API.
using namespace cuspan::nvml;  // NOLINT: the same.

CUSPAN_EXPORT int nvmlDeviceGetFieldValues(Device device, int count, FieldValue* fields) {
  return AnswerAbout(device,
                     [&](ManagementLibrary& library, const DeviceDescription& described) -> int {
                       if (count <= 0 || fields == nullptr) return kInvalidArgument;
                       for (int i = 0; i < count; ++i) GetField(library, described, fields[i]);
                       return kSuccess;
                     });
}
