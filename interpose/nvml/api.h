// Macros to define NVML's functions. The parameters are NVML's, with integers instead of its
// enumerations (protocol/nvml/nvml.h).
#pragma once

// Prefix of every definition called by programs.
#define CUSPAN_EXPORT extern "C" __attribute__((visibility("default")))
