// Device runtime: functions for kernels to launch kernels and to select the nodes of their graph to
// run. (CUDA C++ Programming Guide, "CUDA Dynamic Parallelism", "Conditional Graph Nodes"; abi.h)
#include <cuda.h>
#include "common/format.h"

#include <iterator>

#include "proxy/softgpu/rt/abi.h"
#include "proxy/softgpu/rt/block.h"
#include "proxy/softgpu/rt/child_launches.h"
#include "proxy/softgpu/rt/graph_conditions.h"

namespace cuspan::softgpu {
namespace {

// cudaError_t: cudaErrorInvalidValue, cudaErrorMemoryAllocation, cudaErrorNotSupported.
constexpr std::uint32_t kInvalidValue = 1, kMemoryAllocation = 2, kNotSupported = 801;
// A stream or event of a kernel. Different from all numbers of default streams.
constexpr std::uintptr_t kHandle = 0x100;

// Errors returned to kernels by these functions, with the host's names and texts.
struct ErrorText {
  std::uint32_t error;
  char name[40];
  char text[40];
};
constexpr ErrorText kErrors[] = {
    {0, "cudaSuccess", "no error"},
    {1, "cudaErrorInvalidValue", "invalid argument"},
    {2, "cudaErrorMemoryAllocation", "out of memory"},
    {9, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {65, "cudaErrorLaunchMaxDepthExceeded", "nested launches too deep"},
    {98, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {801, "cudaErrorNotSupported", "operation not supported"},
    // Any other number.
    {0, "unrecognized error code", "unrecognized error code"},
};
const ErrorText& Find(std::uint32_t error) {
  for (const ErrorText& known : kErrors)
    if (known.error == error) return known;
  return *std::rbegin(kErrors);
}

// Calls use(ChildLaunches&) on the worker's larger stack, safe from the caller's bad pointers. If
// the kernel can launch nothing, returns `result`. `use` must own nothing at these accesses.
template <typename Result, typename Use>
Result WithChildren(ThreadContext* context, Result result, Use use) {
  auto* const self = static_cast<Fiber*>(context->fiber);
  ChildLaunches* const children = self->block->launch().children.get();
  if (children == nullptr) return result;
  auto body = [&] { result = use(*children, self->block->guard()); };
  self->block->CallOutside(
      self, [](void* argument) { (*static_cast<decltype(body)*>(argument))(); }, &body);
  return result;
}

}  // namespace

bool IsDeviceRuntimeText(const void* memory, std::size_t bytes) {
  const auto offset = reinterpret_cast<std::uintptr_t>(memory) -
                      reinterpret_cast<std::uintptr_t>(std::begin(kErrors));
  return offset <= sizeof kErrors && bytes <= sizeof kErrors - offset;
}

extern "C" {

void* cuspan_rt_launch_buffer(ThreadContext* context, const void* kernel, const std::uint32_t* grid,
                              const std::uint32_t* block, std::uint32_t shared_bytes) {
  return WithChildren(context, static_cast<void*>(nullptr), [&](auto& children, auto& guard) {
    FaultGuard::Exempt exempt(guard);
    return children.Prepare(kernel, grid, block, shared_bytes);
  });
}

std::uint32_t cuspan_rt_launch(ThreadContext* context, void* arguments, std::uint64_t stream) {
  return WithChildren(context, kNotSupported, [&](auto& children, auto& guard) {
    FaultGuard::Exempt exempt(guard);
    return children.Launch(arguments, stream);
  });
}

std::uint32_t cuspan_rt_make_handle(ThreadContext* context, void** handle, std::uint32_t) {
  return WithChildren(context, kNotSupported, [&](auto&, auto&) {
    if (handle == nullptr) return kInvalidValue;
    *handle = reinterpret_cast<void*>(kHandle);
    return kDeviceSuccess;
  });
}

std::uint32_t cuspan_rt_drop_handle(ThreadContext*, void* handle) {
  return handle == nullptr ? kInvalidValue : kDeviceSuccess;
}

std::uint32_t cuspan_rt_record(ThreadContext*, void* event, void*) {
  return event == nullptr ? kInvalidValue : kDeviceSuccess;
}

std::uint32_t cuspan_rt_wait_event(ThreadContext*, void*, void* event, std::uint32_t) {
  return event == nullptr ? kInvalidValue : kDeviceSuccess;
}

std::uint32_t cuspan_rt_copy(ThreadContext* context, void* to, const void* from,
                             std::uint64_t bytes, std::uint32_t, void*) {
  return WithChildren(context, kNotSupported, [&](auto& children, auto& guard) {
    FaultGuard::Exempt exempt(guard);
    children.AddMemoryWork({to, from, 0, bytes});
    return kDeviceSuccess;
  });
}

std::uint32_t cuspan_rt_set(ThreadContext* context, void* to, std::uint32_t value,
                            std::uint64_t bytes, void*) {
  return WithChildren(context, kNotSupported, [&](auto& children, auto& guard) {
    FaultGuard::Exempt exempt(guard);
    children.AddMemoryWork({to, nullptr, static_cast<int>(value), bytes});
    return kDeviceSuccess;
  });
}

std::uint32_t cuspan_rt_take_error(ThreadContext* context) {
  return WithChildren(context, kDeviceSuccess,
                      [](auto& children, auto&) { return children.Error(true); });
}

std::uint32_t cuspan_rt_peek_error(ThreadContext* context) {
  return WithChildren(context, kDeviceSuccess,
                      [](auto& children, auto&) { return children.Error(false); });
}

const char* cuspan_rt_error_name(ThreadContext*, std::uint32_t error) { return Find(error).name; }

const char* cuspan_rt_error_string(ThreadContext*, std::uint32_t error) { return Find(error).text; }

std::uint32_t cuspan_rt_cuda_malloc(ThreadContext* context, void** memory, std::uint64_t bytes) {
  if (memory == nullptr) return kInvalidValue;
  void* const made = cuspan_rt_malloc(context, bytes);
  if (made == nullptr && bytes != 0) return kMemoryAllocation;
  return WithChildren(context, kNotSupported, [&](auto&, auto&) {
    *memory = made;
    return kDeviceSuccess;
  });
}

std::uint32_t cuspan_rt_cuda_free(ThreadContext* context, void* memory) {
  cuspan_rt_free(context, memory);
  return kDeviceSuccess;
}

void cuspan_rt_set_condition(ThreadContext* context, std::uint64_t handle, std::uint32_t value) {
  auto* const self = static_cast<Fiber*>(context->fiber);
  GraphConditions* const conditions = self->block->launch().conditions.get();
  if (conditions != nullptr && conditions->Set(handle, value)) return;
  self->block->Abandon(
      self, CUDA_ERROR_LAUNCH_FAILED,
      Format("cudaGraphSetConditional: {:#x} is not a conditional handle of {}", handle,
             conditions == nullptr ? "any graph, since no graph launched the kernel"
                                   : "the graph that launched the kernel"));
}

}  // extern "C"
}  // namespace cuspan::softgpu
