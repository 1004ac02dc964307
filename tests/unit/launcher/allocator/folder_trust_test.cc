#include "launcher/allocator/folder_trust.h"

#include <gtest/gtest.h>

namespace cuspan {
namespace {

constexpr uid_t kUser = 1000, kStranger = 1001, kOverflow = 65534;

TEST(FolderTrust, IsInRootAndTheUser) {
  const UserNamespace first;
  EXPECT_FALSE(first.HidesRoot());
  EXPECT_TRUE(HasTrustedOwner("/srv/locks", 0, kUser, first));
  EXPECT_TRUE(HasTrustedOwner("/srv/locks", kUser, kUser, first));
  EXPECT_FALSE(HasTrustedOwner("/srv/locks", kStranger, kUser, first));
  // Here the overflow id is a real user.
  EXPECT_FALSE(HasTrustedOwner("/tmp", kOverflow, kUser, first));
}

TEST(FolderTrust, IsInTheSystemsFoldersWhereRootIsNotMapped) {
  for (const char* const map : {"1000 1000 1\n", "0 1000 1\n", "0 1000 1\n1 100000 65536\n", ""}) {
    const UserNamespace rootless{map, kOverflow};
    EXPECT_TRUE(rootless.HidesRoot()) << map;
    for (const char* const path : {"/tmp", "/var/tmp", "/dev/shm", "/run/lock"})
      EXPECT_TRUE(HasTrustedOwner(path, kOverflow, kUser, rootless)) << path;
    for (const char* const path : {"/tmp/locks", "/home/stranger/locks", "/srv", "/", ""})
      EXPECT_FALSE(HasTrustedOwner(path, kOverflow, kUser, rootless)) << path;
    EXPECT_TRUE(HasTrustedOwner("/srv/locks", kUser, kUser, rootless));
    EXPECT_FALSE(HasTrustedOwner("/tmp", kStranger, kUser, rootless));
  }
}

TEST(FolderTrust, IsNotInTheOverflowUserWhereRootIsMapped) {
  const UserNamespace mapped{"0 0 1\n", kOverflow};
  EXPECT_FALSE(mapped.HidesRoot());
  EXPECT_FALSE(HasTrustedOwner("/tmp", kOverflow, 0, mapped));
  EXPECT_TRUE(HasTrustedOwner("/tmp", 0, kUser, mapped));
}

TEST(FolderTrust, TheUserMayBeTheOverflowUser) {
  const UserNamespace rootless{"65534 65534 1\n", kOverflow};
  EXPECT_TRUE(HasTrustedOwner("/tmp", kOverflow, kOverflow, rootless));
  EXPECT_FALSE(HasTrustedOwner("/srv/locks", kOverflow, kOverflow, rootless));
}

}  // namespace
}  // namespace cuspan
