// Device code of the client: modules, linkers and kernels.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/scheduling/pairs.h"
#include "protocol/fatbin/callers.h"
#include "proxy/gpu/driver.h"
#include "proxy/gpu/jit.h"
#include "proxy/objects/kernel_slices.h"
#include "proxy/objects/kernel_time.h"

namespace cuspan::proxy {

// A module. The receiving thread collects the pieces of the image. Afterwards, the worker owns it.
struct Module {
  std::vector<std::byte> image;  // Empty once it is loaded.
  std::uint64_t total = 0;
  bool load_asked = false;
  ModulePtx ptx;  // If the GPU may be shared: set after loading.
  CUmodule driver = nullptr;
  CUresult result = CUDA_ERROR_NOT_INITIALIZED;     // Result of loading.
  std::uint64_t hash = 0;                           // ModuleHash, if kernel times are stored.
  std::optional<std::vector<std::string>> kernels;  // Names; set on first use.
  fatbin::Callers printing;                         // Kernels calling KernelOutput::kFunction.
};

// A linker of device code. The receiving thread collects the pieces of the next input; the worker
// owns the rest.
struct Linker {
  explicit Linker(const Driver& of) : driver(of) {}
  Linker(const Linker&) = delete;
  ~Linker() {
    if (state != nullptr) driver.cuLinkDestroy(state);
  }

  const Driver& driver;
  std::vector<std::byte> input;
  std::uint64_t input_total = 0;
  JitArguments jit;  // The driver writes into it until the state is destroyed.
  CUlinkState state = nullptr;
  CUresult result = CUDA_ERROR_NOT_INITIALIZED;  // Result of creating the state.
  std::span<const std::byte> image;              // Owned by the state, once complete.
};

// A kernel. Constant once its handle is in the table, except for members with a comment about
// threads.
struct Kernel {
  CUfunction driver = nullptr;
  std::uint64_t module = 0;  // Its handle.
  std::string name;          // Name in the module.
  std::vector<std::uint32_t> parameter_bytes;
  std::uint64_t argument_bytes = 0;  // Their sum.
  bool prints = false;               // It may print.
  std::shared_ptr<KernelTime> time = std::make_shared<KernelTime>();
  std::atomic<scheduling::Bottleneck> bottleneck =
      scheduling::Bottleneck::kUnknown;  // Threads: any.
  // Total predicted time of its launches (ns), and true once the worker was asked for its limiting
  // resource. Owner: the receiving thread.
  double had = 0;
  bool limits_asked = false;
  std::shared_ptr<KernelSlices> slices;  // Owner: the receiving thread. Created on first use.
  // True if its launches must not be batched: the driver refuses this or may execute it wrongly, or
  // the module is being unloaded. Owner: the receiving thread.
  bool launched_alone = false;
};

}  // namespace cuspan::proxy
