// CUDA's errors by their names in cuda.h, for code without this header.
#pragma once

#include <cstdint>

namespace cuspan::cuda {

enum DriverError : std::int32_t {
#define CUSPAN_CUDA_ERROR(number, runtime_name, driver_name, text) driver_name = number,
#define CUSPAN_RUNTIME_ERROR(number, runtime_name, driver_answer, text)
#define CUSPAN_DRIVER_ERROR(number, driver_name, text) driver_name = number,
#include "common/cuda_errors.def"
#undef CUSPAN_CUDA_ERROR
#undef CUSPAN_RUNTIME_ERROR
#undef CUSPAN_DRIVER_ERROR
};

}  // namespace cuspan::cuda
