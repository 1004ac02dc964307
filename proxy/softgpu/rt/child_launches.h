// What the threads of one grid launch (dynamic parallelism). A grid is done when all that it
// launched is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "proxy/softgpu/rt/pool.h"

namespace cuspan::softgpu {

// cudaError_t, of which the device runtime's functions are.
inline constexpr std::uint32_t kDeviceSuccess = 0;

// A copy, or, with `from` null, a memset: addresses as the kernel gave them.
struct MemoryWork {
  void* to;
  const void* from;
  int value;
  std::size_t bytes;
};

// Any thread calls. Errors are numbers of cudaError_t.
class ChildLaunches {
 public:
  virtual ~ChildLaunches() = default;
  // Memory for the arguments of a launch of the kernel that `kernel` stands for; null, with the
  // error kept, when there is none or nothing can be launched so. `grid` and `block` are 3 words
  // each.
  virtual void* Prepare(const void* kernel, const std::uint32_t* grid, const std::uint32_t* block,
                        std::uint32_t shared_bytes) = 0;
  // Launches what Prepare returned memory for. What one thread launches in one stream runs in that
  // order.
  virtual std::uint32_t Launch(const void* arguments, std::uint64_t stream) = 0;
  // The same for a copy or a memset.
  virtual void AddMemoryWork(const MemoryWork& work) = 0;
  // Whether a kernel may access that: it is memory that Prepare returned and nobody launched yet.
  virtual bool Contains(const void* memory, std::size_t bytes) const = 0;
  // The last error; clears it when `take`.
  virtual std::uint32_t Error(bool take) = 0;
  // The grid is through: what is to run next before it is done, or null.
  virtual std::unique_ptr<Task> Next() = 0;
};

// Whether that is part of a text that the device runtime gives kernels.
bool IsDeviceRuntimeText(const void* memory, std::size_t bytes);

}  // namespace cuspan::softgpu
