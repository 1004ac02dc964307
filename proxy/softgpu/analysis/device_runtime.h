// Functions of the CUDA device runtime: called by nvcc's code, defined by no PTX. Lists the
// implemented ones.
#pragma once

#include <string_view>

namespace cuspan::softgpu::analysis {

struct RuntimeFunction {
  std::string_view name;    // PTX name.
  std::string_view symbol;  // Declared in rt/abi.h; its first parameter is the thread's context.
  // Its parameters: p a pointer, l 64 bits, w 32 bits, d the address of a dim3 passed by value in
  // PTX.
  std::string_view parameters;
  char result;  // Same letters, or v for none.
};

// Returns null if `name` is not one of them.
const RuntimeFunction* FindRuntimeFunction(std::string_view name);

// True if `name` belongs to the device runtime, implemented or not. PTX may use it without a
// definition.
bool IsOfDeviceRuntime(std::string_view name);

// True if the function uses the buffer of CU_LIMIT_PRINTF_FIFO_SIZE, or the heap of
// CU_LIMIT_MALLOC_HEAP_SIZE.
bool UsesPrintBuffer(std::string_view name);
bool UsesHeap(std::string_view name);

// Function launching another kernel. A module declaring it may launch from the device.
inline constexpr std::string_view kDeviceLaunch = "__cudaCDP2LaunchDeviceV2";

}  // namespace cuspan::softgpu::analysis
