#include "common/shared_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cstring>
#include <utility>

namespace cuspan {
namespace {

constexpr std::size_t kPage = 4096;

UniqueFd Memory(std::size_t bytes) {
  Result<UniqueFd> fd = CreateSharedMemory("cuspan-test", bytes);
  EXPECT_TRUE(fd.ok()) << fd.status().message();
  return *std::move(fd);
}

// True if the page of `address` is mapped.
bool IsMapped(const std::byte* address) {
  unsigned char resident = 0;
  return ::mincore(const_cast<std::byte*>(address), kPage, &resident) == 0;
}

TEST(CreateSharedMemory, HasExactlyTheSizeAskedFor) {
  for (const std::size_t bytes : {std::size_t{1}, kPage, kPage + 1, 5 * kPage}) {
    const UniqueFd fd = Memory(bytes);
    struct stat information {};
    ASSERT_EQ(::fstat(fd.get(), &information), 0);
    EXPECT_EQ(static_cast<std::size_t>(information.st_size), bytes);
  }
}

// Without a check of ulimit -f the kernel would kill the process by a signal.
TEST(CreateSharedMemory, BeyondTheLimitOfFilesItIsAnError) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{4 * kPage, 4 * kPage};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const Result<UniqueFd> larger = CreateSharedMemory("cuspan-test", 4 * kPage + 1);
    const bool said = larger.status().code() == StatusCode::kExhausted &&
                      larger.status().message().find("ulimit -f") != std::string::npos;
    const bool as_large = CreateSharedMemory("cuspan-test", 4 * kPage).ok();
    ::_exit(said && as_large && LargestSharedMemory() == 4 * kPage ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(CreateSharedMemory, CanNotBeResized) {
  const UniqueFd fd = Memory(4 * kPage);
  EXPECT_NE(::ftruncate(fd.get(), kPage), 0);
  EXPECT_NE(::ftruncate(fd.get(), 8 * kPage), 0);
  EXPECT_NE(::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_WRITE), 0) << "the seals are final";
}

TEST(CreateSharedMemory, IsClosedOnExec) {
  const UniqueFd fd = Memory(kPage);
  EXPECT_TRUE((::fcntl(fd.get(), F_GETFD) & FD_CLOEXEC) != 0);
}

TEST(Mapping, OfTheSameMemoryShowsTheSameBytes) {
  const UniqueFd fd = Memory(2 * kPage);
  const Result<Mapping> whole = Mapping::Map(fd.get(), 0, 2 * kPage);
  const Result<Mapping> second_page = Mapping::Map(fd.get(), kPage, kPage);
  ASSERT_TRUE(whole.ok() && second_page.ok());
  EXPECT_EQ(whole->size(), 2 * kPage);
  EXPECT_EQ(second_page->size(), kPage);
  whole->data()[kPage + 7] = std::byte{42};
  EXPECT_EQ(second_page->data()[7], std::byte{42});
}

TEST(Mapping, IsSharedWithOtherProcesses) {
  const UniqueFd fd = Memory(kPage);
  const Result<Mapping> mapping = Mapping::Map(fd.get(), 0, kPage);
  ASSERT_TRUE(mapping.ok());
  const pid_t child = ::fork();
  if (child == 0) {
    mapping->data()[0] = std::byte{9};
    ::_exit(0);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(mapping->data()[0], std::byte{9});
}

TEST(Mapping, OutlivesItsDescriptor) {
  UniqueFd fd = Memory(kPage);
  const Result<Mapping> mapping = Mapping::Map(fd.get(), 0, kPage);
  ASSERT_TRUE(mapping.ok());
  fd.Reset();
  mapping->data()[0] = std::byte{1};
  EXPECT_EQ(mapping->data()[0], std::byte{1});
}

TEST(Mapping, FailsWhenTheMemoryIsShorter) {
  const UniqueFd fd = Memory(2 * kPage);
  EXPECT_FALSE(Mapping::Map(fd.get(), 0, 2 * kPage + 1).ok());
  EXPECT_FALSE(Mapping::Map(fd.get(), kPage, 2 * kPage).ok());
  EXPECT_FALSE(Mapping::Map(fd.get(), 4 * kPage, kPage).ok());
  EXPECT_FALSE(Mapping::MapTwice(fd.get(), 0, 3 * kPage).ok());
}

// Sizes received from a peer may have a sum wrapping around.
TEST(Mapping, FailsWhenOffsetAndLengthWrapAround) {
  const UniqueFd fd = Memory(2 * kPage);
  EXPECT_FALSE(Mapping::Map(fd.get(), ~std::size_t{0} - kPage + 1, 2 * kPage).ok());
  EXPECT_FALSE(Mapping::Map(fd.get(), kPage, ~std::size_t{0} - kPage + 1).ok());
  EXPECT_FALSE(Mapping::MapTwice(fd.get(), ~std::size_t{0} - kPage + 1, 2 * kPage).ok());
}

TEST(Mapping, FailsForWhatIsNoMemory) {
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_FALSE(Mapping::Map(null.get(), 0, kPage).ok());
  EXPECT_FALSE(Mapping::Map(-1, 0, kPage).ok());
}

// A peer could shorten it later, and accesses would fault.
TEST(Mapping, RefusesMemoryThatCanBeShortened) {
  const UniqueFd open(::memfd_create("cuspan-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(open.get(), 2 * kPage), 0);
  EXPECT_FALSE(Mapping::Map(open.get(), 0, kPage).ok());
  EXPECT_FALSE(Mapping::MapTwice(open.get(), 0, kPage).ok());
}

TEST(Mapping, EndsWithItsOwner) {
  const UniqueFd fd = Memory(kPage);
  std::byte* data = nullptr;
  {
    Result<Mapping> mapping = Mapping::Map(fd.get(), 0, kPage);
    ASSERT_TRUE(mapping.ok());
    data = mapping->data();
    Mapping moved = *std::move(mapping);
    EXPECT_EQ(mapping->data(), nullptr);  // NOLINT(bugprone-use-after-move): what is tested
    EXPECT_EQ(moved.data(), data);
    EXPECT_TRUE(IsMapped(data));
  }
  EXPECT_FALSE(IsMapped(data));
}

TEST(Mapping, MapTwiceContinuesAtTheStart) {
  const UniqueFd fd = Memory(3 * kPage);
  const Result<Mapping> twice = Mapping::MapTwice(fd.get(), kPage, 2 * kPage);
  ASSERT_TRUE(twice.ok());
  ASSERT_EQ(twice->size(), 4 * kPage);
  constexpr char kText[] = "over the end";
  std::byte* over_the_end = twice->data() + 2 * kPage - 4;
  std::memcpy(over_the_end, kText, sizeof kText);
  EXPECT_EQ(std::memcmp(twice->data(), kText + 4, sizeof kText - 4), 0);
  // It is the requested range.
  const Result<Mapping> plain = Mapping::Map(fd.get(), kPage, 2 * kPage);
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(std::memcmp(plain->data() + 2 * kPage - 4, kText, 4), 0);
}

}  // namespace
}  // namespace cuspan
