// A folder of lock files that several users share, such as /tmp: what is safe there, and what the
// kernel gives back when a process dies.
//
// A lock is flock(2) on a file of a known name, had by one alone or shared by several. Others may
// have put anything under that name: links are not followed, nothing but a regular file with one
// name is accepted, and a lock counts only if, once it is had, the name still means the locked
// file. Nothing is ever read from such a file to decide something. Any user who can read a lock
// file can lock it, and keep a GPU from others: that can not be prevented here; messages say whose
// file it is.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "common/unique_fd.h"

namespace cuspan {

// One thread.
class LockFolder {
 public:
  enum class Mode { kExclusive, kShared };

  // kRefused unless others can not remove our files: its owner is root or this user
  // (folder_trust.h), and where others may write it is sticky.
  static Result<LockFolder> Open(const std::string& path);

  // The lock on a file, had now; nothing when another has it, unless both share it. The file is
  // made if `create`, else kNotFound. kRefused when something else lies there, kExhausted when the
  // folder is full.
  Result<std::optional<UniqueFd>> TryLock(const std::string& name, bool create,
                                          Mode mode = Mode::kExclusive);
  // A new file with this content, locked before others can open it. kInvalid when the name is
  // taken.
  Result<UniqueFd> CreateLocked(const std::string& name, const std::string& content);
  // Removes a file whose lock we have, if we may; one of another user stays, which harms nobody.
  // Whether it was removed.
  bool Remove(const std::string& name, const UniqueFd& locked);
  // Others may share this lock from now on.
  Status Share(const UniqueFd& locked);
  // Gives back a lock: the file goes with the last one who has it.
  void GiveBack(const std::string& name, UniqueFd locked);

  // Up to `most` names that start with `prefix`.
  Result<std::vector<std::string>> List(const std::string& prefix, std::size_t most) const;
  // Up to `most` bytes of a file as it lies there, and its owner. Untrusted.
  struct Found {
    UniqueFd fd;
    uid_t owner = 0;
    std::string content;
  };
  Result<Found> Read(const std::string& name, std::size_t most) const;
  // Replaces the content of a file that we made.
  Status Write(const std::string& name, const UniqueFd& file, const std::string& content);
  Status Rename(const std::string& from, const std::string& to);
  // For a message: the path of a file, the process that has its lock, and whose that is, as far as
  // the kernel tells (/proc/locks).
  std::string DescribeLock(const std::string& name) const;
  // The process that has the lock of a file; 0 if none has, or it is not known here.
  pid_t LockHolder(const std::string& name) const;

  const std::string& path() const { return path_; }

 private:
  LockFolder(std::string path, UniqueFd folder)
      : path_(std::move(path)), folder_(std::move(folder)) {}
  // What an errno means for the user.
  Status Explain(const char* what, const std::string& name, int error) const;
  Result<UniqueFd> OpenFile(const std::string& name, int flags) const;
  bool IsNow(const std::string& name, int fd) const;

  std::string path_;
  UniqueFd folder_;
};

// The name of a user, or "user N".
std::string UserName(uid_t user);

}  // namespace cuspan
