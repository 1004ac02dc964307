// Whose folders are safe for lock files: nobody else may remove or replace a file there.
#pragma once

#include <sys/types.h>

#include <array>
#include <string>
#include <string_view>

namespace cuspan {

// The user namespace of a process. Default: the first one, in which each user has its own number.
struct UserNamespace {
  std::string uid_map = "0 0 4294967295";  // As /proc/self/uid_map says it.
  uid_t overflow = 65534;  // The number of all users that are not mapped (overflowuid).

  static UserNamespace OfThisProcess();
  // True if a file of root's is seen as the overflow user's.
  bool HidesRoot() const;
};

// Folders that root makes on every system: of the Filesystem Hierarchy Standard, and Linux's shared
// memory.
inline constexpr std::array<std::string_view, 4> kFoldersOfRoot = {"/tmp", "/var/tmp", "/dev/shm",
                                                                   "/run/lock"};

// True if the owner of the folder is root or `user`. In a user namespace that does not map root, as
// in a rootless container, root's folders and those of strangers have one owner, the overflow user.
// There only kFoldersOfRoot count; `path` has no links.
bool HasTrustedOwner(std::string_view path, uid_t owner, uid_t user, const UserNamespace& users);

}  // namespace cuspan
