// A folder of lock files shared by several users, such as /tmp, and rules for its safe use.
//
// A lock is flock(2) on a file of a known name, exclusive or shared; the kernel releases it when
// its process dies. Other users may have created anything under the name. Therefore links are not
// followed, and only a regular file with one name is accepted. After locking, the name must still
// refer to the locked file. No decision depends on the content of a lock file.
//
// Any user able to read a lock file can lock it and so keep a GPU from others. This cannot be
// prevented here; messages name the owner of the file.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "common/unique_fd.h"

namespace cuspan {

// Threads: one.
class LockFolder {
 public:
  enum class Mode { kExclusive, kShared };

  // kRefused if other users could remove our files: the owner must be root or this user
  // (folder_trust.h), and a folder writable by others must be sticky.
  static Result<LockFolder> Open(const std::string& path);

  // Locks a file without blocking. Empty if another process holds the lock, unless both share it.
  // If the file is missing, it is created if `create`, else kNotFound. kRefused if the file is not
  // a lock file, kExhausted if the folder is full.
  Result<std::optional<UniqueFd>> TryLock(const std::string& name, bool create,
                                          Mode mode = Mode::kExclusive);
  // Creates a file with this content, locked before others can open it. kInvalid if the name
  // exists.
  Result<UniqueFd> CreateLocked(const std::string& name, const std::string& content);
  // Removes a file locked by this process, if permitted. Another user's file stays, without harm.
  // True if it was removed.
  bool Remove(const std::string& name, const UniqueFd& locked);
  // Changes an exclusive lock to a shared one.
  Status Share(const UniqueFd& locked);
  // Releases a lock; the last holder removes the file.
  void GiveBack(const std::string& name, UniqueFd locked);

  // Up to `most` names with this prefix.
  Result<std::vector<std::string>> List(const std::string& prefix, std::size_t most) const;
  // Up to `most` bytes of a file, and its owner. Untrusted.
  struct Found {
    UniqueFd fd;
    uid_t owner = 0;
    std::string content;
  };
  Result<Found> Read(const std::string& name, std::size_t most) const;
  // Replaces the content of a file created by this process.
  Status Write(const std::string& name, const UniqueFd& file, const std::string& content);
  Status Rename(const std::string& from, const std::string& to);
  // Text for a message: the path of a file, the process holding its lock, and the owner of this
  // process, as far as known from /proc/locks.
  std::string DescribeLock(const std::string& name) const;
  // The process holding the lock of a file; 0 if there is none or it is not visible here.
  pid_t LockHolder(const std::string& name) const;

  const std::string& path() const { return path_; }

 private:
  LockFolder(std::string path, UniqueFd folder)
      : path_(std::move(path)), folder_(std::move(folder)) {}
  // Error with an explanation of errno for the user.
  Status Explain(const char* what, const std::string& name, int error) const;
  Result<UniqueFd> OpenFile(const std::string& name, int flags) const;
  bool IsNow(const std::string& name, int fd) const;

  std::string path_;
  UniqueFd folder_;
};

// Name of a user, or "user N".
std::string UserName(uid_t user);

}  // namespace cuspan
