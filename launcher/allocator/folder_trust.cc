#include "launcher/allocator/folder_trust.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <sstream>

namespace cuspan {

UserNamespace UserNamespace::OfThisProcess() {
  UserNamespace users;
  // See user_namespaces(7). A kernel without them lacks this file.
  if (std::ifstream map("/proc/self/uid_map"); map)
    users.uid_map.assign(std::istreambuf_iterator<char>(map), std::istreambuf_iterator<char>());
  if (std::ifstream number("/proc/sys/kernel/overflowuid"); number) number >> users.overflow;
  return users;
}

bool UserNamespace::HidesRoot() const {
  // Lines of "FIRST_INSIDE FIRST_OUTSIDE COUNT". FIRST_OUTSIDE of root is 0. In a container this
  // may be the container's own root, and no folder is trusted wrongly.
  std::istringstream map(uid_map);
  std::uint64_t inside = 0;
  std::uint64_t outside = 0;
  std::uint64_t count = 0;
  while (map >> inside >> outside >> count)
    if (outside == 0 && count > 0) return false;
  return true;
}

bool HasTrustedOwner(std::string_view path, uid_t owner, uid_t user, const UserNamespace& users) {
  if (owner == user && !(users.HidesRoot() && owner == users.overflow)) return true;
  if (!users.HidesRoot()) return owner == 0;
  // Root of this namespace is some user outside, or not mapped.
  if (owner == 0) return true;
  return owner == users.overflow &&
         std::find(kFoldersOfRoot.begin(), kFoldersOfRoot.end(), path) != kFoldersOfRoot.end();
}

}  // namespace cuspan
