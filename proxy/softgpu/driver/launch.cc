// cuLaunch* and cuFunc*.
#include "proxy/softgpu/driver/launch.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "proxy/softgpu/driver/errors.h"
#include "proxy/softgpu/driver/limits.h"
#include "proxy/softgpu/driver/occupancy.h"
#include "proxy/softgpu/driver/state.h"
#include "proxy/softgpu/rt/grid.h"
#include "proxy/softgpu/rt/pace.h"
#include "proxy/softgpu/rt/races.h"

namespace cuspan::softgpu {
namespace {

constexpr std::size_t kRaceStack = 32 * 1024;
constexpr std::size_t kStackScale = 4;  // Host bytes for each byte of CU_LIMIT_STACK_SIZE.

// Objects kept alive until the last block of a launch ends: code, variables, and the barrier words
// of cooperative launches. cooperative_groups reads the workspace in this layout (grid_workspace in
// details/driver_abi.h).
struct Kept {
  std::shared_ptr<Module> module;
  struct alignas(64) {
    std::uint32_t bytes = sizeof(std::uint32_t) * 2;
    std::uint32_t barrier = 0;
  } workspace;
};

struct LaunchCall {
  CUfunction function;
  LaunchShape shape;
  CUstream stream;
  void** params;
  void** extra;
  bool cooperative;
};

bool WithinLimits(const Dimensions& size, const std::uint32_t (&most)[3]) {
  return size.x != 0 && size.y != 0 && size.z != 0 && size.x <= most[0] && size.y <= most[1] &&
         size.z <= most[2];
}

// Checks the block against the requirements of the kernel.
CUresult CheckKernel(const Function& function, const LaunchShape& shape) {
  const KernelInfo& info = function.info();
  if (shape.block.count() > info.max_threads) return CUDA_ERROR_INVALID_VALUE;
  const std::uint32_t(&required)[3] = info.required_ntid;
  if (required[0] != 0 && (shape.block.x != required[0] || shape.block.y != required[1] ||
                           shape.block.z != required[2])) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (shape.dynamic_shared > function.dynamic_shared_limit()) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

CUresult DoLaunch(const LaunchCall& call) {
  CUSPAN_SOFT_ENTER(driver);
  std::shared_ptr<Function> function;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->FindFunction(call.function, &function));
  StreamEntry at;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->FindStream(call.stream, &at));
  if (function->module()->context() != at.context) return CUDA_ERROR_INVALID_HANDLE;
  Launch launch;
  CUSPAN_SOFT_RETURN_IF_ERROR(
      CopyParams(function->info(), call.params, call.extra, &launch.params));
  CUSPAN_SOFT_RETURN_IF_ERROR(
      PrepareHostLaunch(*driver, at.context, *function, call.shape, call.cooperative, &launch));
  at.context->streams().Enqueue(*at.stream, MakeGridTask(*driver, at.context, function->module(),
                                                         std::move(launch), at.stream->priority()));
  return CUDA_SUCCESS;
}

}  // namespace

CUresult CopyParams(const KernelInfo& info, void** params, void** extra,
                    std::vector<std::uint64_t>* copied) {
  copied->assign((info.parameter_bytes + 7) / 8, 0);
  auto* bytes = reinterpret_cast<std::uint8_t*>(copied->data());
  const void* buffer = nullptr;
  const std::size_t* buffer_bytes = nullptr;
  for (void** option = extra; option != nullptr && *option != CU_LAUNCH_PARAM_END; option += 2) {
    if (*option == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      buffer = option[1];
    } else if (*option == CU_LAUNCH_PARAM_BUFFER_SIZE) {
      buffer_bytes = static_cast<const std::size_t*>(option[1]);
    } else {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  if (buffer != nullptr) {
    if (params != nullptr || buffer_bytes == nullptr || *buffer_bytes < info.parameter_bytes) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    std::memcpy(bytes, buffer, info.parameter_bytes);
    return CUDA_SUCCESS;
  }
  if (params == nullptr) {
    return info.parameters.empty() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  for (std::size_t i = 0; i < info.parameters.size(); ++i) {
    if (params[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(bytes + info.parameters[i].offset, params[i], info.parameters[i].bytes);
  }
  return CUDA_SUCCESS;
}

CUresult CheckShape(const LaunchShape& shape) {
  const bool possible = WithinLimits(shape.grid, limits::kMaxGrid) &&
                        WithinLimits(shape.block, limits::kMaxBlock) &&
                        shape.block.count() <= limits::kMaxThreads;
  return possible ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult PrepareLaunch(Driver& driver, const std::shared_ptr<Context>& context, Function& function,
                       const LaunchShape& shape, Launch* launch) {
  CUSPAN_SOFT_RETURN_IF_ERROR(CheckShape(shape));
  CUSPAN_SOFT_RETURN_IF_ERROR(CheckKernel(function, shape));
  CompiledKernel compiled;
  CUSPAN_SOFT_RETURN_IF_ERROR(
      function.Compile({shape.block.x, shape.block.y, shape.block.z}, &compiled));
  const KernelInfo& info = function.info();
  launch->prints = info.prints;
  launch->uses_heap = info.uses_heap;
  launch->order = driver.configuration.order;
  launch->kernel = info.name;
  launch->grid = shape.grid;
  launch->block = shape.block;
  launch->static_shared_bytes = info.static_shared_bytes;
  launch->dynamic_shared_bytes = shape.dynamic_shared;
  launch->stack_of_thread =
      info.local_bytes + info.local_bytes / kLocalPadding + kStackScale * context->stack_limit();
  // Race detection runs on the thread's own stack.
  if (driver.configuration.check_races) launch->stack_of_thread += kRaceStack;
  launch->Use(compiled);
  launch->errors = context;
  if (driver.configuration.check_memory) launch->addresses = &driver.addresses;
  if (driver.configuration.check_races)
    launch->races = std::make_shared<LaunchRaces>(driver.races, driver.addresses, context->device(),
                                                  shape.grid.count());
  launch->device = context->device();
  launch->heap = &context->heap();
  Pace& pace = driver.FindDevice(context->device())->blocks;
  if (pace.limited()) launch->pace = &pace;
  return CUDA_SUCCESS;
}

CUresult PrepareHostLaunch(Driver& driver, const std::shared_ptr<Context>& context,
                           Function& function, const LaunchShape& shape, bool cooperative,
                           Launch* launch) {
  CUSPAN_SOFT_RETURN_IF_ERROR(CheckShape(shape));
  CUSPAN_SOFT_RETURN_IF_ERROR(CheckKernel(function, shape));
  if (cooperative) {
    const int each = BlocksPerProcessor(
        function.info(), static_cast<std::uint32_t>(shape.block.count()), shape.dynamic_shared);
    const int processors = limits::Processors(driver.configuration.threads);
    if (shape.grid.count() > static_cast<std::uint64_t>(each) * processors) {
      return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    }
  }
  CUSPAN_SOFT_RETURN_IF_ERROR(PrepareLaunch(driver, context, function, shape, launch));
  launch->cooperative = cooperative;
  return CUDA_SUCCESS;
}

std::unique_ptr<Task> MakeGridTask(Driver& driver, const std::shared_ptr<Context>& context,
                                   const std::shared_ptr<Module>& module, Launch launch,
                                   int priority) {
  context->Launched(launch.prints, launch.uses_heap);
  if (module->program().launches_kernels()) {
    launch.children = MakeChildLaunches(driver, context, module, priority, launch.conditions);
  }
  launch.grid_id = driver.next_grid.fetch_add(1);
  auto kept = std::make_shared<Kept>();
  kept->module = module;
  if (launch.cooperative) {
    const auto workspace = reinterpret_cast<std::uint64_t>(&kept->workspace);
    launch.envreg[1] = static_cast<std::uint32_t>(workspace >> 32);
    launch.envreg[2] = static_cast<std::uint32_t>(workspace);
  }
  launch.kept = std::move(kept);
  return std::make_unique<GridTask>(std::move(launch), priority, driver.pool.threads());
}

CUSPAN_SOFT_API CUresult CUDAAPI cuLaunchKernel(CUfunction function, unsigned grid_x,
                                                unsigned grid_y, unsigned grid_z, unsigned block_x,
                                                unsigned block_y, unsigned block_z,
                                                unsigned dynamic_shared, CUstream stream,
                                                void** params, void** extra) {
  return DoLaunch(
      LaunchCall{function,
                 {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, dynamic_shared},
                 stream,
                 params,
                 extra,
                 false});
}

CUSPAN_SOFT_API CUresult CUDAAPI cuLaunchCooperativeKernel(
    CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
    unsigned block_y, unsigned block_z, unsigned dynamic_shared, CUstream stream, void** params) {
  return DoLaunch(
      LaunchCall{function,
                 {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, dynamic_shared},
                 stream,
                 params,
                 nullptr,
                 true});
}

CUSPAN_SOFT_API CUresult CUDAAPI cuFuncGetParamInfo(CUfunction handle, std::size_t index,
                                                    std::size_t* offset, std::size_t* bytes) {
  CUSPAN_SOFT_ENTER(driver);
  std::shared_ptr<Function> function;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->FindFunction(handle, &function));
  if (offset == nullptr || index >= function->info().parameters.size()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *offset = function->info().parameters[index].offset;
  if (bytes != nullptr) *bytes = function->info().parameters[index].bytes;
  return CUDA_SUCCESS;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuFuncGetAttribute(int* value, CUfunction_attribute attribute,
                                                    CUfunction handle) {
  CUSPAN_SOFT_ENTER(driver);
  std::shared_ptr<Function> function;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->FindFunction(handle, &function));
  if (value == nullptr || attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const KernelInfo& info = function->info();
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = static_cast<int>(info.max_threads);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *value = static_cast<int>(info.static_shared_bytes);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      *value = static_cast<int>(info.local_bytes);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
      *value = static_cast<int>(function->module()->constant_bytes());
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = limits::kRegistersPerThread;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:  // Both are architectures, despite the names.
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = static_cast<int>(function->module()->program().target());
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = static_cast<int>(function->dynamic_shared_limit());
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      *value = function->carveout();
      return CUDA_SUCCESS;
    default:
      *value = 0;
      return CUDA_SUCCESS;  // No clusters.
  }
}

CUSPAN_SOFT_API CUresult CUDAAPI cuFuncSetAttribute(CUfunction handle,
                                                    CUfunction_attribute attribute, int value) {
  CUSPAN_SOFT_ENTER(driver);
  std::shared_ptr<Function> function;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->FindFunction(handle, &function));
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      if (value < 0 || static_cast<std::size_t>(value) + function->info().static_shared_bytes >
                           limits::kSharedPerBlockOptIn) {
        return CUDA_ERROR_INVALID_VALUE;
      }
      function->SetDynamicSharedLimit(static_cast<std::size_t>(value));
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      if (value < -1 || value > 100) return CUDA_ERROR_INVALID_VALUE;
      function->SetCarveout(value);
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUSPAN_SOFT_API CUresult CUDAAPI cuFuncSetCacheConfig(CUfunction handle, CUfunc_cache config) {
  CUSPAN_SOFT_ENTER(driver);
  std::shared_ptr<Function> function;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->FindFunction(handle, &function));
  const bool known = config >= CU_FUNC_CACHE_PREFER_NONE && config <= CU_FUNC_CACHE_PREFER_EQUAL;
  return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace cuspan::softgpu
