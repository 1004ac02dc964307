// Machine code in this process: compiles LLVM modules and links them against
// the runtime, the mathematical functions and a program's variables.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/status.h"
#include "proxy/softgpu/emit/module_emitter.h"
#include "proxy/softgpu/rt/abi.h"

namespace cuspan::softgpu::jit {

// One program's code; freed with the engine. One thread at a time.
class Engine {
 public:
  // kInternal when LLVM can not make code for this machine.
  static Result<std::unique_ptr<Engine>> Create();
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // What this machine's instructions decide for the emitter.
  const emit::Host& host() const;
  // Gives the symbol an address for code that is added later. Names may be defined once.
  Status Define(std::string_view symbol, void* address);
  // Emits, compiles and links the kernel of `plan`.
  Result<KernelEntry> Add(const ptx::Module& module, const analysis::KernelPlan& plan);

 private:
  struct State;
  explicit Engine(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace cuspan::softgpu::jit
