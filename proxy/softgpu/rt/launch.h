// One kernel launch, as the blocks that execute it see it.
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

// Takes the errors that end a context: the first one stays. Any thread calls.
class ErrorSink {
 public:
  virtual ~ErrorSink() = default;
  // `message` says what happened and where, for the log.
  virtual void Raise(CUresult error, const std::string& message) = 0;
  // CUDA_SUCCESS until an error was raised.
  virtual CUresult error() const = 0;
};

struct Dimensions {
  std::uint32_t x = 1, y = 1, z = 1;
  std::uint64_t count() const { return std::uint64_t{x} * y * z; }
};

// Written by whoever launches, read by workers.
struct Launch {
  std::string kernel;
  std::uint64_t serial = 0;  // Given by GridTask; no two launches have the same.
  CompiledKernel compiled;
  Dimensions grid, block;
  std::uint32_t static_shared_bytes = 0;
  std::uint32_t dynamic_shared_bytes = 0;
  std::vector<std::uint64_t> params;  // The bytes of the parameters, 8-aligned.
  std::uint64_t grid_id = 0;
  std::uint32_t envreg[4] = {0, 0, 0, 0};
  std::size_t stack_bytes = 0;      // Of each call of the code: set by Use.
  std::size_t stack_of_thread = 0;  // What a thread may need of that for its variables and calls.
  bool cooperative = false;         // All blocks must be resident together.
  bool prints = false;              // It may use the buffer of printf.
  bool uses_heap = false;           // It may use the device's heap.
  std::shared_ptr<ErrorSink> errors;
  // In checking mode: what kernels of `device` may access is asked there; else null.
  const AddressSpace* addresses = nullptr;
  int device = 0;
  std::optional<std::uint64_t> order;       // The seed of a random order of its threads.
  std::shared_ptr<LaunchRaces> races;       // Where races are looked for; else null.
  DeviceHeap* heap = nullptr;               // Lives as long as errors; null: device malloc fails.
  Pace* pace = nullptr;                     // Of the device's blocks; null: as fast as it goes.
  std::shared_ptr<ChildLaunches> children;  // Null for kernels that launch nothing.
  std::shared_ptr<GraphConditions> conditions;  // Of the graph that it is part of; else null.
  std::shared_ptr<const void> kept;             // Keeps the kernel's code and variables alive.

  // From now on it executes `code`.
  void Use(const CompiledKernel& code);
};

}  // namespace cuspan::softgpu
