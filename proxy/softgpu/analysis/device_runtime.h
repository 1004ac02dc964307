// The functions that nvcc's code calls by name and no PTX defines: the device runtime, as far as it
// is implemented.
#pragma once

#include <string_view>

namespace cuspan::softgpu::analysis {

struct RuntimeFunction {
  std::string_view name;    // In PTX.
  std::string_view symbol;  // In rt/abi.h; it gets the thread's context first.
  // Its parameters: p a pointer, l 64 bits, w 32 bits, d the address of a dim3 that PTX passes by
  // value.
  std::string_view parameters;
  char result;  // As above, or v for none.
};

// Null when `name` is none of them.
const RuntimeFunction* FindRuntimeFunction(std::string_view name);

// Whether code may use the name though nothing defines it: that of a function of the device
// runtime, implemented or not.
bool IsOfDeviceRuntime(std::string_view name);

// Whether the function uses the buffer of CU_LIMIT_PRINTF_FIFO_SIZE, or the heap of
// CU_LIMIT_MALLOC_HEAP_SIZE.
bool UsesPrintBuffer(std::string_view name);
bool UsesHeap(std::string_view name);

// What a kernel calls to launch another; a module that declares it may do so.
inline constexpr std::string_view kDeviceLaunch = "__cudaCDP2LaunchDeviceV2";

}  // namespace cuspan::softgpu::analysis
