#include "common/unique_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <utility>

namespace cuspan {
namespace {

bool IsOpen(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }
int OpenSomething() { return ::open("/dev/null", O_RDWR | O_CLOEXEC); }

TEST(UniqueFd, IsInvalidByDefault) {
  const UniqueFd none;
  EXPECT_FALSE(none.valid());
  EXPECT_LT(none.get(), 0);
}

TEST(UniqueFd, ClosesAtItsEnd) {
  const int number = OpenSomething();
  {
    const UniqueFd owner(number);
    EXPECT_TRUE(owner.valid());
    EXPECT_EQ(owner.get(), number);
    EXPECT_TRUE(IsOpen(number));
  }
  EXPECT_FALSE(IsOpen(number));
}

TEST(UniqueFd, ZeroIsAValidDescriptor) {
  UniqueFd owner(0);
  EXPECT_TRUE(owner.valid());
  EXPECT_EQ(owner.Release(), 0);
}

TEST(UniqueFd, MovingLeavesOneOwner) {
  const int number = OpenSomething();
  UniqueFd first(number);
  UniqueFd second(std::move(first));
  EXPECT_FALSE(first.valid());  // NOLINT(bugprone-use-after-move): what is tested
  EXPECT_EQ(second.get(), number);
  EXPECT_TRUE(IsOpen(number));
}

TEST(UniqueFd, AssigningClosesWhatWasThere) {
  const int old_number = OpenSomething();
  const int new_number = OpenSomething();
  UniqueFd owner(old_number);
  owner = UniqueFd(new_number);
  EXPECT_FALSE(IsOpen(old_number));
  EXPECT_EQ(owner.get(), new_number);
  EXPECT_TRUE(IsOpen(new_number));
}

TEST(UniqueFd, AssigningToItselfKeepsTheDescriptor) {
  const int number = OpenSomething();
  UniqueFd owner(number);
  UniqueFd& same = owner;
  owner = std::move(same);
  EXPECT_EQ(owner.get(), number);
  EXPECT_TRUE(IsOpen(number));
}

TEST(UniqueFd, ReleaseHandsTheDescriptorOver) {
  const int number = OpenSomething();
  int released = -1;
  {
    UniqueFd owner(number);
    released = owner.Release();
    EXPECT_FALSE(owner.valid());
  }
  EXPECT_EQ(released, number);
  EXPECT_TRUE(IsOpen(number));
  ::close(number);
}

TEST(UniqueFd, ResetClosesAndTakes) {
  const int old_number = OpenSomething();
  const int new_number = OpenSomething();
  UniqueFd owner(old_number);
  owner.Reset(new_number);
  EXPECT_FALSE(IsOpen(old_number));
  EXPECT_TRUE(IsOpen(new_number));
  owner.Reset();
  EXPECT_FALSE(owner.valid());
  EXPECT_FALSE(IsOpen(new_number));
}

}  // namespace
}  // namespace cuspan
