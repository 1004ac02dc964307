#include "interpose/client/modules.h"

#include <algorithm>
#include <numeric>

#include "common/log.h"
#include "common/raise.h"
#include "interpose/client/base/handles.h"
#include "interpose/client/connection/connection.h"
#include "interpose/client/memory/device_memory.h"
#include "interpose/client/memory/managed_variables.h"
#include "protocol/fatbin/fatbin.h"
#include "protocol/fatbin/image.h"

namespace cuspan {

CUresult Modules::Load(const FatbinRecord& fatbin, JitAnswer* answer) {
  LoadedModule* module = nullptr;
  {
    const WriterLock lock(mutex_);
    auto& entry = modules_[&fatbin];
    if (entry == nullptr) entry = std::make_unique<LoadedModule>();
    module = entry.get();
  }
  // Other kernels and modules go on meanwhile.
  const MutexLock loading(module->loading);
  if (module->loaded) return module->result;
  if (fatbin.image.empty()) return CUDA_ERROR_INVALID_IMAGE;
  std::span<const std::byte> image = fatbin.image;
  std::vector<std::byte> with_objects;
  // If the linked code does not fit a device, its objects are linked again there.
  if (!fatbin.objects.empty()) {
    with_objects = fatbin::WithObjects(fatbin.image, fatbin.objects);
    image = with_objects;
  }
  if (image.size() > fatbin::kMaxModuleBytes) return CUDA_ERROR_INVALID_IMAGE;
  for (std::size_t offset = 0; offset < image.size(); offset += kMaxInlineBytes) {
    ModuleImage piece;
    piece.module = fatbin.module;
    piece.total = image.size();
    piece.offset = offset;
    piece.data = image.subspan(offset, std::min(kMaxInlineBytes, image.size() - offset));
    if (const CUresult result = connection_->Send(piece); result != CUDA_SUCCESS) return result;
    module->sent = true;
  }
  ModuleLoad load;
  load.module = fatbin.module;
  load.jit = fatbin.jit;
  if (answer == nullptr) load.jit.info_room = load.jit.error_room = 0;
  ModuleLoad::Reply reply;
  module->result = connection_->Call(load, &reply);
  if (answer != nullptr) *answer = std::move(reply.jit);
  if (module->result == CUDA_SUCCESS) module->usable.store(true, std::memory_order_release);
  if (module->result == CUDA_SUCCESS) module->result = PlaceManaged(fatbin);
  module->loaded = true;
  if (module->result != CUDA_SUCCESS) {
    LogError("device {} cannot load device code of {} bytes: CUDA error {}", connection_->device(),
             fatbin.image.size(), static_cast<int>(module->result));
    EndIfRefused(module->result);
  }
  return module->result;
}

CUresult Modules::PlaceManaged(const FatbinRecord& fatbin) {
  if (managed_ != nullptr) return managed_->Loaded(*connection_, fatbin);
  return Registry::Get().ManagedOf(fatbin).empty() ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

std::optional<BlockAllocator::Range> Modules::ManagedVariable(std::uint64_t address) const {
  return managed_ != nullptr ? managed_->At(address) : std::nullopt;
}

bool Modules::Has(const FatbinRecord& fatbin) const {
  const ReaderLock lock(mutex_);
  const auto known = modules_.find(&fatbin);
  return known != modules_.end() && known->second->usable.load(std::memory_order_acquire);
}

CUresult Modules::Kernel(const FunctionRecord& function, LoadedKernel** kernel) {
  {
    const ReaderLock lock(mutex_);
    if (const auto known = kernels_.find(&function); known != kernels_.end()) {
      *kernel = known->second.get();
      return CUDA_SUCCESS;
    }
  }
  if (const CUresult result = Load(*function.fatbin); result != CUDA_SUCCESS) return result;
  KernelFind find;
  find.module = function.fatbin->module;
  find.kernel = NextHandle();
  find.name = function.name;
  KernelFind::Reply reply;
  if (const CUresult result = connection_->Call(find, &reply); result != CUDA_SUCCESS) {
    EndIfRefused(result);
    return result;
  }
  auto loaded = std::make_unique<LoadedKernel>();
  loaded->handle = find.kernel;
  loaded->argument_bytes =
      std::accumulate(reply.parameter_bytes.begin(), reply.parameter_bytes.end(), 0U);
  // Sizes sent by a proxy are not trusted.
  reply.parameter_offsets.resize(reply.parameter_bytes.size());
  loaded->parameter_bytes = std::move(reply.parameter_bytes);
  loaded->parameter_offsets = std::move(reply.parameter_offsets);
  loaded->attributes = std::vector<std::atomic<int>>(reply.attributes.size());
  std::copy(reply.attributes.begin(), reply.attributes.end(), loaded->attributes.begin());
  const auto local = static_cast<std::uint64_t>(
      std::max(loaded->attribute(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES), 0));
  RaiseTo(most_local_bytes_, local);
  const WriterLock lock(mutex_);
  // If two threads ask at once, the first to return wins; both handles work.
  *kernel = kernels_.emplace(&function, std::move(loaded)).first->second.get();
  return CUDA_SUCCESS;
}

CUresult Modules::Variable(const VariableRecord& variable, LoadedVariable* loaded) {
  {
    const ReaderLock lock(mutex_);
    if (const auto known = variables_.find(&variable); known != variables_.end()) {
      *loaded = known->second;
      return CUDA_SUCCESS;
    }
  }
  if (const CUresult result = Load(*variable.fatbin); result != CUDA_SUCCESS) return result;
  VariableFind find;
  find.module = variable.fatbin->module;
  find.name = variable.name;
  VariableFind::Reply reply;
  if (const CUresult result = connection_->Call(find, &reply); result != CUDA_SUCCESS)
    return result;
  const WriterLock lock(mutex_);
  const auto [entry, added] =
      variables_.emplace(&variable, LoadedVariable{reply.address, reply.bytes, reply.managed});
  if (added) memory_->AddVariable(reply.address, reply.bytes);
  *loaded = entry->second;
  return CUDA_SUCCESS;
}

void Modules::Unload(const FatbinRecord& fatbin) {
  std::unique_ptr<LoadedModule> module;
  {
    const WriterLock lock(mutex_);
    const auto known = modules_.find(&fatbin);
    if (known == modules_.end()) return;
    module = std::move(known->second);
    modules_.erase(known);
    std::erase_if(kernels_, [&](const auto& entry) { return entry.first->fatbin == &fatbin; });
    std::erase_if(variables_, [&](const auto& entry) {
      if (entry.first->fatbin != &fatbin) return false;
      memory_->RemoveVariable(entry.second.address);
      return true;
    });
  }
  const MutexLock loading(module->loading);
  if (!module->sent) return;
  ModuleUnload unload;
  unload.module = fatbin.module;
  static_cast<void>(connection_->Send(unload));  // A lost device has no modules.
}

}  // namespace cuspan
