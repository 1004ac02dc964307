// One kernel launch, as seen by the blocks executing it.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proxy/softgpu/rt/compiled_kernel.h"

namespace cuspan::softgpu {

class AddressSpace;
class ChildLaunches;
class DeviceHeap;
class GraphConditions;
class LaunchRaces;
class Pace;

inline constexpr std::uint32_t kWarpLanes = 32;
inline constexpr std::uint32_t kMaxBlockThreads = 1024;

// Receives the errors ending a context, and keeps the first. Threads: any.
class ErrorSink {
 public:
  virtual ~ErrorSink() = default;
  // `message`: event and location, for the log.
  virtual void Raise(CUresult error, const std::string& message) = 0;
  // CUDA_SUCCESS until an error is raised.
  virtual CUresult error() const = 0;
};

struct Dimensions {
  std::uint32_t x = 1, y = 1, z = 1;
  std::uint64_t count() const { return std::uint64_t{x} * y * z; }
};

// Written by the launching thread, read by workers.
struct Launch {
  std::string kernel;
  std::uint64_t serial = 0;  // Set by GridTask; unique.
  CompiledKernel compiled;
  Dimensions grid, block;
  std::uint32_t static_shared_bytes = 0;
  std::uint32_t dynamic_shared_bytes = 0;
  std::vector<std::uint64_t> params;  // Bytes of the parameters, 8-aligned.
  std::uint64_t grid_id = 0;
  std::uint32_t envreg[4] = {0, 0, 0, 0};
  std::size_t stack_bytes = 0;      // Per call of the code; set by Use.
  std::size_t stack_of_thread = 0;  // Part for a thread's variables and calls.
  bool cooperative = false;         // All blocks must be resident together.
  bool prints = false;              // True if it may use the printf buffer.
  bool uses_heap = false;           // True if it may use the device's heap.
  std::shared_ptr<ErrorSink> errors;
  // Memory accessible to kernels of `device`, in checking mode; else null.
  const AddressSpace* addresses = nullptr;
  int device = 0;
  std::optional<std::uint64_t> order;       // Seed of a random order of its threads.
  std::shared_ptr<LaunchRaces> races;       // Null unless races are detected.
  DeviceHeap* heap = nullptr;               // Lives as long as errors; null: device malloc fails.
  Pace* pace = nullptr;                     // Rate limit of the device's blocks, or null.
  std::shared_ptr<ChildLaunches> children;  // Null if the kernel launches nothing.
  std::shared_ptr<GraphConditions> conditions;  // Conditions of its graph; else null.
  std::shared_ptr<const void> kept;             // Keeps the kernel's code and variables alive.

  // Executes `code` from now on.
  void Use(const CompiledKernel& code);
};

}  // namespace cuspan::softgpu
