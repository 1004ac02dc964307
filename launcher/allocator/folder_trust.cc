#include "launcher/allocator/folder_trust.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <sstream>

namespace cuspan {

UserNamespace UserNamespace::OfThisProcess() {
  UserNamespace users;
  // user_namespaces(7); a kernel without them has no such file.
  if (std::ifstream map("/proc/self/uid_map"); map)
    users.uid_map.assign(std::istreambuf_iterator<char>(map), std::istreambuf_iterator<char>());
  if (std::ifstream number("/proc/sys/kernel/overflowuid"); number) number >> users.overflow;
  return users;
}

bool UserNamespace::HidesRoot() const {
  // "FIRST_INSIDE FIRST_OUTSIDE COUNT". Outside, root is 0; where that is a container's own root,
  // nobody's folder is trusted in vain.
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
  // Root of this namespace is somebody, or nobody.
  if (owner == 0) return true;
  return owner == users.overflow &&
         std::find(kFoldersOfRoot.begin(), kFoldersOfRoot.end(), path) != kFoldersOfRoot.end();
}

}  // namespace cuspan
