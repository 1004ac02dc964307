#include "proxy/softgpu/driver/module.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "common/log.h"
#include "common/round_up.h"
#include "proxy/softgpu/driver/context.h"
#include "proxy/softgpu/driver/limits.h"

namespace cuspan::softgpu {
namespace {

constexpr std::uint64_t kPage = 4096;
// Minimum alignment of variables in NVIDIA's driver.
constexpr std::uint64_t kVariableAlignment = 256;
// Newest PTX version supported by the compiler: CUDA 13.0's.
constexpr std::uint32_t kNewestPtx = 90;

// Error code for PTX failing to load or compile.
CUresult PtxError(const Status& status) {
  return status.code() == StatusCode::kExhausted ? CUDA_ERROR_OUT_OF_MEMORY
                                                 : CUDA_ERROR_INVALID_PTX;
}

}  // namespace

Function::Function(std::shared_ptr<Module> module, const KernelInfo& info)
    : module_(std::move(module)),
      info_(info),
      dynamic_shared_limit_(
          limits::kSharedPerBlock -
          std::min<std::size_t>(info.static_shared_bytes, limits::kSharedPerBlock)) {}

CUresult Function::Compile(const BlockShape& shape, CompiledKernel* compiled) {
  {
    std::lock_guard lock(mutex_);
    for (auto& [known, code] : compiled_) {
      if (known != shape) continue;
      if (code.later != nullptr) code = code.Best();
      *compiled = code;
      return CUDA_SUCCESS;
    }
    if (refused_ != CUDA_SUCCESS) return refused_;
  }
  Result<CompiledKernel> made = module_->program().Compile(info_.name, shape);
  if (!made.ok()) {
    const CUresult result = PtxError(made.status());
    LogError("software GPU: kernel {}: {}; its launches fail with CUDA error {}", info_.name,
             made.status().message(), static_cast<int>(result));
    std::lock_guard lock(mutex_);
    if (made.status().code() == StatusCode::kUnsupported) refused_ = result;
    return result;
  }
  *compiled = *made;
  std::lock_guard lock(mutex_);
  // Programs launch few shapes. Further shapes are looked up in program() each time.
  constexpr std::size_t kMaxKnown = 16;
  if (compiled_.size() < kMaxKnown) compiled_.emplace_back(shape, *made);
  return CUDA_SUCCESS;
}

VariableMemory::~VariableMemory() {
  if (base_ == nullptr) return;
  addresses_.RemoveFixed(reinterpret_cast<std::uint64_t>(base_));
  munmap(base_ - kPage, bytes_ + 2 * kPage);
  device_->Discharge(bytes_);
}

bool VariableMemory::Allocate(std::uint64_t bytes) {
  bytes = RoundUp(bytes, kPage);
  if (bytes == 0) return true;
  if (!device_->Charge(bytes)) return false;
  void* mapping = mmap(nullptr, bytes + 2 * kPage, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) {
    device_->Discharge(bytes);
    return false;
  }
  base_ = static_cast<std::uint8_t*>(mapping) + kPage;
  bytes_ = bytes;
  if (mprotect(base_, bytes, PROT_READ | PROT_WRITE) != 0) return false;
  addresses_.AddFixed(reinterpret_cast<std::uint64_t>(base_), bytes, device_->device());
  return true;
}

CUresult CheckPtx(std::uint32_t version, std::uint32_t target, int capability, std::string* why) {
  if (version > kNewestPtx) {
    *why = Format("PTX {}.{} is newer than {}.{}, the newest supported version", version / 10,
                  version % 10, kNewestPtx / 10, kNewestPtx % 10);
    return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
  }
  if (target > static_cast<std::uint32_t>(capability)) {
    *why = Format(
        "PTX for sm_{} needs more than compute capability {}.{}; CUSPAN_SOFT_CAPABILITY sets it",
        target, capability / 10, capability % 10);
    return CUDA_ERROR_INVALID_PTX;
  }
  return CUDA_SUCCESS;
}

CUresult Module::Load(std::string ptx, bool checked, int capability,
                      const std::shared_ptr<Context>& context, AddressSpace& addresses,
                      std::shared_ptr<PhysicalMemory> memory, std::shared_ptr<Module>* module,
                      std::string* why) {
  Result<std::unique_ptr<Program>> program = Program::Load(std::move(ptx));
  if (!program.ok()) {
    *why = program.status().message();
    return PtxError(program.status());
  }
  if (const CUresult result =
          CheckPtx((*program)->ptx_version(), (*program)->target(), capability, why);
      result != CUDA_SUCCESS)
    return result;
  if (checked) {
    if (const Status status = (*program)->Check(true); !status.ok()) {
      *why = status.message();
      return PtxError(status);
    }
  }
  auto loaded =
      std::make_shared<Module>(context, std::move(*program), addresses, std::move(memory));
  if (const CUresult result = loaded->PlaceVariables(); result != CUDA_SUCCESS) return result;
  *module = std::move(loaded);
  return CUDA_SUCCESS;
}

Module::Module(std::shared_ptr<Context> context, std::unique_ptr<Program> program,
               AddressSpace& addresses, std::shared_ptr<PhysicalMemory> memory)
    : context_(std::move(context)),
      variable_memory_(addresses, std::move(memory)),
      program_(std::move(program)) {}

CUresult Module::PlaceVariables() {
  std::uint64_t end = 0;
  std::map<std::string, std::uint64_t> offsets;
  const auto place = [&](bool constant) {
    for (const ModuleVariable& variable : program_->variables()) {
      if (variable.constant != constant) continue;
      end = RoundUp(end, std::max<std::uint64_t>(variable.alignment, kVariableAlignment));
      offsets[variable.name] = end;
      end += variable.bytes;
    }
  };
  place(false);
  const std::uint64_t constants = RoundUp(end, kVariableAlignment);
  place(true);
  constant_bytes_ = end - constants;
  // A GPU has a constant bank readable to its end. Programs do read beyond the end of a table.
  if (end > constants) end = std::max<std::uint64_t>(end, constants + limits::kConstantBytes);
  if (!variable_memory_.Allocate(end)) {
    LogError("software GPU {}: no memory for {} bytes of module variables", context_->device(),
             end);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  for (const ModuleVariable& variable : program_->variables()) {
    std::uint8_t* address = variable_memory_.base() + offsets[variable.name];
    variables_[variable.name] = Variable{address, variable.bytes, variable.managed};
    program_->Bind(variable.name, address);
    if (!variable.initial.empty()) {
      std::memcpy(address, variable.initial.data(),
                  std::min<std::uint64_t>(variable.initial.size(), variable.bytes));
    }
  }
  // All variables must have an address first.
  for (const ModuleVariable& variable : program_->variables()) {
    if (const Status status = Relocate(variable); !status.ok()) {
      LogError("software GPU: {}", status.message());
      return CUDA_ERROR_INVALID_PTX;
    }
  }
  return CUDA_SUCCESS;
}

Status Module::Relocate(const ModuleVariable& variable) {
  for (const ModuleVariable::Relocation& relocation : variable.relocations) {
    const std::optional<Variable> target = FindVariable(relocation.symbol);
    if (!target) {
      return Status::Unsupported(
          "variable {} holds the address of {}, which is not a variable of its module",
          variable.name, relocation.symbol);
    }
    const std::uint64_t value = reinterpret_cast<std::uint64_t>(target->address) +
                                static_cast<std::uint64_t>(relocation.addend);
    if (relocation.offset > variable.bytes || variable.bytes - relocation.offset < sizeof(value)) {
      return Status::Invalid("variable {} has no room for the address of {} at {}", variable.name,
                             relocation.symbol, relocation.offset);
    }
    std::memcpy(variables_[variable.name].address + relocation.offset, &value, sizeof(value));
  }
  return Status::Ok();
}

std::optional<Module::Variable> Module::FindVariable(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = variables_.find(name);
  return found == variables_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<Module::Variable> Module::VariableAt(std::uint64_t address) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [name, variable] : variables_) {
    const auto start = reinterpret_cast<std::uint64_t>(variable.address);
    if (address >= start && address - start < variable.bytes) return variable;
  }
  return std::nullopt;
}

CUresult Module::Place(const std::string& name, std::uint8_t* address) {
  const std::lock_guard lock(mutex_);
  const auto found = variables_.find(name);
  if (found == variables_.end() || !found->second.managed) return CUDA_ERROR_NOT_FOUND;
  if (!program_->Bind(name, address)) return CUDA_ERROR_NOT_PERMITTED;
  Readdress(name, found->second.address, address);
  found->second.address = address;
  return CUDA_SUCCESS;
}

void Module::Readdress(const std::string& name, const std::uint8_t* from, const std::uint8_t* to) {
  for (const ModuleVariable& variable : program_->variables()) {
    for (const ModuleVariable::Relocation& relocation : variable.relocations) {
      if (relocation.symbol != name) continue;
      const auto with_addend = [&](const std::uint8_t* address) {
        return reinterpret_cast<std::uint64_t>(address) +
               static_cast<std::uint64_t>(relocation.addend);
      };
      // The program may have changed the pointer since.
      std::uint8_t* const place = variables_[variable.name].address + relocation.offset;
      std::uint64_t value = 0;
      std::memcpy(&value, place, sizeof value);
      if (value != with_addend(from)) continue;
      value = with_addend(to);
      std::memcpy(place, &value, sizeof value);
    }
  }
}

}  // namespace cuspan::softgpu
