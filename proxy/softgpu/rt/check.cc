// Checks of each access of a kernel in the checking modes (CUSPAN_SOFT_CHECK).
#include <cuda.h>

#include "common/format.h"
#include "proxy/softgpu/rt/abi.h"
#include "proxy/softgpu/rt/address_space.h"
#include "proxy/softgpu/rt/block.h"
#include "proxy/softgpu/rt/child_launches.h"
#include "proxy/softgpu/rt/heap.h"
#include "proxy/softgpu/rt/races.h"
#include "proxy/softgpu/rt/stack.h"

namespace cuspan::softgpu {
namespace {

bool Within(std::uint64_t address, std::uint64_t bytes, const void* begin, std::uint64_t size) {
  const std::uint64_t offset = address - reinterpret_cast<std::uint64_t>(begin);
  return offset <= size && bytes <= size - offset;
}

// True if the thread may access it without an allocation: its block's shared memory, its stack with
// .local memory, its parameters, the workspace of cooperative groups.
bool IsOwn(const ThreadContext& at, const Fiber& self, std::uint64_t address, std::uint64_t bytes) {
  const Launch& launch = self.block->launch();
  const auto* const low = static_cast<const std::uint8_t*>(self.execution.low);
  const std::uint64_t workspace =
      std::uint64_t{launch.envreg[1]} << 32 | std::uint64_t{launch.envreg[2]};
  constexpr std::uint64_t kWorkspaceBytes = 64;
  return Within(address, bytes, at.shared, at.shared_bytes) ||
         Within(address, bytes, low, self.execution.bytes) ||
         Within(address, bytes, at.params, launch.params.size() * sizeof(launch.params[0])) ||
         (workspace != 0 &&
          Within(address, bytes, reinterpret_cast<const void*>(workspace), kWorkspaceBytes));
}

// Faults if the thread's stack is nearly full: now, because a later fault would leave locks held.
[[gnu::noinline]] void NeedStack() {
  constexpr std::size_t kNeeded = 16 * 1024;
  constexpr std::size_t kPage = 4096;
  std::uint8_t room[kNeeded];
  for (std::size_t at = kNeeded; at != 0; at -= kPage)
    *const_cast<volatile std::uint8_t*>(&room[at - kPage]) = 0;
}

void CheckRace(const ThreadContext& at, const Fiber& self, const void* address, std::uint64_t bytes,
               std::uint32_t kind, const char* where) {
  BlockRaces* const races = self.block->races();
  if (races == nullptr || (kind & kCheckAlone) != 0) return;
  NeedStack();
  const Launch& launch = self.block->launch();
  const bool writes = (kind & kCheckWrite) != 0;
  const auto place = reinterpret_cast<std::uint64_t>(address);
  std::uint64_t offset = place - reinterpret_cast<std::uint64_t>(at.shared);
  if (offset >= at.shared_bytes) {
    const bool in_heap = launch.heap != nullptr && launch.heap->Contains(address, bytes);
    // Strong accesses count everywhere: the workspace of a cooperative launch is not the program's.
    const bool strong = (kind & kCheckStrong) != 0;
    if (!in_heap && !strong && !launch.races->Accessible(place, bytes, writes)) return;
    offset = BlockRaces::kNotShared;
  }
  // Threads never waiting are not fibers of their own.
  races->Access(at.warp * kWarpLanes + at.lane, address, bytes, offset, kind, where);
}

}  // namespace

extern "C" void cuspan_rt_check(ThreadContext* context, const void* pointer, std::uint64_t bytes,
                                std::uint32_t alignment, std::uint32_t kind, const char* where) {
  auto* const self = static_cast<Fiber*>(context->fiber);
  const auto address = reinterpret_cast<std::uint64_t>(pointer);
  const bool shared = (kind & kCheckShared) != 0;
  // Messages show shared addresses as offsets, like the program.
  const std::uint64_t named =
      shared ? address - reinterpret_cast<std::uint64_t>(context->shared) : address;
  if (alignment > 1 && named % alignment != 0) {
    self->block->Abandon(self, CUDA_ERROR_MISALIGNED_ADDRESS,
                         Format("{}: the {}address {:#x} is not a multiple of {}", where,
                                shared ? "shared " : "", named, alignment));
  }
  if (shared) {
    if (Within(address, bytes, context->shared, context->shared_bytes)) {
      CheckRace(*context, *self, pointer, bytes, kind, where);
      return;
    }
    self->block->Abandon(self, CUDA_ERROR_ILLEGAL_ADDRESS,
                         Format("{}: {} bytes at shared address {:#x}: the block has {} bytes",
                                where, bytes, named, context->shared_bytes));
  }
  const Launch& launch = self->block->launch();
  const bool own = IsOwn(*context, *self, address, bytes);
  if (!own || (kind & kCheckStrong) != 0 ||
      Within(address, bytes, context->shared, context->shared_bytes))
    CheckRace(*context, *self, pointer, bytes, kind, where);
  if (launch.addresses == nullptr || own) return;
  if (launch.addresses->Accessible(address, bytes, launch.device, (kind & kCheckWrite) != 0))
    return;
  if (launch.heap != nullptr && launch.heap->Contains(pointer, bytes)) return;
  if (launch.children != nullptr && launch.children->Contains(pointer, bytes)) return;
  if ((kind & kCheckWrite) == 0 && IsDeviceRuntimeText(pointer, bytes)) return;
  self->block->Abandon(self, CUDA_ERROR_ILLEGAL_ADDRESS,
                       Format("{}: {} bytes {} {:#x}: {}", where, bytes,
                              (kind & kCheckWrite) != 0 ? "written at" : "read at", address,
                              launch.addresses->Describe(address)));
}

extern "C" void cuspan_rt_check_fence(ThreadContext* context) {
  BlockRaces* const races = static_cast<Fiber*>(context->fiber)->block->races();
  if (races != nullptr) races->Fence(context->warp * kWarpLanes + context->lane);
}

}  // namespace cuspan::softgpu
