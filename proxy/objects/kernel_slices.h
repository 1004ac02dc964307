// A kernel launched in slices (proxy/slicing), so that other waiting runs get the GPU in between.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "proxy/gpu/device.h"
#include "proxy/objects/module_ptx.h"
#include "proxy/slicing/slice_plan.h"
#include "proxy/slicing/slice_ptx.h"
#include "structs.gen.h"

namespace cuspan::proxy {

// Threads: the receiving thread, except for Make. Destroyed by a thread with the device's context,
// when none of its launches runs any more.
class KernelSlices {
 public:
  KernelSlices(const Device& device, std::string name) : device_(device), name_(std::move(name)) {}
  ~KernelSlices();
  KernelSlices(const KernelSlices&) = delete;

  // Compiles a sliced version of a kernel of the loaded module `whole`, from its PTX. To be called
  // once, on another thread; may take a second. Logs the reason if slicing is not possible.
  void Make(const ModulePtx& ptx, CUmodule whole, CUfunction whole_kernel);
  // True once slicing is known to be possible.
  bool ready() const { return ready_.load(std::memory_order_acquire); }
  // The driver has refused a slice: the kernel is not sliced any more.
  void GiveUp(CUresult refused);

  // Requires ready(). Returns the slices of a launch with the predicted time in ns.
  slicing::SlicePlan Plan(const GridShape& shape, double nanoseconds);
  // Copies the constants of the kernel's module; called before the first slice of a launch.
  CUresult Prepare(CUstream stream);
  // `arguments`: those of the kernel's own parameters, see cuLaunchKernel; one is added.
  CUresult Launch(const GridShape& shape, std::uint32_t first, std::uint32_t blocks,
                  CUstream stream, std::vector<void*>& arguments);

 private:
  struct Constant {
    CUdeviceptr from, to;
    std::uint64_t bytes;
  };
  struct Waves {
    std::uint64_t sliced = 0, whole = 0;  // Number of concurrent blocks.
  };
  Status Compile(const ModulePtx& ptx, CUmodule whole);
  bool CopyAttributes();
  std::uint64_t WaveOf(CUfunction kernel, std::uint32_t threads,
                       std::uint32_t dynamic_shared) const;

  const Device& device_;
  const std::string name_;
  CUmodule module_ = nullptr;
  CUfunction kernel_ = nullptr;
  CUfunction whole_kernel_ = nullptr;
  std::vector<Constant> constants_;
  std::uint32_t multiprocessors_ = 1;
  // Key: threads of a block, and bytes of dynamic shared memory.
  std::map<std::pair<std::uint32_t, std::uint32_t>, Waves> waves_;
  std::atomic<bool> ready_ = false;
};

}  // namespace cuspan::proxy
