#include "interpose/cufile/handles.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <optional>
#include <utility>
#include <vector>

#include "interpose/client/base/handles.h"
#include "interpose/client/session.h"

namespace cuspan::cufile {

std::shared_ptr<const ProgramFile> Handle::On(Session& session,
                                              const std::shared_ptr<ContextConnection>& connection,
                                              Outcome* outcome) {
  {
    const MutexLock lock(mutex_);
    if (const auto known = opened_.find(connection->number()); known != opened_.end())
      return known->second;
  }
  // Opening may take long: several threads may do it at the same time.
  Files& files = session.TableOf<Files>();
  std::shared_ptr<const ProgramFile> opened;
  const FileStatus status = files.Open(connection, bytes_.fd(), &opened);
  if (status.result != FileResult::kSuccess) {
    *outcome = Outcome::Of(status);
    return nullptr;
  }
  std::shared_ptr<const ProgramFile> unused;
  {
    const MutexLock lock(mutex_);
    const auto [entry, is_new] = opened_.try_emplace(connection->number(), opened);
    // After the context's end, Forget may be over.
    if (closed_ || connection->fault() != CUDA_SUCCESS) {
      if (is_new) opened_.erase(entry);
      unused = std::move(opened);
      *outcome = closed_ ? Outcome::Of(kHandleNotRegistered) : Outcome::Of(connection->fault());
    } else if (!is_new) {
      unused = std::exchange(opened, entry->second);
    }
  }
  if (unused != nullptr) static_cast<void>(files.Close(unused->handle));
  return opened;
}

void Handle::Close(Files& files) {
  std::map<std::uint64_t, std::shared_ptr<const ProgramFile>> ended;
  {
    const MutexLock lock(mutex_);
    closed_ = true;
    ended.swap(opened_);
  }
  for (const auto& [connection, file] : ended) static_cast<void>(files.Close(file->handle));
}

void Handle::Forget(std::uint64_t connection) {
  std::shared_ptr<const ProgramFile> ended;  // Ends without the lock.
  const MutexLock lock(mutex_);
  const auto known = opened_.find(connection);
  if (known == opened_.end()) return;
  ended = std::move(known->second);
  opened_.erase(known);
}

CallResult Handles::Register(int fd, std::uint64_t* handle) {
  struct stat facts {};
  const std::optional<FileBytes::Access> access = FileBytes::AccessOf(fd);
  if (!access || ::fstat(fd, &facts) != 0)
    return Refuse(kInvalidValue, "the descriptor is not open");
  if (!S_ISREG(facts.st_mode)) return Refuse(kInvalidFileType, "it is not a regular file");
  const int flags = ::fcntl(fd, F_GETFL);
  if ((flags & (O_APPEND | O_NONBLOCK | O_PATH)) != 0)
    return Refuse(kInvalidFileOpenFlag, "O_APPEND, O_NONBLOCK and O_PATH are not supported");
  const Handle::Identity identity{fd, facts.st_dev, facts.st_ino};
  const MutexLock lock(mutex_);
  for (const auto& [number, known] : handles_)
    if (known->identity() == identity)
      return Refuse(kHandleAlreadyRegistered, "the descriptor is registered already");
  // The program may close its own before the file is opened for a device. (Closing a duplicate ends
  // the process's locks on the file.)
  UniqueFd own = AnotherDescriptor(fd);
  if (!own.valid()) return Refuse(kNewDescriptorFailed, "the process has no descriptor left");
  auto made = std::make_shared<Handle>(NextHandle(), FileBytes(std::move(own), *access), identity);
  *handle = made->number();
  handles_.emplace(made->number(), std::move(made));
  return {};
}

std::shared_ptr<Handle> Handles::Find(std::uint64_t handle) const {
  const MutexLock lock(mutex_);
  const auto known = handles_.find(handle);
  return known == handles_.end() ? nullptr : known->second;
}

std::shared_ptr<Handle> Handles::Take(std::uint64_t handle) {
  const MutexLock lock(mutex_);
  auto known = handles_.extract(handle);
  return known.empty() ? nullptr : std::move(known.mapped());
}

void Handles::CloseAll(Files& files) {
  std::unordered_map<std::uint64_t, std::shared_ptr<Handle>> ended;
  {
    const MutexLock lock(mutex_);
    ended.swap(handles_);
  }
  for (const auto& [number, handle] : ended) handle->Close(files);
}

void Handles::Forget(const ContextConnection& ended) {
  std::vector<std::shared_ptr<Handle>> all;
  {
    const MutexLock lock(mutex_);
    for (const auto& [number, handle] : handles_) all.push_back(handle);
  }
  for (const auto& handle : all) handle->Forget(ended.number());
}

}  // namespace cuspan::cufile
