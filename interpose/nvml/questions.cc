// Queries answered by the device's node (see protocol/nvml/questions.def).
#include "interpose/nvml/questions.h"

using namespace cuspan;  // NOLINT: the entry points below are the C API.

#define CUSPAN_NVML_QUESTION(name, parameters, ...) \
  CUSPAN_EXPORT int name parameters { return ::cuspan::nvml::AskAbout(device, #name, __VA_ARGS__); }
#include "protocol/nvml/questions.def"
#undef CUSPAN_NVML_QUESTION

// Sent as the older function, known to nodes with older drivers, too.
CUSPAN_EXPORT int nvmlDeviceGetTemperatureV(nvml::Device device, nvml::Temperature* temperature) {
  unsigned* const celsius =
      temperature != nullptr ? reinterpret_cast<unsigned*>(&temperature->celsius) : nullptr;
  if (temperature != nullptr && temperature->version != nvml::VersionOf<nvml::Temperature>(1))
    return nvml::kVersionMismatch;
  return nvml::AskAbout(device, "nvmlDeviceGetTemperature",
                        temperature != nullptr ? temperature->sensor : 0U, celsius);
}
