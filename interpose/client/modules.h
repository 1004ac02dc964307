// The program's kernels and variables on one device: a fat binary goes to the
// proxy at the first use of something in it, once.
#pragma once

#include <cuda.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "interpose/client/registry.h"

namespace cuspan {

class Link;

// A kernel on one device. Lives as long as the link.
struct LoadedKernel {
  std::uint64_t handle;
  std::vector<std::uint32_t> parameter_bytes;
  std::uint32_t argument_bytes;  // Their sum.
  // By CUfunction_attribute; the ones that can be set change with KernelSetAttribute.
  std::vector<std::atomic<int>> attributes;
  int attribute(CUfunction_attribute which) const {
    return static_cast<std::size_t>(which) < attributes.size() ? attributes[which].load() : 0;
  }
};

struct LoadedVariable {
  std::uint64_t address;
  std::uint64_t bytes;
};

class Modules {
 public:
  explicit Modules(Link* link) : link_(link) {}

  // Loads what is needed. CUDA_ERROR_NOT_FOUND when the fat binary has no such kernel.
  CUresult Kernel(const FunctionRecord& function, LoadedKernel** kernel);
  CUresult Variable(const VariableRecord& variable, LoadedVariable* loaded);
  // Only that, for what the host uses of it.
  CUresult Load(const FatbinRecord& fatbin);
  // The library that holds `fatbin` is being unloaded.
  void Unload(const FatbinRecord& fatbin);

 private:
  struct LoadedModule {
    std::mutex loading;
    bool loaded = false;
    CUresult result = CUDA_SUCCESS;
  };

  Link* const link_;
  mutable std::shared_mutex mutex_;
  std::unordered_map<const FatbinRecord*, std::unique_ptr<LoadedModule>> modules_;
  std::unordered_map<const FunctionRecord*, std::unique_ptr<LoadedKernel>> kernels_;
  std::unordered_map<const VariableRecord*, LoadedVariable> variables_;
};

}  // namespace cuspan
