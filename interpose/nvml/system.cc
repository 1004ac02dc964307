// Versions of installed software, and properties of the machine.
#include <algorithm>

#include "common/format.h"
#include "interpose/nvml/library.h"
#include "interpose/nvml/text.h"

using namespace cuspan;        // NOLINT: the entry points below are the C API.
using namespace cuspan::nvml;  // NOLINT: the same.

// Version at the first device's node.
CUSPAN_EXPORT int nvmlSystemGetDriverVersion(char* version, unsigned length) {
  return Answer([&](ManagementLibrary& library) -> int {
    if (version == nullptr) return kInvalidArgument;
    if (library.devices().empty() || library.devices().front().driver_release.empty())
      return kNotSupported;
    return CopyText(library.devices().front().driver_release, version, length);
  });
}

// CUDA version supported by every device's driver: the lowest one.
CUSPAN_EXPORT int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  return Answer([&](ManagementLibrary& library) -> int {
    if (version == nullptr) return kInvalidArgument;
    if (library.devices().empty()) return kNotSupported;
    *version = static_cast<int>(std::min_element(library.devices().begin(), library.devices().end(),
                                                 [](const auto& one, const auto& other) {
                                                   return one.driver_version < other.driver_version;
                                                 })
                                    ->driver_version);
    return kSuccess;
  });
}

// NVML_API_VERSION, followed by the driver's release if it is known.
CUSPAN_EXPORT int nvmlSystemGetNVMLVersion(char* version, unsigned length) {
  return Answer([&](ManagementLibrary& library) -> int {
    if (version == nullptr) return kInvalidArgument;
    std::string text = "13";
    if (!library.devices().empty() && !library.devices().front().driver_release.empty())
      text += "." + library.devices().front().driver_release;
    return CopyText(text, version, length);
  });
}

// --- Confidential computing: off, as it would not protect data leaving the program's node.

CUSPAN_EXPORT int nvmlSystemGetConfComputeState(ConfComputeState* state) {
  return Answer([&](ManagementLibrary&) -> int {
    if (state == nullptr) return kInvalidArgument;
    *state = {};
    return kSuccess;
  });
}

CUSPAN_EXPORT int nvmlSystemGetConfComputeSettings(ConfComputeSettings* settings) {
  return Answer([&](ManagementLibrary&) -> int {
    if (settings == nullptr) return kInvalidArgument;
    if (settings->version != VersionOf<ConfComputeSettings>(1)) return kVersionMismatch;
    *settings = {settings->version, 0, 0, 0, 0};
    return kSuccess;
  });
}
