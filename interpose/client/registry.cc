#include "interpose/client/registry.h"

#include "common/log.h"
#include "interpose/client/handles.h"
#include "protocol/fatbin/fatbin.h"
#include "protocol/fatbin/image.h"

namespace cuspan {
namespace {

Result<std::span<const std::byte>> Container(const void* at) {
  Result<std::uint64_t> bytes = fatbin::ContainerBytes(at);
  if (!bytes.ok()) return bytes.status();
  return std::span(static_cast<const std::byte*>(at), *bytes);
}

// Finds the containers behind nvcc's wrapper, if there are some that we understand.
Status FindImages(const void* wrapper, FatbinRecord* record) {
  Result<fatbin::Wrapper> read = fatbin::ReadWrapper(wrapper);
  if (!read.ok()) return read.status();
  Result<std::span<const std::byte>> image = Container(read->container);
  if (!image.ok()) return image.status();
  std::vector<std::span<const std::byte>> objects;
  for (const void* at : read->objects) {
    Result<std::span<const std::byte>> object = Container(at);
    if (!object.ok()) return object.status();
    objects.push_back(*object);
  }
  record->image = *image;
  record->objects = std::move(objects);
  return Status::Ok();
}

}  // namespace

Registry& Registry::Get() {
  // Never destroyed: unregistration is among the last things a program does.
  static auto* const registry = new Registry;
  return *registry;
}

FatbinRecord* Registry::AddFatbin(const void* wrapper) {
  FatbinRecord found{};
  if (const Status status = FindImages(wrapper, &found); !status.ok()) {
    LogError("device code of the program cannot be read: {}; its kernels cannot be launched",
             status.message());
  }
  return Add(std::move(found));
}

FatbinRecord* Registry::Add(FatbinRecord record) {
  record.module = NextHandle();
  const WriterLock lock(mutex_);
  return &fatbins_.emplace_back(std::move(record));
}

Result<FatbinRecord*> Registry::AddImage(const void* image, bool preserved) {
  FatbinRecord found{};
  if (fatbin::KindOf(image) == fatbin::ImageKind::kWrapper) {
    CUSPAN_RETURN_IF_ERROR(FindImages(image, &found));
  } else {
    Result<std::uint64_t> bytes = fatbin::ImageBytes(image);
    if (!bytes.ok()) return bytes.status();
    found.image = {static_cast<const std::byte*>(image), *bytes};
  }
  if (preserved) return Add(std::move(found));
  return AddImage(found.objects.empty()
                      ? std::vector<std::byte>(found.image.begin(), found.image.end())
                      : fatbin::WithObjects(found.image, found.objects));
}

FatbinRecord* Registry::AddImage(std::vector<std::byte> image) {
  FatbinRecord record{};
  record.owned = std::move(image);
  record.image = record.owned;  // Moving the record does not move the bytes.
  return Add(std::move(record));
}

void Registry::RemoveFatbin(FatbinRecord* fatbin) {
  const WriterLock lock(mutex_);
  fatbin->registered = false;
  fatbin->image = {};
  fatbin->objects = {};
  fatbin->owned = {};
  version_.fetch_add(1, std::memory_order_release);
  // The addresses may belong to another library soon, or do already.
  const auto erase = [fatbin](auto& records, const void* key) {
    const auto known = records.find(key);
    if (known != records.end() && known->second->fatbin == fatbin) records.erase(known);
  };
  const auto keys = keys_.extract(fatbin);
  if (keys.empty()) return;
  for (const void* key : keys.mapped().functions) erase(functions_by_key_, key);
  for (const void* key : keys.mapped().variables) erase(variables_by_host_, key);
}

void Registry::Enter(const void* key, const FunctionRecord& record) {
  functions_by_key_[key] = &record;
  keys_[record.fatbin].functions.push_back(key);
}

void Registry::SetUnsupported(FatbinRecord* fatbin, std::string why) {
  const WriterLock lock(mutex_);
  if (fatbin->unsupported.empty()) fatbin->unsupported = std::move(why);
  version_.fetch_add(1, std::memory_order_release);
}

FunctionRecord* Registry::AddFunction(const FatbinRecord* fatbin, const void* host,
                                      const char* name) {
  const WriterLock lock(mutex_);
  FunctionRecord& record = functions_.emplace_back(FunctionRecord{fatbin, name, host});
  version_.fetch_add(1, std::memory_order_release);
  Enter(host, record);
  Enter(&record, record);
  return &record;
}

VariableRecord* Registry::AddVariable(const FatbinRecord* fatbin, const void* host,
                                      const char* name, std::size_t bytes, bool constant) {
  const WriterLock lock(mutex_);
  VariableRecord& record =
      variables_.emplace_back(VariableRecord{fatbin, name, host, bytes, constant});
  variables_by_host_[host] = &record;
  keys_[fatbin].variables.push_back(host);
  return &record;
}

void** Registry::AddManaged(const FatbinRecord* fatbin, void** host, const char* name) {
  const WriterLock lock(mutex_);
  ManagedRecord& record = managed_.emplace_back(ManagedRecord{fatbin, name, host});
  if (host == nullptr) record.host = &record.place;
  return record.host;
}

std::vector<const ManagedRecord*> Registry::ManagedOf(const FatbinRecord& fatbin) const {
  const ReaderLock lock(mutex_);
  std::vector<const ManagedRecord*> found;
  for (const ManagedRecord& record : managed_)
    if (record.fatbin == &fatbin) found.push_back(&record);
  return found;
}

void Registry::AddKernel(const FunctionRecord& record) {
  const WriterLock lock(mutex_);
  version_.fetch_add(1, std::memory_order_release);
  Enter(&record, record);
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
