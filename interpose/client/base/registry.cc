#include "interpose/client/base/registry.h"

#include "common/log.h"
#include "common/readable_memory.h"
#include "interpose/client/base/handles.h"
#include "protocol/fatbin/fatbin.h"
#include "protocol/fatbin/image.h"

namespace cuspan {
namespace {

Result<std::span<const std::byte>> Container(const void* at, fatbin::CanRead can_read) {
  Result<std::uint64_t> bytes = fatbin::ContainerBytes(at, can_read);
  if (!bytes.ok()) return bytes.status();
  return std::span(static_cast<const std::byte*>(at), *bytes);
}

// Finds the fat binary containers behind nvcc's wrapper, if their format is known.
Status FindImages(const void* wrapper, FatbinRecord* record, fatbin::CanRead can_read) {
  Result<fatbin::Wrapper> read = fatbin::ReadWrapper(wrapper, can_read);
  if (!read.ok()) return read.status();
  Result<std::span<const std::byte>> image = Container(read->container, can_read);
  if (!image.ok()) return image.status();
  std::vector<std::span<const std::byte>> objects;
  for (const void* at : read->objects) {
    Result<std::span<const std::byte>> object = Container(at, can_read);
    if (!object.ok()) return object.status();
    objects.push_back(*object);
  }
  record->image = *image;
  record->objects = std::move(objects);
  return Status::Ok();
}

}  // namespace

FunctionRecord NewKernel(const FatbinRecord& fatbin, std::string name) {
  return {&fatbin, std::move(name), nullptr, reinterpret_cast<const void*>(NextHandle())};
}

Registry& Registry::Get() {
  // Never destroyed: programs unregister among their last actions.
  static auto* const registry = new Registry;
  return *registry;
}

FatbinRecord* Registry::AddFatbin(const void* wrapper) {
  auto found = std::make_shared<FatbinRecord>();
  if (const Status status = FindImages(wrapper, found.get(), fatbin::Trusted); !status.ok()) {
    LogError("device code of the program cannot be read: {}; its kernels cannot be launched",
             status.message());
  }
  return Add(std::move(found));
}

FatbinRecord* Registry::Add(std::shared_ptr<FatbinRecord> record) {
  record->module = NextHandle();
  FatbinRecord* const added = record.get();
  const WriterLock lock(mutex_);
  fatbins_.emplace(added, std::move(record));
  return added;
}

Result<FatbinRecord*> Registry::AddImage(const void* image, bool preserved) {
  auto found = std::make_shared<FatbinRecord>();
  if (fatbin::KindOf(image, IsReadable) == fatbin::ImageKind::kWrapper) {
    CUSPAN_RETURN_IF_ERROR(FindImages(image, found.get(), IsReadable));
  } else {
    Result<std::uint64_t> bytes = fatbin::ImageBytes(image, IsReadable);
    if (!bytes.ok()) return bytes.status();
    found->image = {static_cast<const std::byte*>(image), *bytes};
  }
  if (preserved) return Add(std::move(found));
  return AddImage(found->objects.empty()
                      ? LargeBytes(found->image)
                      : LargeBytes(fatbin::WithObjects(found->image, found->objects)));
}

FatbinRecord* Registry::AddImage(LargeBytes image) {
  auto record = std::make_shared<FatbinRecord>();
  record->owned = std::move(image);
  record->image = record->owned.all();
  return Add(std::move(record));
}

void Registry::ForgetImages(FatbinRecord& fatbin) {
  fatbin.image = {};
  fatbin.objects.clear();
  fatbin.owned = {};
}

std::shared_ptr<FatbinRecord> Registry::RemoveFatbin(const FatbinRecord* fatbin) {
  const WriterLock lock(mutex_);
  const auto known = fatbins_.find(fatbin);
  if (known == fatbins_.end()) return nullptr;
  std::shared_ptr<FatbinRecord> removed = std::move(known->second);
  fatbins_.erase(known);
  // Frees the images now: a graph may keep the record of a kernel for long.
  ForgetImages(*removed);
  version_.fetch_add(1, std::memory_order_release);
  for (const FunctionRecord& function : removed->functions) {
    Erase(functions_by_key_, function.host, function);
    Erase(functions_by_key_, function.handle, function);
  }
  for (const VariableRecord& variable : removed->variables)
    Erase(variables_by_host_, variable.host, variable);
  return removed;
}

void Registry::SetUnsupported(FatbinRecord* fatbin, std::string why) {
  const WriterLock lock(mutex_);
  if (fatbin->unsupported.empty()) fatbin->unsupported = std::move(why);
  version_.fetch_add(1, std::memory_order_release);
}

FunctionRecord* Registry::AddFunction(FatbinRecord* fatbin, const void* host, const char* name) {
  std::list<FunctionRecord> kernel;
  FunctionRecord& record = kernel.emplace_back(NewKernel(*fatbin, name));
  record.host = host;
  const WriterLock lock(mutex_);
  functions_by_key_[host] = &record;
  Enter(*fatbin, std::move(kernel));
  return &record;
}

void Registry::AddKernels(FatbinRecord* fatbin, std::list<FunctionRecord> kernels) {
  const WriterLock lock(mutex_);
  Enter(*fatbin, std::move(kernels));
}

void Registry::Enter(FatbinRecord& fatbin, std::list<FunctionRecord> kernels) {
  version_.fetch_add(1, std::memory_order_release);
  for (const FunctionRecord& kernel : kernels) functions_by_key_[kernel.handle] = &kernel;
  fatbin.functions.splice(fatbin.functions.end(), kernels);
}

VariableRecord* Registry::AddVariable(FatbinRecord* fatbin, const void* host, const char* name,
                                      std::size_t bytes, bool constant) {
  const WriterLock lock(mutex_);
  VariableRecord& record =
      fatbin->variables.emplace_back(VariableRecord{fatbin, name, host, bytes, constant});
  variables_by_host_[host] = &record;
  return &record;
}

void** Registry::AddManaged(FatbinRecord* fatbin, void** host, const char* name) {
  const WriterLock lock(mutex_);
  ManagedRecord& record = fatbin->managed.emplace_back(ManagedRecord{fatbin, name, host});
  if (host == nullptr) record.host = &record.place;
  return record.host;
}

std::vector<const ManagedRecord*> Registry::ManagedOf(const FatbinRecord& fatbin) const {
  const ReaderLock lock(mutex_);
  std::vector<const ManagedRecord*> found;
  for (const ManagedRecord& record : fatbin.managed) found.push_back(&record);
  return found;
}

const FunctionRecord* Registry::FindFunction(const void* key) const {
  const ReaderLock lock(mutex_);
  const auto known = functions_by_key_.find(key);
  return known == functions_by_key_.end() ? nullptr : known->second;
}

const VariableRecord* Registry::FindVariable(const void* host) const {
  const ReaderLock lock(mutex_);
  const auto known = variables_by_host_.find(host);
  return known == variables_by_host_.end() ? nullptr : known->second;
}

}  // namespace cuspan
