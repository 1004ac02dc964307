// Machine code in this process: compiles kernels to object files, and links these
// against the runtime, the mathematical functions and a program's variables.
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

// kQuick: nothing is optimised, and registers of the program lie on the stack.
enum class Effort : std::uint8_t { kQuick, kOptimised };

struct CodeOptions {
  Effort effort = Effort::kOptimised;
  // For one thread only: with a check before each access, or a turn of other threads.
  bool check_accesses = false, interleaved = false;
};

struct ObjectFile {
  std::string bytes;
  std::uint32_t frame_bytes = 0;  // Of all its functions, when made with kQuick; else 0.
};

// Emits and compiles the kernel of `plan` for this machine, with `warps` for a warp at a time, else
// for one thread, with `points` where those of a warp wait for each other. Any thread calls.
Result<ObjectFile> CompileKernel(const ptx::Module& module, const analysis::KernelPlan& plan,
                                 const analysis::WarpPlan* warps,
                                 const emit::ModuleEmitter::ReconvergencePoints& points,
                                 const CodeOptions& options);

// One program's code; freed with the linker. One thread at a time.
class Linker {
 public:
  // Gives the address of a symbol of the program, or null. The runtime's own are known.
  using Resolver = std::function<void*(std::string_view)>;

  static Result<std::unique_ptr<Linker>> Create(Resolver resolver);
  ~Linker();
  Linker(const Linker&) = delete;
  Linker& operator=(const Linker&) = delete;

  // Makes the code of an object file executable; the address of its `symbol`. Objects do
  // not see each other's symbols.
  Result<void*> Link(std::string_view object, const std::string& symbol);

 private:
  struct State;
  explicit Linker(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace cuspan::softgpu::jit
