// A kernel that can be launched in slices (proxy/slicing), so that others who wait for the GPU get
// it in between.
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

// Threads: the receiving thread, but for Make. It ends in a thread with the device's context, when
// nothing of it runs any more.
class KernelSlices {
 public:
  KernelSlices(const Device& device, std::string name) : device_(device), name_(std::move(name)) {}
  ~KernelSlices();
  KernelSlices(const KernelSlices&) = delete;

  // Compiles the kernel of `whole`, a loaded module with that PTX, anew. For another thread, once;
  // it may take a second. Why it can not be launched in slices is logged.
  void Make(const ModulePtx& ptx, CUmodule whole, CUfunction whole_kernel);
  // Whether it can be, as far as is known by now.
  bool ready() const { return ready_.load(std::memory_order_acquire); }
  // The driver has refused a slice: from now on the kernel goes uncut.
  void GiveUp(CUresult refused);

  // Once ready: how such a launch, which should take so long (ns), is cut.
  slicing::SlicePlan Plan(const GridShape& shape, double nanoseconds);
  // What the kernel finds in its module is brought there before a launch's first slice.
  CUresult Prepare(CUstream stream);
  // `arguments`: of the kernel's own parameters, as cuLaunchKernel takes them; one is added.
  CUresult Launch(const GridShape& shape, std::uint32_t first, std::uint32_t blocks,
                  CUstream stream, std::vector<void*>& arguments);

 private:
  struct Constant {
    CUdeviceptr from, to;
    std::uint64_t bytes;
  };
  struct Waves {
    std::uint64_t sliced = 0, whole = 0;  // Blocks that run at once.
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
  // By threads of a block and bytes of dynamic shared memory.
  std::map<std::pair<std::uint32_t, std::uint32_t>, Waves> waves_;
  std::atomic<bool> ready_ = false;
};

}  // namespace cuspan::proxy
