// Accesses by which lanes of a warp may exchange data: those of shared memory, and volatile ones of
// global memory.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "proxy/ptx/module.h"
#include "proxy/softgpu/analysis/plan.h"
#include "proxy/softgpu/analysis/shape.h"

namespace cuspan::softgpu::analysis {

// An address as a constant and a sum of products, where all of that is known. 32 bits of each
// count: shared memory is smaller, and so are the differences of addresses that matter.
struct LinearAddress {
  bool known = false;
  std::int32_t constant = 0;
  // Registers, variables and special registers with their factors; ascending, no factor is 0.
  std::vector<std::pair<std::uint32_t, std::int32_t>> terms;
  // Bytes from each lane to the next; nullopt where that is not the same for all lanes.
  std::optional<std::int64_t> stride;
  bool scattered = false;  // Each lane has computed its own.
};

enum class SharedMemory : std::uint8_t { kShared, kVolatileGlobal, kEither };

struct SharedAccess {
  std::uint32_t instruction = 0;  // In Body::instructions.
  SharedMemory memory = SharedMemory::kShared;
  bool reads = false;
  bool writes = false;
  // Accesses of this kind have no order among themselves: atomics, and asynchronous copies.
  bool unordered = false;
  std::uint64_t bytes = 0;
  LinearAddress address;
};

// Shapes of a function's registers in a warp of `layout`, or none.
struct RegisterShapes {
  std::vector<Shape> shapes;
  WarpLayout layout;
};

// The accesses of `body`, ascending by instruction; calls are not among them. `has_shared`: the
// kernel has shared memory.
std::vector<SharedAccess> FindSharedAccesses(const ptx::Module& module, const ptx::Body& body,
                                             bool is_kernel, bool has_shared,
                                             const RegisterShapes& registers);

// Facts about the way from one access to another.
struct Between {
  // No lane has gone round a loop, so that equal registers have equal values.
  bool same_turn = false;
  // The same lanes make both, one right after the other.
  bool same_lanes = false;
};

// True if the results may depend on which of the two comes first where different lanes make them,
// and CUDA does not leave that open anyway: it does where two lanes write one element.
bool MayConflict(const ptx::Module& module, const ptx::Body& body, const SharedAccess& before,
                 const SharedAccess& after, const Between& between);

}  // namespace cuspan::softgpu::analysis
