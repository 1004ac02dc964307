// Accesses able to exchange data between lanes of a warp: accesses of shared memory, and volatile
// accesses of global memory.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "proxy/ptx/module.h"
#include "proxy/softgpu/analysis/plan.h"
#include "proxy/softgpu/analysis/shape.h"

namespace cuspan::softgpu::analysis {

// Address as a constant plus a sum of products, if known. Only 32 bits are computed: shared memory
// is smaller, and so are the relevant differences of addresses.
struct LinearAddress {
  bool known = false;
  std::int32_t constant = 0;
  // Registers, variables and special registers with their factors; ascending, no factor is 0.
  std::vector<std::pair<std::uint32_t, std::int32_t>> terms;
  // Bytes between adjacent lanes; nullopt if not constant.
  std::optional<std::int64_t> stride;
  bool scattered = false;  // Each lane computes its own.
};

enum class SharedMemory : std::uint8_t { kShared, kVolatileGlobal, kEither };

struct SharedAccess {
  std::uint32_t instruction = 0;  // Index in Body::instructions.
  SharedMemory memory = SharedMemory::kShared;
  bool reads = false;
  bool writes = false;
  // Accesses of this kind are not ordered among themselves: atomics and asynchronous copies.
  bool unordered = false;
  std::uint64_t bytes = 0;
  LinearAddress address;
};

// Shapes of a function's registers in a warp of `layout`, or empty.
struct RegisterShapes {
  std::vector<Shape> shapes;
  WarpLayout layout;
};

// Finds the accesses of `body`, ascending by instruction, without calls. `has_shared`: the kernel
// has shared memory.
std::vector<SharedAccess> FindSharedAccesses(const ptx::Module& module, const ptx::Body& body,
                                             bool is_kernel, bool has_shared,
                                             const RegisterShapes& registers);

// Facts about the path from one access to another.
struct Between {
  // Both are in one iteration of all loops: equal registers have equal values.
  bool same_iteration = false;
  // The same lanes make both, without a branch in between.
  bool same_lanes = false;
};

// True if results may depend on the order of the two accesses by different lanes. Orders left open
// by CUDA do not count, as of two lanes writing one element.
bool MayConflict(const ptx::Module& module, const ptx::Body& body, const SharedAccess& before,
                 const SharedAccess& after, const Between& between);

}  // namespace cuspan::softgpu::analysis
