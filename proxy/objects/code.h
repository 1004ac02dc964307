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
#include "proxy/gpu/driver.h"
#include "proxy/gpu/jit.h"
#include "proxy/objects/kernel_slices.h"
#include "proxy/objects/kernel_time.h"

namespace cuspan::proxy {

// A module. The pieces are collected by the receiving thread; then it belongs to the worker.
struct Module {
  std::vector<std::byte> image;  // Until it is loaded.
  std::uint64_t total = 0;
  bool load_asked = false;
  ModulePtx ptx;  // Of one that was loaded, where the GPU may be shared.
  CUmodule driver = nullptr;
  CUresult result = CUDA_ERROR_NOT_INITIALIZED;     // Of loading it.
  std::uint64_t hash = 0;                           // ModuleHash, where kernel times are kept.
  std::optional<std::vector<std::string>> kernels;  // Their names, once they were asked for.
};

// A linker of device code. The pieces of its next input are collected by the receiving thread; the
// rest is the worker's.
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
  CUresult result = CUDA_ERROR_NOT_INITIALIZED;  // Of making the state.
  std::span<const std::byte> image;              // The state's, once it is complete.
};

// A kernel: constant once its handle is in the table, but for what is said to be another's.
struct Kernel {
  CUfunction driver = nullptr;
  std::uint64_t module = 0;  // The handle.
  std::string name;          // As the module has it.
  std::vector<std::uint32_t> parameter_bytes;
  std::uint64_t argument_bytes = 0;  // Their sum.
  std::shared_ptr<KernelTime> time = std::make_shared<KernelTime>();
  std::atomic<scheduling::Limits> limits = scheduling::Limits::kUnknown;  // Any thread.
  // The receiving thread's: what its launches took since then, by predictions (ns), and whether it
  // has been asked what limits it.
  double had = 0;
  bool limits_asked = false;
  std::shared_ptr<KernelSlices> slices;  // The receiving thread's: made when they are wanted.
  // The receiving thread's: its launches are not handed over with others, since the driver refuses
  // that, or may not do it rightly, or since its module goes.
  bool launched_alone = false;
};

}  // namespace cuspan::proxy
