#include "interpose/client/memory/mirrored_range.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

namespace cuspan {
namespace {

constexpr std::uint64_t kBase = 0x7000'0000;
constexpr std::size_t kBlock = MirroredRange::kBlockBytes;
using Spans = MirroredRange::Spans;
using Bytes = std::vector<std::byte>;

// A managed range of zeros. The program has the valid copy of its blocks.
class Ranges : public testing::Test {
 protected:
  static constexpr std::size_t kBlocks = 4;
  Bytes here_ = Bytes(kBlocks * kBlock);
  MirroredRange range_{{kBase, here_.size()}, here_.data(), true, false};

  void Write(std::size_t at, int value) {
    here_[at] = std::byte(value);
    range_.states().Written(at / kBlock);
  }
  // Copies `spans` to a device's replica.
  void Send(const Spans& spans, Bytes* device) {
    for (const auto& span : spans)
      std::memcpy(device->data() + span.base, here_.data() + span.base, span.bytes);
  }
  // Takes all blocks written by the program.
  Spans TakeAll() {
    Spans spans;
    for (std::size_t block = 0; block < kBlocks; ++block)
      if (range_.states().dirty(block)) range_.CollectWritten(block, false, &spans);
    return spans;
  }
};

TEST_F(Ranges, WhatWasNotWrittenIsNotSent) {
  range_.states().Written(1);
  Spans spans;
  EXPECT_FALSE(range_.CollectWritten(1, false, &spans));
  EXPECT_TRUE(spans.empty());
  EXPECT_FALSE(range_.states().dirty(1));
}

TEST_F(Ranges, BytesBetweenGoAlongWhereItIsKnownWhatDevicesHave) {
  Write(100, 1);
  Write(700, 1);
  Write(10'000, 1);
  const Spans spans = TakeAll();
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_LE(spans[0].base, 100U);
  EXPECT_GT(spans[0].base + spans[0].bytes, 700U);
  Bytes device(here_.size());
  Send(spans, &device);
  EXPECT_EQ(device, here_);
}

TEST_F(Ranges, NothingButWhatTheProgramWroteIsSentWhileADeviceWorks) {
  range_.states().DeviceRuns();
  range_.states().Fetched(0, true);
  Write(100, 1);
  Write(102, 1);
  const Spans spans = TakeAll();
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(spans[0].base, 100U);
  EXPECT_EQ(spans[0].bytes, 1U);
  EXPECT_EQ(spans[1].base, 102U);
  EXPECT_EQ(spans[1].bytes, 1U);
}

TEST_F(Ranges, NewsOfADeviceLeaveWhatTheProgramWrote) {
  Bytes device(here_.size());
  range_.states().DeviceRuns();
  Write(kBlock + 5, 7);
  device[kBlock + 6] = std::byte{8};
  Spans spans;
  const PageStates::Run changed = range_.Merge(0, device, &spans);
  EXPECT_EQ(changed, (PageStates::Run{1, 1}));
  ASSERT_EQ(spans.size(), 1U);
  EXPECT_EQ(spans[0].base, kBlock + 6);
  EXPECT_EQ(here_[kBlock + 5], std::byte{7});
  EXPECT_EQ(here_[kBlock + 6], std::byte{8});
  Send(TakeAll(), &device);
  EXPECT_EQ(device, here_);
}

TEST_F(Ranges, APartIsMergedWhereItLies) {
  Bytes part(3 * kBlock / 2, std::byte{5});
  const PageStates::Run changed = range_.Merge(kBlock / 2, part, nullptr);
  EXPECT_EQ(changed, (PageStates::Run{0, 2}));
  EXPECT_EQ(here_[kBlock / 2 - 1], std::byte{0});
  EXPECT_EQ(here_[kBlock / 2], std::byte{5});
  EXPECT_EQ(here_[2 * kBlock - 1], std::byte{5});
  EXPECT_EQ(here_[2 * kBlock], std::byte{0});
}

TEST_F(Ranges, StoresThatAreSentByThemselvesAreNoNews) {
  Bytes device(here_.size());
  const Bytes stored(4, std::byte{7});
  EXPECT_FALSE(range_.HasUpdates(0, device));
  range_.Stored(kBlock + 8, stored);
  EXPECT_EQ(here_[kBlock + 8], std::byte{7});
  EXPECT_TRUE(range_.HasUpdates(0, device)) << "the device does not have them yet";
  std::copy(stored.begin(), stored.end(), device.begin() + kBlock + 8);
  EXPECT_FALSE(range_.HasUpdates(0, device));
  device[kBlock + 9] = std::byte{8};
  EXPECT_TRUE(range_.HasUpdates(0, device));
  // An unsent byte differs from the twin.
  here_[kBlock + 20] = std::byte{9};
  EXPECT_EQ(range_.Merge(0, device, nullptr, true), (PageStates::Run{1, 1}));
  EXPECT_EQ(here_[kBlock + 9], std::byte{8});
  EXPECT_EQ(here_[kBlock + 20], std::byte{9});
}

TEST_F(Ranges, AChangeLeavesThoseBehindThatAreNotTold) {
  range_.AddReplica(1);
  range_.AddReplica(2);
  range_.Changed({1, 2}, std::vector<std::uint64_t>{2});
  EXPECT_EQ(range_.FindReplica(1)->current, (std::vector<bool>{true, false, false, true}));
  EXPECT_EQ(range_.FindReplica(2)->current, (std::vector<bool>{true, true, true, true}));
  range_.AddReplica(3);
  EXPECT_EQ(range_.FindReplica(3)->current, (std::vector<bool>{true, false, false, true}))
      << "a new one has zeros";
  EXPECT_EQ(range_.FindReplica(4), nullptr);
}

TEST_F(Ranges, AllOfABlockIsTakenThatNobodyElseWrites) {
  range_.AddReplica(1);
  range_.Written({1, 2}, true);
  here_[kBlock] = std::byte{1};
  const Spans spans = TakeAll();
  ASSERT_EQ(spans.size(), 1U);
  EXPECT_EQ(spans[0].base, kBlock);
  EXPECT_EQ(spans[0].bytes, 2 * kBlock);
  // Now there is a second writer.
  range_.Written({1, 1}, false);
  here_[kBlock + 1] = std::byte{2};
  const Spans next = TakeAll();
  ASSERT_EQ(next.size(), 1U);
  EXPECT_LE(next[0].bytes, 64U);
}

TEST_F(Ranges, WhatWasStoredIsWhatAllAgreeOn) {
  range_.AddReplica(1);
  here_[5] = std::byte{5};
  range_.Stored({0, 1});
  range_.Written({0, 1}, false);
  here_[kBlock - 1] = std::byte{6};
  const Spans spans = TakeAll();
  ASSERT_EQ(spans.size(), 1U);
  EXPECT_GT(spans[0].base, 5U);
  range_.AddReplica(2);
  EXPECT_FALSE(range_.FindReplica(2)->current[0]);
}

TEST_F(Ranges, ADeviceHasNoNewsForABlockThatIsTakenAsAWhole) {
  range_.AddReplica(1);
  range_.Written({0, 1}, true);
  here_[5] = std::byte{5};
  Bytes device(here_.size(), std::byte{9});
  range_.Merge(0, std::span(device).first(2 * kBlock), nullptr);
  EXPECT_EQ(here_[5], std::byte{5});
  EXPECT_EQ(here_[6], std::byte{0});
  EXPECT_EQ(here_[kBlock], std::byte{9});
}

TEST(MirroredRange, BlocksAreSmallWhereSmallPiecesLie) {
  Bytes here(4 * kBlock);
  MirroredRange small({kBase, here.size()}, here.data(), false, false);
  EXPECT_EQ(small.block_bytes(), MirroredRange::kSmallBlockBytes);
  EXPECT_EQ(small.blocks() * small.block_bytes(), here.size());
  const PageStates::Run run = small.BlocksOf(kBase + 4095, 2);
  EXPECT_EQ(run, (PageStates::Run{0, 2}));
  EXPECT_EQ(small.RangeOf(run).base, kBase);
  EXPECT_EQ(small.RangeOf(run).bytes, 2U * 4096);
  EXPECT_EQ(small.BlocksOf(kBase + 4096, 0), (PageStates::Run{1, 1}));
  EXPECT_EQ(small.BlocksOf(kBase + here.size() - 1, 1000), (PageStates::Run{63, 1}))
      << "as far as they are there";
  MirroredRange managed({kBase, here.size()}, here.data(), true, false);
  EXPECT_EQ(managed.block_bytes(), kBlock);
}

TEST(MirroredRange, OfPageLockedMemoryAllThatIsThereIsNews) {
  Bytes here(2 * kBlock);
  here[kBlock + 3] = std::byte{1};
  MirroredRange range({kBase, here.size()}, here.data(), false, false);
  Spans spans;
  const std::size_t written = range.BlocksOf(kBase + kBlock + 3, 1).first;
  for (std::size_t block = 0; block < range.blocks(); ++block)
    EXPECT_EQ(range.CollectWritten(block, false, &spans), block == written);
  EXPECT_EQ(spans.size(), 1U);
}

// The program and two devices write different bytes of the same blocks. Their changes are exchanged
// in any order.
TEST_F(Ranges, AllAgreeInTheEnd) {
  std::mt19937 random(1);
  const auto below = [&](std::size_t bound) {
    return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random);
  };
  Bytes devices[2] = {Bytes(here_.size()), Bytes(here_.size())};
  Bytes expected(here_.size());
  range_.states().DeviceRuns();
  const auto push = [&] {
    const Spans spans = TakeAll();
    for (Bytes& device : devices) Send(spans, &device);
  };
  const auto fetch = [&](int from) {
    const std::size_t begin = below(here_.size());
    const std::size_t bytes = 1 + below(here_.size() - begin);
    Spans spans;
    range_.Merge(begin, std::span(devices[from]).subspan(begin, bytes), &spans);
    Send(spans, &devices[1 - from]);
  };
  for (int step = 0; step < 3000; ++step) {
    const std::size_t at = below(here_.size() / 3) * 3;
    const int value = static_cast<int>(below(256));
    switch (below(6)) {
      case 0:
      case 1:
        Write(at, value);
        expected[at] = std::byte(value);
        break;
      case 2:
      case 3: {
        const std::size_t device = below(2);
        devices[device][at + 1 + device] = std::byte(value);
        expected[at + 1 + device] = std::byte(value);
        break;
      }
      case 4:
        push();
        break;
      case 5:
        fetch(static_cast<int>(below(2)));
        break;
    }
  }
  push();
  for (int device : {0, 1}) {
    Spans spans;
    range_.Merge(0, devices[device], &spans);
    Send(spans, &devices[1 - device]);
  }
  EXPECT_EQ(here_, expected);
  EXPECT_EQ(devices[0], expected);
  EXPECT_EQ(devices[1], expected);
}

}  // namespace
}  // namespace cuspan
