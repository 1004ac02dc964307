// check.h for programs using the driver API.
#pragma once

#include <cuda.h>

#include "check.h"

inline const char* Name(CUresult result) {
  const char* name = nullptr;
  return cuGetErrorName(result, &name) == CUDA_SUCCESS ? name : "?";
}

// Ends the program if the call fails.
#define DRIVER(call)                                                                           \
  do {                                                                                         \
    const CUresult driver_result = (call);                                                     \
    if (driver_result != CUDA_SUCCESS) {                                                       \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, Name(driver_result)); \
      std::exit(EXIT_FAILURE);                                                                 \
    }                                                                                          \
  } while (false)

#define EXPECT_RESULT(call, wanted)                                          \
  do {                                                                       \
    const CUresult expect_result = (call);                                   \
    EXPECT(expect_result == (wanted), "%s: %s", #call, Name(expect_result)); \
  } while (false)
