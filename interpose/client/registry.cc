#include "interpose/client/registry.h"

#include "common/log.h"
#include "interpose/client/handles.h"
#include "protocol/fatbin/fatbin.h"

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
    LogError("device code of the program can not be read: {}; its kernels can not be launched",
             status.message());
  }
  found.module = NextHandle();
  std::lock_guard lock(mutex_);
  return &fatbins_.emplace_back(std::move(found));
}

void Registry::RemoveFatbin(FatbinRecord* fatbin) {
  std::lock_guard lock(mutex_);
  fatbin->registered = false;
  version_.fetch_add(1, std::memory_order_release);
  // The addresses may belong to another library soon.
  std::erase_if(functions_by_key_,
                [&](const auto& entry) { return entry.second->fatbin == fatbin; });
  std::erase_if(variables_by_host_,
                [&](const auto& entry) { return entry.second->fatbin == fatbin; });
}

void Registry::SetUnsupported(FatbinRecord* fatbin, std::string why) {
  std::lock_guard lock(mutex_);
  if (fatbin->unsupported.empty()) fatbin->unsupported = std::move(why);
  version_.fetch_add(1, std::memory_order_release);
}

FunctionRecord* Registry::AddFunction(const FatbinRecord* fatbin, const void* host,
                                      const char* name) {
  std::lock_guard lock(mutex_);
  FunctionRecord& record = functions_.emplace_back(FunctionRecord{fatbin, name, host});
  functions_by_key_[host] = &record;
  version_.fetch_add(1, std::memory_order_release);
  functions_by_key_[&record] = &record;
  return &record;
}

VariableRecord* Registry::AddVariable(const FatbinRecord* fatbin, const void* host,
                                      const char* name, std::size_t bytes, bool constant) {
  std::lock_guard lock(mutex_);
  VariableRecord& record =
      variables_.emplace_back(VariableRecord{fatbin, name, host, bytes, constant});
  variables_by_host_[host] = &record;
  return &record;
}

void Registry::AddManaged(const FatbinRecord* fatbin, void** host, const char* name) {
  std::lock_guard lock(mutex_);
  managed_.emplace_back(ManagedRecord{fatbin, name, host});
}

std::vector<const ManagedRecord*> Registry::ManagedOf(const FatbinRecord& fatbin) const {
  std::shared_lock lock(mutex_);
  std::vector<const ManagedRecord*> found;
  for (const ManagedRecord& record : managed_)
    if (record.fatbin == &fatbin) found.push_back(&record);
  return found;
}

const FunctionRecord* Registry::FindFunction(const void* key) const {
  std::shared_lock lock(mutex_);
  const auto known = functions_by_key_.find(key);
  return known == functions_by_key_.end() ? nullptr : known->second;
}

const VariableRecord* Registry::FindVariable(const void* host) const {
  std::shared_lock lock(mutex_);
  const auto known = variables_by_host_.find(host);
  return known == variables_by_host_.end() ? nullptr : known->second;
}

}  // namespace cuspan
