#include "interpose/client/registry.h"

#include "common/log.h"
#include "interpose/client/handles.h"
#include "protocol/fatbin/fatbin.h"

namespace cuspan {
namespace {

// The container behind nvcc's wrapper, or nothing when there is none that we understand.
Result<std::span<const std::byte>> FindImage(const void* wrapper) {
  Result<fatbin::Wrapper> read = fatbin::ReadWrapper(wrapper);
  if (!read.ok()) return read.status();
  Result<std::uint64_t> bytes = fatbin::ContainerBytes(read->container);
  if (!bytes.ok()) return bytes.status();
  return std::span(static_cast<const std::byte*>(read->container), *bytes);
}

}  // namespace

Registry& Registry::Get() {
  // Never destroyed: unregistration is among the last things a program does.
  static auto* const registry = new Registry;
  return *registry;
}

FatbinRecord* Registry::AddFatbin(const void* wrapper) {
  Result<std::span<const std::byte>> image = FindImage(wrapper);
  if (!image.ok()) {
    LogError("device code of the program can not be read: {}; its kernels can not be launched",
             image.status().message());
  }
  std::lock_guard lock(mutex_);
  FatbinRecord& record = fatbins_.emplace_back();
  record.module = NextHandle();
  if (image.ok()) record.image = *image;
  return &record;
}

void Registry::RemoveFatbin(FatbinRecord* fatbin) {
  std::lock_guard lock(mutex_);
  fatbin->registered = false;
  // The addresses may belong to another library soon.
  std::erase_if(functions_by_key_,
                [&](const auto& entry) { return entry.second->fatbin == fatbin; });
  std::erase_if(variables_by_host_,
                [&](const auto& entry) { return entry.second->fatbin == fatbin; });
}

void Registry::SetUnsupported(FatbinRecord* fatbin, std::string why) {
  std::lock_guard lock(mutex_);
  if (fatbin->unsupported.empty()) fatbin->unsupported = std::move(why);
}

FunctionRecord* Registry::AddFunction(const FatbinRecord* fatbin, const void* host,
                                      const char* name) {
  std::lock_guard lock(mutex_);
  FunctionRecord& record = functions_.emplace_back(FunctionRecord{fatbin, name, host});
  functions_by_key_[host] = &record;
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
