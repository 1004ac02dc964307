// The versions of what is installed, and what the machine as a whole is.
#include <algorithm>

#include "common/format.h"
#include "interpose/nvml/library.h"
#include "interpose/nvml/text.h"

using namespace cuspan;        // NOLINT: the entry points below are the C API.
using namespace cuspan::nvml;  // NOLINT: the same.

// The first device's node speaks for all.
CUSPAN_EXPORT int nvmlSystemGetDriverVersion(char* version, unsigned length) {
  return Answer([&](ManagementLibrary& library) -> int {
    if (version == nullptr) return kInvalidArgument;
    if (library.devices().empty() || library.devices().front().driver_release.empty())
      return kNotSupported;
    return CopyText(library.devices().front().driver_release, version, length);
  });
}

// Of CUDA: what every device's driver has.
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

// NVML_API_VERSION, and the driver's release as far as there is one.
CUSPAN_EXPORT int nvmlSystemGetNVMLVersion(char* version, unsigned length) {
  return Answer([&](ManagementLibrary& library) -> int {
    if (version == nullptr) return kInvalidArgument;
    std::string text = "13";
    if (!library.devices().empty() && !library.devices().front().driver_release.empty())
      text += "." + library.devices().front().driver_release;
    return CopyText(text, version, length);
  });
}

// --- Confidential computing: what leaves the program's node is not protected by it.

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
