#include "interpose/client/libraries.h"

#include <utility>

#include "interpose/client/base/handles.h"
#include "interpose/client/context_connection.h"

namespace cuspan {

Library::Library(FatbinRecord* fatbin)
    : handle_(reinterpret_cast<const void*>(NextHandle())), fatbin_(fatbin->shared_from_this()) {}

CUresult Library::Kernel(ContextConnection& connection, const std::string& name,
                         const FunctionRecord** kernel) {
  const MutexLock lock(mutex_);
  if (const auto known = kernels_.find(name); known != kernels_.end()) {
    *kernel = known->second;
    return CUDA_SUCCESS;
  }
  // No frame and no image contains a name of this length.
  if (name.empty() || name.size() > kMaxInlineBytes) return CUDA_ERROR_NOT_FOUND;
  std::list<FunctionRecord> found;
  const FunctionRecord& record = found.emplace_back(NewKernel(*fatbin_, name));
  LoadedKernel* loaded = nullptr;
  if (const CUresult result = connection.modules().Kernel(record, &loaded);
      result != CUDA_SUCCESS) {
    return result;
  }
  Registry::Get().AddKernels(fatbin_.get(), std::move(found));
  *kernel = &record;
  kernels_.emplace(name, &record);
  return CUDA_SUCCESS;
}

CUresult Library::FindVariable(ContextConnection& connection, const std::string& name,
                               LoadedVariable* variable) {
  if (const auto known = variables_.find(name); known != variables_.end()) {
    return connection.modules().Variable(*known->second, variable);
  }
  if (name.size() > kMaxInlineBytes) return CUDA_ERROR_NOT_FOUND;
  auto record =
      std::make_unique<VariableRecord>(VariableRecord{fatbin_.get(), name, nullptr, 0, false});
  if (const CUresult result = connection.modules().Variable(*record, variable);
      result != CUDA_SUCCESS) {
    return result;
  }
  variables_.emplace(name, std::move(record));
  return CUDA_SUCCESS;
}

CUresult Library::Variable(ContextConnection& connection,
                           const std::vector<std::shared_ptr<ContextConnection>>& connections,
                           const std::string& name, LoadedVariable* variable) {
  const MutexLock lock(mutex_);
  CUresult result = FindVariable(connection, name, variable);
  if (result != CUDA_SUCCESS || !variable->managed) return result;
  auto known = managed_.find(name);
  if (known == managed_.end()) {
    void** const address = Registry::Get().AddManaged(fatbin_.get(), nullptr, name.c_str());
    known = managed_.emplace(name, Managed{address}).first;
  }
  if (!known->second.everywhere) {
    // The address on this device becomes the address on all.
    if ((result = connection.modules().PlaceManaged(*fatbin_)) != CUDA_SUCCESS) return result;
    for (const auto& other : connections) {
      const bool uses = other->fault() == CUDA_SUCCESS && other->modules().Has(*fatbin_);
      if (other.get() == &connection || !uses) continue;
      if ((result = other->modules().PlaceManaged(*fatbin_)) != CUDA_SUCCESS) return result;
    }
    known->second.everywhere = true;
  }
  variable->address = reinterpret_cast<std::uintptr_t>(*known->second.address);
  return CUDA_SUCCESS;
}

CUresult Library::KernelNames(ContextConnection& connection, std::vector<std::string>* names) {
  const MutexLock lock(mutex_);
  if (!names_) {
    const CUresult loaded = connection.modules().Load(*fatbin_);
    if (connection.fault() != CUDA_SUCCESS) return connection.fault();
    // Invalid code has no kernels; it is not an error yet.
    names->clear();
    if (loaded != CUDA_SUCCESS) return CUDA_SUCCESS;
    std::vector<std::string> found;
    ModuleKernels::Reply reply;
    do {
      ModuleKernels op;
      op.module = fatbin_->module;
      op.first = static_cast<std::uint32_t>(found.size());
      if (const CUresult result = connection.Call(op, &reply); result != CUDA_SUCCESS)
        return result;
      for (std::string& name : reply.names) found.push_back(std::move(name));
    } while (!reply.last && !reply.names.empty());
    names_ = std::move(found);
  }
  *names = *names_;
  return CUDA_SUCCESS;
}

std::shared_ptr<Library> Libraries::Add(FatbinRecord* fatbin) {
  auto library = std::make_shared<Library>(fatbin);
  const WriterLock lock(mutex_);
  loaded_.emplace(library->handle(), library);
  return library;
}

std::shared_ptr<Library> Libraries::Find(const void* handle) const {
  const ReaderLock lock(mutex_);
  const auto known = loaded_.find(handle);
  return known == loaded_.end() ? nullptr : known->second;
}

std::shared_ptr<Library> Libraries::Find(const FatbinRecord& fatbin) const {
  const ReaderLock lock(mutex_);
  for (const auto& [handle, library] : loaded_)
    if (&library->fatbin() == &fatbin) return library;
  return nullptr;
}

std::shared_ptr<Library> Libraries::Remove(const void* handle, bool module) {
  const WriterLock lock(mutex_);
  const auto known = loaded_.find(handle);
  if (known == loaded_.end() || (known->second->owner() != 0) != module) return nullptr;
  std::shared_ptr<Library> library = std::move(known->second);
  loaded_.erase(known);
  return library;
}

void Libraries::Forget(const ContextConnection& ended) {
  const WriterLock lock(mutex_);
  std::erase_if(loaded_, [&](const auto& entry) {
    const bool gone = entry.second->owner() == ended.number();
    // Only the ended device has loaded it.
    if (gone) static_cast<void>(Registry::Get().RemoveFatbin(&entry.second->fatbin()));
    return gone;
  });
}

}  // namespace cuspan
