// Tests attaching to other memory, and to channels with a wrong header.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <random>

#include "tests/unit/protocol/channel/ends.h"

namespace cuspan {
namespace {

// Start of a channel's memory; the rest is private to Channel.
struct Prefix {
  std::uint64_t magic;
  ChannelLayout layout;
};

Prefix PrefixOf(int fd) {
  Prefix prefix;
  EXPECT_EQ(::pread(fd, &prefix, sizeof prefix, 0), static_cast<ssize_t>(sizeof prefix));
  return prefix;
}

std::size_t SizeOf(int fd) { return static_cast<std::size_t>(::lseek(fd, 0, SEEK_END)); }

// Memory of a valid channel.
UniqueFd GoodMemory() { return *Channel::Create(kSmallLayout); }

// Memory of `bytes` starting with `prefix`.
UniqueFd MemoryWith(const Prefix& prefix, std::size_t bytes) {
  UniqueFd fd = *CreateSharedMemory("cuspan-test", bytes);
  EXPECT_EQ(::pwrite(fd.get(), &prefix, std::min(sizeof prefix, bytes), 0),
            static_cast<ssize_t>(std::min(sizeof prefix, bytes)));
  return fd;
}

Status Attach(UniqueFd fd) {
  Bell own = NewBell();
  Result<std::unique_ptr<Channel>> channel =
      Channel::Attach(std::move(fd), ChannelSide::kProxy, &own, NewBell());
  return channel.status();
}

TEST(ChannelAttach, TakesAGoodOne) {
  const UniqueFd memory = GoodMemory();
  EXPECT_TRUE(Attach(AnotherFd(memory.get())).ok());
  EXPECT_TRUE(Attach(MemoryWith(PrefixOf(memory.get()), SizeOf(memory.get()))).ok());
}

TEST(ChannelAttach, RefusesWhatIsNoMemory) {
  EXPECT_FALSE(Attach(UniqueFd()).ok());
  EXPECT_FALSE(Attach(UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC))).ok());
  EXPECT_FALSE(Attach(UniqueFd(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC))).ok());
}

TEST(ChannelAttach, RefusesMemoryOfZeros) {
  const UniqueFd memory = GoodMemory();
  EXPECT_EQ(Attach(*CreateSharedMemory("cuspan-test", SizeOf(memory.get()))).code(),
            StatusCode::kInvalid);
}

TEST(ChannelAttach, RefusesMemoryThatIsCutShort) {
  const UniqueFd memory = GoodMemory();
  const Prefix prefix = PrefixOf(memory.get());
  const std::size_t whole = SizeOf(memory.get());
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, sizeof prefix, std::size_t{4096},
                                  whole / 2, whole - 4096, whole - 1}) {
    EXPECT_EQ(Attach(MemoryWith(prefix, bytes)).code(), StatusCode::kInvalid)
        << bytes << " of " << whole;
  }
}

TEST(ChannelAttach, RefusesMemoryThatItsMakerCouldCutShort) {
  const UniqueFd memory = GoodMemory();
  const Prefix prefix = PrefixOf(memory.get());
  UniqueFd unsealed(::memfd_create("cuspan-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(unsealed.get(), static_cast<off_t>(SizeOf(memory.get()))), 0);
  ASSERT_EQ(::pwrite(unsealed.get(), &prefix, sizeof prefix, 0),
            static_cast<ssize_t>(sizeof prefix));
  EXPECT_EQ(Attach(std::move(unsealed)).code(), StatusCode::kInvalid);
}

TEST(ChannelAttach, RefusesAnotherMagic) {
  const UniqueFd memory = GoodMemory();
  for (int bit = 0; bit < 64; ++bit) {
    Prefix prefix = PrefixOf(memory.get());
    prefix.magic ^= std::uint64_t{1} << bit;
    EXPECT_EQ(Attach(MemoryWith(prefix, SizeOf(memory.get()))).code(), StatusCode::kInvalid);
  }
}

const ChannelLayout kImpossible[] = {
    {0, 4, 4096},              // no ring
    {1, 4, 4096},              // too small for a frame
    {1024, 4, 4096},           // too small for two of the largest
    {2047, 4, 4096},           // not a power of two
    {3072, 4, 4096},           //
    {1U << 31, 4, 4096},       // 128 GiB
    {2048, 0, 4096},           // no slot
    {2048, 65, 4096},          // more than the bits of a word
    {2048, ~0U, 4096},         //
    {2048, 4, 0},              // empty slots
    {2048, 4, 4095},           // not a whole page
    {2048, 4, 4097},           //
    {2048, 64, 1ULL << 58},    // 64 × this is 2^64: the sum wraps around
    {2048, 64, ~0ULL - 4095},  //
    {2048, 2, 1ULL << 63},     //
};

TEST(ChannelAttach, RefusesImpossibleLayouts) {
  const UniqueFd memory = GoodMemory();
  for (const ChannelLayout& layout : kImpossible) {
    Prefix prefix = PrefixOf(memory.get());
    prefix.layout = layout;
    const Status status = Attach(MemoryWith(prefix, SizeOf(memory.get())));
    EXPECT_EQ(status.code(), StatusCode::kInvalid)
        << layout.ring_slots << " " << layout.staging_slots << " " << layout.staging_bytes;
    EXPECT_FALSE(status.message().empty());
  }
}

TEST(ChannelCreate, RefusesImpossibleLayouts) {
  for (const ChannelLayout& layout : kImpossible) {
    EXPECT_EQ(Channel::Create(layout).status().code(), StatusCode::kInvalid)
        << layout.ring_slots << " " << layout.staging_slots << " " << layout.staging_bytes;
  }
}

TEST(ChannelAttach, SurvivesRandomLayouts) {
  const UniqueFd memory = GoodMemory();
  const std::uint64_t magic = PrefixOf(memory.get()).magic;
  std::mt19937_64 random(50);
  for (int round = 0; round < 2000; ++round) {
    Prefix prefix;
    prefix.magic = magic;
    prefix.layout.ring_slots =
        random() % 2 == 0 ? 1U << random() % 32 : static_cast<std::uint32_t>(random());
    prefix.layout.staging_slots =
        static_cast<std::uint32_t>(random() % 2 == 0 ? random() % 70 : random());
    prefix.layout.staging_bytes = random() % 2 == 0 ? std::uint64_t{1} << random() % 64 : random();
    const Status status = Attach(MemoryWith(prefix, SizeOf(memory.get())));
    if (!status.ok()) continue;
    // Accepted layouts fit the memory.
    EXPECT_LE(2 * (prefix.layout.ring_slots * kSlotBytes +
                   prefix.layout.staging_slots * prefix.layout.staging_bytes),
              SizeOf(memory.get()));
  }
}

}  // namespace
}  // namespace cuspan
