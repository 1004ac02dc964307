// Runtime functions of abi.h. Each finds its thread and calls the block.
#include <cuda.h>
#include "common/format.h"

#include <bit>
#include <chrono>
#include <cstdio>
#include <iterator>
#include <mutex>
#include <string>

#include "proxy/softgpu/rt/abi.h"
#include "proxy/softgpu/rt/block.h"
#include "proxy/softgpu/rt/element.h"
#include "proxy/softgpu/rt/heap.h"
#include "proxy/softgpu/rt/image.h"
#include "proxy/softgpu/rt/matrix.h"
#include "proxy/softgpu/rt/printf.h"
#include "proxy/softgpu/rt/tensor_copy.h"
#include "proxy/softgpu/rt/tensor_map.h"

namespace cuspan::softgpu {
namespace {

constexpr std::uint32_t kAllLanes = 0xffffffff;

// The context is the first member of Fiber.
Fiber* Self(ThreadContext* context) { return reinterpret_cast<Fiber*>(context); }

LaneResult Meet(ThreadContext* context, Collective collective, std::uint64_t mode,
                std::uint32_t mask, std::uint64_t value, std::uint32_t b = 0, std::uint32_t c = 0) {
  Fiber* self = Self(context);
  const CollectiveCall call{CollectiveCall::Key(collective, mode), mask, value, b, c};
  if (mask == 0 && collective != Collective::kActiveMask) {
    self->block->Abandon(self, CUDA_ERROR_LAUNCH_FAILED,
                         "a warp-wide operation has an empty member mask");
  }
  return self->block->Meet(self, call);
}

// Writes whole texts, so lines of several workers do not mix.
void WriteOut(std::FILE* file, const std::string& text) {
  static auto* const mutex = new std::mutex;
  std::lock_guard lock(*mutex);
  std::fwrite(text.data(), 1, text.size(), file);
  std::fflush(file);
}

// Calls `function()` on the worker's larger stack. A fault in it abandons the stacks without
// unwinding, so it must own nothing. Text goes into block.scratch().
template <typename Function>
void CallOutside(Fiber* self, Function function) {
  self->block->CallOutside(
      self, [](void* argument) { (*static_cast<Function*>(argument))(); }, &function);
}

const char* OrUnknown(const char* text) { return text == nullptr ? "?" : text; }

}  // namespace

extern "C" {

void cuspan_rt_barrier(ThreadContext* context, std::uint32_t barrier, std::uint32_t threads) {
  if (threads == 0) {
    t_running_block->SyncAll(barrier);
  } else {
    Self(context)->block->SyncBarrier(Self(context), barrier, threads, false, false);
  }
}

void cuspan_rt_barrier_arrive(ThreadContext* context, std::uint32_t barrier,
                              std::uint32_t threads) {
  Self(context)->block->ArriveBarrier(Self(context), barrier, threads);
}

std::uint32_t cuspan_rt_barrier_reduce(ThreadContext* context, std::uint32_t barrier,
                                       std::uint32_t threads, BarrierReduction reduction,
                                       std::uint32_t predicate) {
  Fiber* self = Self(context);
  self->block->SyncBarrier(self, barrier, threads, true, predicate != 0);
  return self->barrier_result[static_cast<int>(reduction)];
}

void cuspan_rt_warp_barrier(ThreadContext* context, std::uint32_t barrier, std::uint32_t threads,
                            std::uint32_t lanes) {
  if (threads == 0) {
    t_running_block->SyncAllWarps(barrier);
  } else {
    Self(context)->block->SyncWarpBarrier(Self(context), barrier, threads, false, lanes, 0);
  }
}

void cuspan_rt_warp_barrier_arrive(ThreadContext* context, std::uint32_t barrier,
                                   std::uint32_t threads, std::uint32_t) {
  Self(context)->block->ArriveWarpBarrier(Self(context), barrier, threads);
}

std::uint32_t cuspan_rt_warp_barrier_reduce(ThreadContext* context, std::uint32_t barrier,
                                            std::uint32_t threads, BarrierReduction reduction,
                                            std::uint32_t lanes, std::uint32_t votes) {
  Fiber* self = Self(context);
  self->block->SyncWarpBarrier(self, barrier, threads, true, lanes, votes);
  return self->barrier_result[static_cast<int>(reduction)];
}

void cuspan_rt_select_lane(ThreadContext* context, std::uint32_t lane) {
  Self(context)->block->SelectLane(context, lane);
}

void cuspan_rt_warp_match(MatchMode mode, std::uint32_t active, const std::uint64_t* values,
                          const std::uint32_t* members, std::uint32_t* results,
                          std::uint32_t* all_equal) {
  for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
    const std::uint32_t lanes = active & members[lane];
    std::uint32_t equal = 0;
    for (std::uint32_t other = 0; other < kWarpLanes; ++other)
      equal |= std::uint32_t{values[other] == values[lane]} << other;
    equal &= lanes;
    all_equal[lane] = equal == lanes ? 1 : 0;
    results[lane] = mode == MatchMode::kAny || equal == lanes ? equal : 0;
  }
}

void cuspan_rt_warp_reduce(std::uint32_t operation, std::uint32_t active,
                           const std::uint32_t* values, const std::uint32_t* members,
                           std::uint32_t* results) {
  for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
    std::uint32_t lanes = active & members[lane];
    if (lanes == 0) continue;
    std::uint32_t result = values[std::countr_zero(lanes)];
    for (lanes &= lanes - 1; lanes != 0; lanes &= lanes - 1)
      result = CombineWords(operation, result, values[std::countr_zero(lanes)]);
    results[lane] = result;
  }
}

void cuspan_rt_warp_sync(ThreadContext* context, std::uint32_t member_mask) {
  Meet(context, Collective::kSync, 0, member_mask, 0);
}

void cuspan_rt_reconverge(ThreadContext*, std::uint64_t place) {
  t_running_block->Reconverge(place);
}

std::uint32_t cuspan_rt_shuffle(ThreadContext* context, ShuffleMode mode, std::uint32_t value,
                                std::uint32_t b, std::uint32_t c, std::uint32_t member_mask,
                                std::uint32_t* in_range) {
  const LaneResult result = Meet(context, Collective::kShuffle, static_cast<std::uint64_t>(mode),
                                 member_mask, value, b, c);
  *in_range = result.flag;
  return result.value;
}

std::uint32_t cuspan_rt_vote(ThreadContext* context, VoteMode mode, std::uint32_t predicate,
                             std::uint32_t member_mask) {
  return Meet(context, Collective::kVote, static_cast<std::uint64_t>(mode), member_mask, predicate)
      .value;
}

std::uint32_t cuspan_rt_match(ThreadContext* context, MatchMode mode, std::uint64_t value,
                              std::uint32_t member_mask, std::uint32_t* all_equal) {
  const LaneResult result =
      Meet(context, Collective::kMatch, static_cast<std::uint64_t>(mode), member_mask, value);
  if (mode == MatchMode::kAll) *all_equal = result.flag;
  return result.value;
}

std::uint32_t cuspan_rt_reduce(ThreadContext* context, std::uint32_t operation, std::uint32_t value,
                               std::uint32_t member_mask) {
  return Meet(context, Collective::kReduce, operation, member_mask, value).value;
}

void cuspan_rt_matrix(ThreadContext* context, std::uint64_t operation, std::uint32_t* registers) {
  Meet(context, Collective::kMatrix, operation, kAllLanes,
       reinterpret_cast<std::uintptr_t>(registers));
}

void cuspan_rt_matrix_warp(std::uint64_t operation, std::uint32_t* registers) {
  ComputeMatrix(operation, registers);
}

void cuspan_rt_image(ThreadContext* context, std::uint64_t operation, std::uint32_t mask,
                     std::uint32_t* words, std::uint32_t lanes) {
  const ImageFault fault = ExecuteImage(operation, mask, words, lanes);
  if (fault.error != CUDA_SUCCESS)
    Self(context)->block->Abandon(Self(context), fault.error, fault.what);
}

std::uint32_t cuspan_rt_tensor_copy(ThreadContext* context, std::uint32_t operation,
                                    const void* map, const std::int32_t* words,
                                    std::uint8_t* shared) {
  const auto offset = static_cast<std::uint64_t>(shared - context->shared);
  const std::uint64_t room = offset < context->shared_bytes ? context->shared_bytes - offset : 0;
  // Addresses are checked in checking mode only.
  const bool checks = Self(context)->block->launch().addresses != nullptr;
  const TensorCopied copied = CopyTensor(TensorOperation::Unpack(operation), map, words, shared,
                                         room, checks ? context : nullptr);
  if (copied.error != CUDA_SUCCESS)
    Self(context)->block->Abandon(Self(context), copied.error, copied.what);
  return copied.bytes;
}

void cuspan_rt_tensor_replace(ThreadContext* context, void* map, std::uint32_t field,
                              std::uint32_t ordinal, std::uint64_t value) {
  if (!ReplaceField(map, static_cast<TensorField>(field), ordinal, value))
    Self(context)->block->Abandon(Self(context), CUDA_ERROR_ILLEGAL_INSTRUCTION,
                                  "tensormap.replace of memory without a tensor map");
}

void cuspan_rt_bulk_reduce(ThreadContext* context, std::uint32_t element, std::uint32_t reduction,
                           std::uint8_t* to, const std::uint8_t* from, std::uint32_t bytes) {
  const auto kind = static_cast<Element>(element);
  if (reinterpret_cast<std::uintptr_t>(to) % 16 != 0 || bytes % 16 != 0)
    Self(context)->block->Abandon(
        Self(context), CUDA_ERROR_MISALIGNED_ADDRESS,
        "cp.reduce.async.bulk: destination or size is not a multiple of 16 bytes");
  Reduce(kind, static_cast<Reduction>(reduction), to, from, bytes / BytesOf(kind));
}

void cuspan_rt_yield(ThreadContext* context) { Self(context)->block->Yield(Self(context)); }

void cuspan_rt_interleave(ThreadContext* context) {
  Self(context)->block->Interleave(Self(context));
}

void cuspan_rt_exit(ThreadContext* context) { Self(context)->block->Exit(Self(context)); }

// Returns the lanes at the same code location: those arriving before all others of the warp wait,
// have ended or yielded. In a kernel running its threads in a loop, each lane is alone; CUDA always
// allows this.
std::uint32_t cuspan_rt_active_mask(ThreadContext* context) {
  Fiber* self = Self(context);
  if (!self->block->suspends()) return 1u << context->lane;
  const auto place = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
  return Meet(context, Collective::kActiveMask, place, 0, 0).value;
}

void cuspan_rt_fault(ThreadContext* context, std::uint32_t driver_error, const char* what) {
  Fiber* self = Self(context);
  self->block->Abandon(self, static_cast<CUresult>(driver_error),
                       what == nullptr ? "it ended itself with an error" : what);
}

std::uint32_t cuspan_rt_vprintf(ThreadContext* context, const char* format, const void* arguments) {
  Fiber* self = Self(context);
  int count = 0;
  CallOutside(self, [&, self] {
    std::string& text = self->block->scratch();
    text.clear();
    count = FormatDevicePrintf(format, arguments, &text);
    FaultGuard::Exempt exempt(self->block->guard());
    WriteOut(stdout, text);
  });
  return static_cast<std::uint32_t>(count);
}

// Uses CUDA's own text: programs and people search for it.
void cuspan_rt_assert_fail(ThreadContext* context, const char* message, const char* file,
                           std::uint32_t line, const char* function, std::uint64_t) {
  Fiber* self = Self(context);
  CallOutside(self, [=] {
    std::string& text = self->block->scratch();
    text.clear();
    AppendFormat(text, "{}:{}: {}: block: [{},{},{}], thread: [{},{},{}] Assertion `{}` failed.\n",
                 OrUnknown(file), line, OrUnknown(function), context->ctaid[0], context->ctaid[1],
                 context->ctaid[2], context->tid[0], context->tid[1], context->tid[2],
                 OrUnknown(message));
    FaultGuard::Exempt exempt(self->block->guard());
    WriteOut(stderr, text);
  });
  self->block->Abandon(self, CUDA_ERROR_ASSERT, "an assertion failed");
}

void* cuspan_rt_malloc(ThreadContext* context, std::uint64_t bytes) {
  Fiber* self = Self(context);
  void* memory = nullptr;
  CallOutside(self, [&memory, bytes, self] {
    FaultGuard::Exempt exempt(self->block->guard());
    DeviceHeap* heap = self->block->launch().heap;
    if (heap != nullptr) memory = heap->Allocate(bytes);
    BlockRaces* const races = self->block->races();
    if (races != nullptr && memory != nullptr) races->Forget(memory, bytes);
  });
  return memory;
}

void cuspan_rt_free(ThreadContext* context, void* memory) {
  if (memory == nullptr) return;
  Fiber* self = Self(context);
  if (BlockRaces* const races = self->block->races()) races->Settle();
  bool freed = false;
  CallOutside(self, [&freed, memory, self] {
    FaultGuard::Exempt exempt(self->block->guard());
    DeviceHeap* heap = self->block->launch().heap;
    freed = heap != nullptr && heap->Free(memory);
  });
  if (!freed) {
    self->block->Abandon(self, CUDA_ERROR_ILLEGAL_ADDRESS,
                         Format("free({}) of a pointer that malloc did not return", memory));
  }
}

std::uint32_t cuspan_rt_is_local(ThreadContext* context, std::uint64_t address) {
  const Execution& execution = Self(context)->execution;
  return address - reinterpret_cast<std::uint64_t>(execution.low) < execution.bytes ? 1 : 0;
}

std::uint64_t cuspan_rt_clock(ThreadContext*) {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

}  // extern "C"
}  // namespace cuspan::softgpu
