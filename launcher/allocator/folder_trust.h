// Check of folders for lock files: no other user may be able to remove or replace a file there.
#pragma once

#include <sys/types.h>

#include <array>
#include <string>
#include <string_view>

namespace cuspan {

// User namespace of a process. Default: the initial one, with a distinct number for each user.
struct UserNamespace {
  std::string uid_map = "0 0 4294967295";  // Content of /proc/self/uid_map.
  uid_t overflow = 65534;                  // Number of all users not mapped (overflowuid).

  static UserNamespace OfThisProcess();
  // True if files of root appear as the overflow user's.
  bool HidesRoot() const;
};

// Folders created by root on every system: those of the Filesystem Hierarchy Standard, and Linux's
// shared memory.
inline constexpr std::array<std::string_view, 4> kFoldersOfRoot = {"/tmp", "/var/tmp", "/dev/shm",
                                                                   "/run/lock"};

// True if the owner of the folder is root or `user`. In a user namespace without root, such as a
// rootless container, root's folders and other users' appear under the overflow user. There only
// kFoldersOfRoot are trusted; `path` has no links.
bool HasTrustedOwner(std::string_view path, uid_t owner, uid_t user, const UserNamespace& users);

}  // namespace cuspan
