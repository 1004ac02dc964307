// Machine code in this process: compiles kernels to object files, and links these with the runtime,
// the math functions and a program's variables.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/status.h"
#include "proxy/softgpu/emit/module_emitter.h"
#include "proxy/softgpu/rt/abi.h"

namespace cuspan::softgpu::jit {

// kQuick: no optimisation; PTX registers are on the stack.
enum class Effort : std::uint8_t { kQuick, kOptimised };

struct CodeOptions {
  Effort effort = Effort::kOptimised;
  // Code for one thread only: with a check before each access, or a switch to other threads.
  bool check_accesses = false, interleaved = false;
};

struct ObjectFile {
  std::string bytes;
  std::uint32_t frame_bytes = 0;  // Sum over all functions with kQuick; else 0.
};

// Emits and compiles the kernel of `plan` for this machine: for a warp at a time if `warps` is set,
// else for one thread. `points` are the reconvergence points of threads. Threads: any.
Result<ObjectFile> CompileKernel(const ptx::Module& module, const analysis::KernelPlan& plan,
                                 const analysis::WarpPlan* warps,
                                 const emit::ModuleEmitter::ReconvergencePoints& points,
                                 const CodeOptions& options);

// Code of one program, freed with the linker. Threads: one at a time.
class Linker {
 public:
  // Returns the address of a symbol of the program, or null. Not called for symbols of the runtime.
  using Resolver = std::function<void*(std::string_view)>;

  static Result<std::unique_ptr<Linker>> Create(Resolver resolver);
  ~Linker();
  Linker(const Linker&) = delete;
  Linker& operator=(const Linker&) = delete;

  // Makes the code of an object file executable; returns the address of its `symbol`. Objects do
  // not see each other's symbols.
  Result<void*> Link(std::string_view object, const std::string& symbol);

 private:
  struct State;
  explicit Linker(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace cuspan::softgpu::jit
