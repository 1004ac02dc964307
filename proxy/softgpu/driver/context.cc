// Contexts: cuCtx*, cuDevicePrimaryCtx*.
#include "proxy/softgpu/driver/context.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "common/log.h"
#include "proxy/softgpu/driver/errors.h"
#include "proxy/softgpu/driver/limits.h"
#include "proxy/softgpu/driver/state.h"

namespace cuspan::softgpu {
namespace {

thread_local int t_current_device = -1;

// Equals a GPU with 512 KiB of local memory per thread.
constexpr std::size_t kMaxStackBytes = 512 * 1024 - 1024;
// Minimum heap size, as in NVIDIA's driver.
constexpr std::size_t kSmallestHeap = std::size_t{4} << 20;
// Values returned by a real device for limits without a meaning here.
constexpr std::size_t kPendingLaunches = 2048;
constexpr std::size_t kFetchGranularity = 64;
constexpr std::size_t kMaxFetchGranularity = 128;

// Time without progress after which a destroyed context is ended, and its longest poll interval.
constexpr std::chrono::seconds kPatience{10};
constexpr std::chrono::microseconds kLongestPause{1000};

constexpr unsigned kContextFlags = CU_CTX_SCHED_MASK | CU_CTX_MAP_HOST | CU_CTX_LMEM_RESIZE_TO_MAX |
                                   CU_CTX_COREDUMP_ENABLE | CU_CTX_USER_COREDUMP_ENABLE |
                                   CU_CTX_SYNC_MEMOPS;

}  // namespace

int CurrentDevice() { return t_current_device; }
void SetCurrentDevice(int device) { t_current_device = device; }

void Context::Raise(CUresult error, const std::string& message) {
  if (raised_.exchange(true, std::memory_order_acq_rel)) return;
  const char* name = nullptr;
  cuGetErrorName(error, &name);
  // Logged first: a thread seeing the error may end the process.
  LogError("software GPU {}: {} ({})", device_, message, name == nullptr ? "?" : name);
  error_.store(error, std::memory_order_release);
  queue_.pool().StopCancelled();
}

CUresult Context::SetPrintfLimit(std::size_t bytes) {
  if (print_buffer_used_) return CUDA_ERROR_INVALID_VALUE;
  printf_limit_ = bytes;
  return CUDA_SUCCESS;
}

CUresult Context::SetHeapLimit(std::size_t bytes) {
  if (heap_used_) return CUDA_ERROR_INVALID_VALUE;
  heap_.SetLimit(std::max(bytes, kSmallestHeap));
  return CUDA_SUCCESS;
}

void Context::Launched(bool prints, bool uses_heap) {
  if (prints) print_buffer_used_ = true;
  if (uses_heap) heap_used_ = true;
}

CUresult Context::Synchronize() {
  // Operations enqueued meanwhile by other threads are not waited for.
  for (const OperationPtr& operation : streams_.Pending()) operation->Wait();
  return error();
}

// Waits for enqueued work: programs read the printf output of kernels after resetting the device.
// An endless kernel, graph loop or wait for a value is terminated.
void Context::End() {
  std::uint64_t finished = queue_.finished_units();
  auto last_progress = std::chrono::steady_clock::now();
  auto pause = std::chrono::microseconds(10);
  while (!streams_.Pending().empty()) {
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, kLongestPause);
    const auto now = std::chrono::steady_clock::now();
    if (const std::uint64_t count = queue_.finished_units(); count != finished) {
      finished = count;
      last_progress = now;
    } else if (now - last_progress > kPatience && error() == CUDA_SUCCESS) {
      Raise(CUDA_ERROR_CONTEXT_IS_DESTROYED,
            "its context was destroyed while a kernel or a graph loop was still running, or a "
            "stream was waiting for a value: this work was terminated");
    }
  }
}

CUSPAN_SOFT_API CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice ordinal) {
  CUSPAN_SOFT_ENTER(driver);
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Device* device = driver->FindDevice(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  std::lock_guard lock(device->mutex);
  if (device->failure != CUDA_SUCCESS) return device->failure;
  if (device->context == nullptr) {
    device->context = std::make_shared<Context>(ordinal, device->memory, driver->queue);
  }
  ++device->retained;
  device->was_retained = true;
  *context = AsHandle<CUcontext>(device->context_handle);
  return CUDA_SUCCESS;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice ordinal) {
  CUSPAN_SOFT_ENTER(driver);
  Device* device = driver->FindDevice(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  std::shared_ptr<Context> last;
  {
    std::lock_guard lock(device->mutex);
    if (device->retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (--device->retained != 0) return CUDA_SUCCESS;
    last = std::move(device->context);
    device->context = nullptr;
  }
  driver->Destroy(last);
  std::lock_guard lock(device->mutex);
  const CUresult error = last->error();
  if (device->failure == CUDA_SUCCESS && error != CUDA_ERROR_CONTEXT_IS_DESTROYED) {
    device->failure = error;
  }
  return CUDA_SUCCESS;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuDevicePrimaryCtxSetFlags(CUdevice ordinal, unsigned flags) {
  CUSPAN_SOFT_ENTER(driver);
  Device* device = driver->FindDevice(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if ((flags & ~kContextFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  // The flags select how threads wait; here, waiting threads always sleep.
  std::lock_guard lock(device->mutex);
  device->flags = flags;
  return CUDA_SUCCESS;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuCtxSetCurrent(CUcontext context) {
  CUSPAN_SOFT_ENTER(driver);
  if (context == nullptr) {
    SetCurrentDevice(-1);
    return CUDA_SUCCESS;
  }
  for (const auto& device : driver->devices) {
    if (device->context_handle != Number(context)) continue;
    std::lock_guard lock(device->mutex);
    if (!device->was_retained) return CUDA_ERROR_INVALID_CONTEXT;
    SetCurrentDevice(device->ordinal);
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_CONTEXT;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuCtxGetCurrent(CUcontext* context) {
  CUSPAN_SOFT_ENTER(driver);
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Device* device = driver->FindDevice(CurrentDevice());
  *context = device == nullptr ? nullptr : AsHandle<CUcontext>(device->context_handle);
  return CUDA_SUCCESS;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuCtxSynchronize() {
  CUSPAN_SOFT_ENTER(driver);
  std::shared_ptr<Context> context;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->CurrentContext(&context));
  return context->Synchronize();
}

CUSPAN_SOFT_API CUresult CUDAAPI cuCtxGetLimit(std::size_t* value, CUlimit limit) {
  CUSPAN_SOFT_ENTER(driver);
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Context> context;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->UsableContext(&context));
  switch (limit) {
    case CU_LIMIT_STACK_SIZE:
      *value = context->stack_limit();
      return CUDA_SUCCESS;
    case CU_LIMIT_PRINTF_FIFO_SIZE:
      *value = context->printf_limit();
      return CUDA_SUCCESS;
    case CU_LIMIT_MALLOC_HEAP_SIZE:
      *value = context->heap().limit();
      return CUDA_SUCCESS;
    case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT:
      *value = kPendingLaunches;
      return CUDA_SUCCESS;
    case CU_LIMIT_MAX_L2_FETCH_GRANULARITY:
      *value = kFetchGranularity;
      return CUDA_SUCCESS;
    case CU_LIMIT_PERSISTING_L2_CACHE_SIZE:
      *value = 0;
      return CUDA_SUCCESS;
    case CU_LIMIT_SHMEM_SIZE:
      *value = limits::kSharedPerBlockOptIn;
      return CUDA_SUCCESS;
    case CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH:
      return CUDA_ERROR_UNSUPPORTED_LIMIT;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUSPAN_SOFT_API CUresult CUDAAPI cuCtxSetLimit(CUlimit limit, std::size_t value) {
  CUSPAN_SOFT_ENTER(driver);
  std::shared_ptr<Context> context;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->UsableContext(&context));
  switch (limit) {
    case CU_LIMIT_STACK_SIZE:
      if (value > kMaxStackBytes) return CUDA_ERROR_INVALID_VALUE;
      context->SetStackLimit(value);
      return CUDA_SUCCESS;
    case CU_LIMIT_PRINTF_FIFO_SIZE:
      return context->SetPrintfLimit(value);
    case CU_LIMIT_MALLOC_HEAP_SIZE:
      return context->SetHeapLimit(value);
    // Hints without effect here; values refused by NVIDIA's driver are refused.
    case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT:
      return CUDA_SUCCESS;
    case CU_LIMIT_MAX_L2_FETCH_GRANULARITY:
      return value > kMaxFetchGranularity ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    case CU_LIMIT_PERSISTING_L2_CACHE_SIZE:
      return value != 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    case CU_LIMIT_SHMEM_SIZE:
      return CUDA_ERROR_NOT_PERMITTED;
    case CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH:
      return CUDA_ERROR_UNSUPPORTED_LIMIT;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUSPAN_SOFT_API CUresult CUDAAPI cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  CUSPAN_SOFT_ENTER(driver);
  std::shared_ptr<Context> context;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->UsableContext(&context));
  if (least != nullptr) *least = limits::kMinPriority;
  if (greatest != nullptr) *greatest = limits::kGreatestPriority;
  return CUDA_SUCCESS;
}

}  // namespace cuspan::softgpu
