// Table of some functions of the CUDA runtime, for tests of parts with a table as a parameter.
#pragma once

#include <iterator>

#include "interpose/load/exports.h"

namespace cuspan::load {

inline constexpr Export kSmallExports[] = {
    {"__cudaLaunchKernel", nullptr},     {"__cudaRegisterFatBinary", nullptr},
    {"__cudaRegisterFunction", nullptr}, {"cudaFree", nullptr},
    {"cudaLaunchKernel", nullptr},       {"cudaMalloc", nullptr},
    {"cudaStreamCreate", nullptr},
};
inline constexpr ExportTable kSmallTable = {kSmallExports, std::size(kSmallExports)};

}  // namespace cuspan::load
