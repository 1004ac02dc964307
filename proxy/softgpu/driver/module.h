// Modules and functions: PTX loaded into a context, the memory of its variables, and its kernels.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proxy/softgpu/jit/program.h"
#include "proxy/softgpu/rt/address_space.h"
#include "proxy/softgpu/rt/physical.h"

namespace cuspan::softgpu {

class Context;
class Module;

// Object behind a CUfunction. Threads: any.
class Function {
 public:
  Function(std::shared_ptr<Module> module, const KernelInfo& info);

  const std::shared_ptr<Module>& module() const { return module_; }
  const KernelInfo& info() const { return info_; }
  // Returns the code for blocks of `shape`; compiles it if needed. On failure logs the reason and
  // returns CUDA_ERROR_INVALID_PTX or CUDA_ERROR_OUT_OF_MEMORY.
  CUresult Compile(const BlockShape& shape, CompiledKernel* compiled);

  // Largest dynamic shared memory of a launch.
  std::size_t dynamic_shared_limit() const { return dynamic_shared_limit_.load(); }
  void SetDynamicSharedLimit(std::size_t bytes) { dynamic_shared_limit_ = bytes; }
  int carveout() const { return carveout_.load(); }
  void SetCarveout(int percent) { carveout_ = percent; }

 private:
  const std::shared_ptr<Module> module_;
  const KernelInfo& info_;
  std::atomic<std::size_t> dynamic_shared_limit_;
  std::atomic<int> carveout_{-1};  // Hint; -1: default.
  // Cache of shapes launched: the program's own lock may be held during a compilation.
  std::mutex mutex_;
  std::vector<std::pair<BlockShape, CompiledKernel>> compiled_;
  CUresult refused_ = CUDA_SUCCESS;  // Error of every launch, for unsupported code.
};

// Memory for a module's variables: zeroed, page-aligned, with an inaccessible page at each end. It
// counts as device memory.
class VariableMemory {
 public:
  VariableMemory(AddressSpace& addresses, std::shared_ptr<PhysicalMemory> device)
      : addresses_(addresses), device_(std::move(device)) {}
  ~VariableMemory();
  VariableMemory(const VariableMemory&) = delete;
  VariableMemory& operator=(const VariableMemory&) = delete;

  // Called once. Returns false if the device or the host has too little memory.
  bool Allocate(std::uint64_t bytes);
  std::uint8_t* base() const { return base_; }

 private:
  AddressSpace& addresses_;
  const std::shared_ptr<PhysicalMemory> device_;
  std::uint8_t* base_ = nullptr;
  std::uint64_t bytes_ = 0;
};

// Checks PTX of `version` (90 for 9.0) and `target` for a device of `capability` (90 for 9.0).
// Explains an error in *why.
CUresult CheckPtx(std::uint32_t version, std::uint32_t target, int capability, std::string* why);

// Threads: any.
class Module : public std::enable_shared_from_this<Module> {
 public:
  struct Variable {
    std::uint8_t* address;
    std::uint64_t bytes;
    bool managed;
  };

  // Loads `ptx` for `context`; `capability` is the device's (90 for 9.0). `checked`: checks the
  // whole text now (Program::Check). Explains an error in *why.
  static CUresult Load(std::string ptx, bool checked, int capability,
                       const std::shared_ptr<Context>& context, AddressSpace& addresses,
                       std::shared_ptr<PhysicalMemory> memory, std::shared_ptr<Module>* module,
                       std::string* why);

  Module(std::shared_ptr<Context> context, std::unique_ptr<Program> program,
         AddressSpace& addresses, std::shared_ptr<PhysicalMemory> memory);

  const std::shared_ptr<Context>& context() const { return context_; }
  Program& program() { return *program_; }
  // Size of the .const variables, including alignment.
  std::uint64_t constant_bytes() const { return constant_bytes_; }
  std::optional<Variable> FindVariable(const std::string& name) const;
  // Variable containing `address`.
  std::optional<Variable> VariableAt(std::uint64_t address) const;
  // Implements PlaceVariable (proxy/softgpu/placed_variables.h).
  CUresult Place(const std::string& name, std::uint8_t* address);

  // Returns the handle of a kernel, always the same; `make` is called for the first request.
  template <typename Make>
  std::uint64_t FunctionHandle(const std::string& name, Make make) {
    std::lock_guard lock(mutex_);
    std::uint64_t& handle = functions_[name];
    if (handle == 0) handle = make();
    return handle;
  }

 private:
  CUresult PlaceVariables();
  Status Relocate(const ModuleVariable& variable);
  // Updates initial values containing the address of a variable after its move.
  void Readdress(const std::string& name, const std::uint8_t* from, const std::uint8_t* to);

  const std::shared_ptr<Context> context_;
  VariableMemory variable_memory_;
  // Declared after the memory: code is destroyed before the variables used by it.
  const std::unique_ptr<Program> program_;
  std::uint64_t constant_bytes_ = 0;
  mutable std::mutex mutex_;  // Guards the members below.
  std::map<std::string, Variable> variables_;
  std::map<std::string, std::uint64_t> functions_;
};

}  // namespace cuspan::softgpu
