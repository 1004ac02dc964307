#include "common/host_clock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

namespace cuspan {
namespace {

TEST(HostClock, OffsetsAreRead) {
  constexpr const char* kOffsets =
      "monotonic      172800         5\nboottime           -3       500\n";
  EXPECT_EQ(NamespaceOffset(kOffsets, "monotonic"), 172'800'000'000'005);
  EXPECT_EQ(NamespaceOffset(kOffsets, "boottime"), -2'999'999'500);
  EXPECT_EQ(NamespaceOffset("monotonic           0         0\n", "monotonic"), 0);
  EXPECT_EQ(NamespaceOffset("", "monotonic"), 0);
  EXPECT_EQ(NamespaceOffset("monotonic", "monotonic"), 0);
}

// The clock caches its offset. The first call is in the child, inside the namespace.
TEST(HostClock, IsTheHostsInATimeNamespace) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  timespec before{};
  ::clock_gettime(CLOCK_MONOTONIC, &before);
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr char kOffset[] = "monotonic 100000 0";
    const int offsets =
        ::unshare(CLONE_NEWTIME) == 0 ? ::open("/proc/self/timens_offsets", O_WRONLY) : -1;
    if (offsets < 0 || ::write(offsets, kOffset, std::strlen(kOffset)) < 0) ::_exit(77);
    const pid_t inside = ::fork();
    if (inside == 0) {
      const std::uint64_t now = HostMonotonicNow();
      ::_exit(::write(ends[1], &now, sizeof now) == sizeof now ? 0 : 1);
    }
    int status = 0;
    ::waitpid(inside, &status, 0);
    ::_exit(WEXITSTATUS(status));
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ::close(ends[1]);
  timespec after{};
  ::clock_gettime(CLOCK_MONOTONIC, &after);
  std::uint64_t now = 0;
  const ssize_t got = ::read(ends[0], &now, sizeof now);
  ::close(ends[0]);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no time namespace can be made here";
  ASSERT_EQ(got, static_cast<ssize_t>(sizeof now));
  EXPECT_GE(now / 1'000'000'000, static_cast<std::uint64_t>(before.tv_sec));
  EXPECT_LE(now / 1'000'000'000, static_cast<std::uint64_t>(after.tv_sec) + 1);
}

}  // namespace
}  // namespace cuspan
