// How this library defines NVML's functions. Their parameters are NVML's, with numbers in place of
// its enumerations (protocol/nvml/nvml.h).
#pragma once

// In front of every definition that programs call.
#define CUSPAN_EXPORT extern "C" __attribute__((visibility("default")))
