#include "proxy/objects/kernel_slices.h"

#include <algorithm>
#include <optional>

#include "common/log.h"

namespace cuspan::proxy {
namespace {

// Target time of a slice (ns); other runs wait for one slice at most.
constexpr std::uint64_t kSliceTime = 500'000;

}  // namespace

KernelSlices::~KernelSlices() {
  if (module_ != nullptr) device_.driver().cuModuleUnload(module_);
}

void KernelSlices::Make(const ModulePtx& ptx, CUmodule whole, CUfunction whole_kernel) {
  whole_kernel_ = whole_kernel;
  const Status compiled = Compile(ptx, whole);
  if (!compiled.ok()) {
    LogInfo("kernel {} is not launched in slices: {}", name_, compiled.message());
    return;
  }
  LogInfo("kernel {} can be launched in slices", name_);
  ready_.store(true, std::memory_order_release);
}

Status KernelSlices::Compile(const ModulePtx& ptx, CUmodule whole) {
  const Driver& driver = device_.driver();
  multiprocessors_ = AttributeOf(device_, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  CUSPAN_ASSIGN_OR_RETURN(const std::string text, ptx.Text());
  const auto find = [&](CUmodule module, const std::string& name, std::size_t* bytes) {
    CUdeviceptr address = 0;
    const CUresult found = driver.cuModuleGetGlobal(&address, bytes, module, name.c_str());
    return found == CUDA_SUCCESS ? std::optional<std::uint64_t>(address) : std::nullopt;
  };
  CUSPAN_ASSIGN_OR_RETURN(const slicing::SlicedPtx sliced,
                          slicing::SlicePtx(text, name_, [&](std::string_view variable) {
                            std::size_t bytes = 0;
                            return find(whole, std::string(variable), &bytes);
                          }));
  CUresult result = driver.cuModuleLoadData(&module_, sliced.text.c_str());
  if (result == CUDA_SUCCESS) result = driver.cuModuleGetFunction(&kernel_, module_, name_.c_str());
  if (result != CUDA_SUCCESS)
    return Status::Unsupported("the driver rejects its code: {}", driver.Describe(result));
  for (const slicing::SlicedPtx::Constant& constant : sliced.constants) {
    std::size_t bytes = 0;
    const auto from = find(whole, constant.name, &bytes);
    const auto to = find(module_, constant.name, &bytes);
    if (!from || !to || bytes < constant.bytes)
      return Status::Unsupported("its constant {} is not found", constant.name);
    constants_.push_back({*from, *to, constant.bytes});
  }
  return Status::Ok();
}

// Copies the attributes of the program's kernel again; they may have changed.
bool KernelSlices::CopyAttributes() {
  const Driver& driver = device_.driver();
  for (const CUfunction_attribute attribute :
       {CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
        CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT}) {
    int wanted = 0, set = 0;
    if (driver.cuFuncGetAttribute(&wanted, attribute, whole_kernel_) != CUDA_SUCCESS ||
        driver.cuFuncGetAttribute(&set, attribute, kernel_) != CUDA_SUCCESS || wanted == set)
      continue;
    if (driver.cuFuncSetAttribute(kernel_, attribute, wanted) != CUDA_SUCCESS) return false;
  }
  return true;
}

std::uint64_t KernelSlices::WaveOf(CUfunction kernel, std::uint32_t threads,
                                   std::uint32_t dynamic_shared) const {
  int on_each = 0;
  if (device_.driver().cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
          &on_each, kernel, static_cast<int>(threads), dynamic_shared, 0) != CUDA_SUCCESS)
    return 0;
  return static_cast<std::uint64_t>(std::max(on_each, 0)) * multiprocessors_;
}

slicing::SlicePlan KernelSlices::Plan(const GridShape& shape, double nanoseconds) {
  const std::uint64_t blocks = std::uint64_t{shape.grid.x} * shape.grid.y * shape.grid.z;
  const slicing::SlicePlan uncut{1, blocks};
  const std::uint32_t threads = shape.block.x * shape.block.y * shape.block.z;
  if (!CopyAttributes()) return uncut;
  Waves& waves = waves_[{threads, shape.dynamic_shared}];
  if (waves.sliced == 0 || waves.whole == 0)
    waves = {WaveOf(kernel_, threads, shape.dynamic_shared),
             WaveOf(whole_kernel_, threads, shape.dynamic_shared)};
  // Not sliced if the occupancy is unknown, or if the program's kernel runs in one wave.
  if (waves.sliced == 0 || waves.whole == 0 || blocks <= waves.whole) return uncut;
  return slicing::PlanSlices(blocks, static_cast<std::uint64_t>(nanoseconds), waves.sliced,
                             kSliceTime);
}

void KernelSlices::GiveUp(CUresult refused) {
  LogInfo("kernel {} is no longer launched in slices: {}", name_,
          device_.driver().Describe(refused));
  ready_.store(false, std::memory_order_release);
}

CUresult KernelSlices::Prepare(CUstream stream) {
  for (const Constant& constant : constants_)
    if (const CUresult result =
            device_.driver().cuMemcpyDtoDAsync(constant.to, constant.from, constant.bytes, stream);
        result != CUDA_SUCCESS)
      return result;
  return CUDA_SUCCESS;
}

CUresult KernelSlices::Launch(const GridShape& shape, std::uint32_t first, std::uint32_t blocks,
                              CUstream stream, std::vector<void*>& arguments) {
  slicing::SliceArguments slice{first, {shape.grid.x, shape.grid.y, shape.grid.z}};
  arguments.push_back(&slice);
  const CUresult result = device_.driver().cuLaunchKernel(
      kernel_, blocks, 1, 1, shape.block.x, shape.block.y, shape.block.z, shape.dynamic_shared,
      stream, arguments.data(), nullptr);
  arguments.pop_back();
  return result;
}

}  // namespace cuspan::proxy
