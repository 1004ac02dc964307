// Launches by the threads of one grid (dynamic parallelism). A grid is done when all its launches
// are done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "proxy/softgpu/rt/pool.h"

namespace cuspan::softgpu {

// cudaSuccess, for functions of the device runtime.
inline constexpr std::uint32_t kDeviceSuccess = 0;

// A copy, or a memset if `from` is null. Addresses are as passed by the kernel.
struct MemoryWork {
  void* to;
  const void* from;
  int value;
  std::size_t bytes;
};

// Threads: any. Errors are numbers of cudaError_t.
class ChildLaunches {
 public:
  virtual ~ChildLaunches() = default;
  // Allocates memory for the arguments of a launch. `kernel` identifies the kernel; `grid` and
  // `block` are 3 words each. If it fails or the launch is invalid, returns null and keeps the
  // error.
  virtual void* Prepare(const void* kernel, const std::uint32_t* grid, const std::uint32_t* block,
                        std::uint32_t shared_bytes) = 0;
  // Launches with memory returned by Prepare. Launches of one thread in one stream run in order.
  virtual std::uint32_t Launch(const void* arguments, std::uint64_t stream) = 0;
  // Same for a copy or a memset.
  virtual void AddMemoryWork(const MemoryWork& work) = 0;
  // True if a kernel may access it: memory returned by Prepare and not yet launched.
  virtual bool Contains(const void* memory, std::size_t bytes) const = 0;
  // Returns the last error; clears it if `take`.
  virtual std::uint32_t Error(bool take) = 0;
  // Called when the grid has finished. Returns the next task to run before it is done, or null.
  virtual std::unique_ptr<Task> Next() = 0;
};

// True if it is part of a text passed to kernels by the device runtime.
bool IsDeviceRuntimeText(const void* memory, std::size_t bytes);

}  // namespace cuspan::softgpu
