#include "interpose/client/memory/block_allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace cuspan {

// Found by argument-dependent lookup.
static bool operator==(const BlockAllocator::Range& a, const BlockAllocator::Range& b) {
  return a.base == b.base && a.bytes == b.bytes;
}
static void PrintTo(const BlockAllocator::Range& range, std::ostream* out) {
  *out << std::hex << range.base << " + " << range.bytes << std::dec;
}

namespace {

using Range = BlockAllocator::Range;

constexpr std::uint64_t kUnit = BlockAllocator::kAlignment;
constexpr std::uint64_t kBase = 0x180000000000;
constexpr std::uint64_t kWindow = 4096 * kUnit;

// Returns an allocator with one segment of `units` units at the window's start.
BlockAllocator WithSegment(std::uint64_t units) {
  BlockAllocator allocator(kBase, kWindow);
  allocator.AddSegment({kBase, units * kUnit});
  return allocator;
}

TEST(BlockAllocator, HasNothingWithoutASegment) {
  BlockAllocator allocator(kBase, kWindow);
  EXPECT_FALSE(allocator.Allocate(1));
  EXPECT_FALSE(allocator.Find(kBase));
  EXPECT_FALSE(allocator.Segment(kBase));
  EXPECT_FALSE(allocator.Free(kBase));
  EXPECT_EQ(allocator.free_bytes(), 0U);
  EXPECT_TRUE(allocator.EmptySegments().empty());
}

// cudaMalloc: "suitably aligned for any kind of variable"; textures ask for 512 bytes.
TEST(BlockAllocator, BlocksAreAligned) {
  BlockAllocator allocator = WithSegment(100);
  for (const std::uint64_t bytes :
       {std::uint64_t{1}, kUnit - 1, kUnit, kUnit + 1, std::uint64_t{3}}) {
    const auto block = allocator.Allocate(bytes);
    ASSERT_TRUE(block);
    EXPECT_EQ(*block % kUnit, 0U);
  }
}

TEST(BlockAllocator, FindKnowsTheSizeThatWasAskedFor) {
  BlockAllocator allocator = WithSegment(10);
  const auto first = allocator.Allocate(1000);
  const auto second = allocator.Allocate(1);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(allocator.Find(*first), (Range{*first, 1000}));
  EXPECT_EQ(allocator.Find(*first + 999), (Range{*first, 1000}));
  EXPECT_FALSE(allocator.Find(*first + 1000)) << "rounding is not the caller's";
  EXPECT_EQ(allocator.Find(*second), (Range{*second, 1}));
  EXPECT_FALSE(allocator.Find(*second + 1));
  EXPECT_FALSE(allocator.Find(kBase - 1));
  EXPECT_FALSE(allocator.Find(0));
  EXPECT_FALSE(allocator.Find(~std::uint64_t{0}));
}

TEST(BlockAllocator, UsedInGoesFromTheFirstBlockToTheLast) {
  BlockAllocator allocator = WithSegment(10);
  const auto used = [&](std::uint64_t from, std::uint64_t bytes) {
    const BlockAllocator::Range range = allocator.UsedIn({kBase + from, bytes});
    return std::pair(range.base - kBase, range.bytes);
  };
  EXPECT_EQ(used(0, 10 * kUnit).second, 0U);
  const auto first = allocator.Allocate(kUnit);
  const auto second = allocator.Allocate(2 * kUnit);
  const auto third = allocator.Allocate(5);
  ASSERT_EQ(first, kBase);
  ASSERT_EQ(second, kBase + kUnit);
  ASSERT_EQ(third, kBase + 3 * kUnit);
  EXPECT_EQ(used(0, 10 * kUnit), std::pair(0UL, 3 * kUnit + 5));
  EXPECT_EQ(used(kUnit + 7, 10), std::pair(kUnit + 7, 10UL)) << "in the middle of one";
  EXPECT_EQ(used(3 * kUnit + 5, kUnit).second, 0U) << "behind the last";
  ASSERT_TRUE(allocator.Free(*second));
  EXPECT_EQ(used(kUnit, 2 * kUnit).second, 0U);
  EXPECT_EQ(used(kUnit, 9 * kUnit), std::pair(3 * kUnit, 5UL));
  EXPECT_EQ(used(7, 9 * kUnit), std::pair(7UL, 3 * kUnit - 2));
}

TEST(BlockAllocator, FreeTakesTheStartOfABlockAndNothingElse) {
  BlockAllocator allocator = WithSegment(10);
  const auto block = allocator.Allocate(2 * kUnit);
  ASSERT_TRUE(block);
  EXPECT_FALSE(allocator.Free(*block + 1));
  EXPECT_FALSE(allocator.Free(*block + kUnit));
  EXPECT_FALSE(allocator.Free(*block + 2 * kUnit));
  EXPECT_TRUE(allocator.Free(*block));
  EXPECT_FALSE(allocator.Free(*block)) << "twice";
  EXPECT_FALSE(allocator.Find(*block));
  EXPECT_EQ(allocator.used_blocks(), 0U);
}

TEST(BlockAllocator, TakesTheBestFittingHole) {
  BlockAllocator allocator = WithSegment(100);
  std::vector<std::uint64_t> blocks;
  for (const std::uint64_t units : {8, 1, 3, 1, 5, 1})
    blocks.push_back(*allocator.Allocate(units * kUnit));
  for (const std::size_t hole : {0, 2, 4}) EXPECT_TRUE(allocator.Free(blocks[hole]));
  EXPECT_EQ(allocator.Allocate(3 * kUnit), blocks[2]);
  EXPECT_EQ(allocator.Allocate(4 * kUnit), blocks[4]);
  EXPECT_EQ(allocator.Allocate(6 * kUnit), blocks[0]);
}

TEST(BlockAllocator, JoinsFreeNeighboursWhateverTheOrder) {
  std::vector<std::size_t> order{0, 1, 2, 3};
  do {
    BlockAllocator allocator = WithSegment(4);
    std::vector<std::uint64_t> blocks;
    for (int i = 0; i < 4; ++i) blocks.push_back(*allocator.Allocate(kUnit));
    EXPECT_FALSE(allocator.Allocate(1));
    for (const std::size_t i : order) EXPECT_TRUE(allocator.Free(blocks[i]));
    EXPECT_TRUE(allocator.Allocate(4 * kUnit)) << "it is one hole again";
  } while (std::next_permutation(order.begin(), order.end()));
}

// A segment may be returned to the driver separately, so no block may span two.
TEST(BlockAllocator, NeverJoinsAcrossSegments) {
  BlockAllocator allocator(kBase, kWindow);
  allocator.AddSegment({kBase, 2 * kUnit});
  allocator.AddSegment({kBase + 2 * kUnit, 2 * kUnit});
  EXPECT_FALSE(allocator.Allocate(3 * kUnit));
  std::vector<std::uint64_t> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(*allocator.Allocate(kUnit));
  for (const std::uint64_t block : blocks) EXPECT_TRUE(allocator.Free(block));
  EXPECT_FALSE(allocator.Allocate(3 * kUnit));
  EXPECT_EQ(allocator.EmptySegments().size(), 2U);
  allocator.RemoveSegment(kBase);
  EXPECT_EQ(allocator.EmptySegments(), (std::vector<Range>{{kBase + 2 * kUnit, 2 * kUnit}}));
  EXPECT_EQ(allocator.free_bytes(), 2 * kUnit);
  const auto block = allocator.Allocate(2 * kUnit);
  EXPECT_EQ(block, kBase + 2 * kUnit);
}

TEST(BlockAllocator, KnowsItsSegments) {
  BlockAllocator allocator(kBase, kWindow);
  allocator.AddSegment({kBase + 4 * kUnit, 2 * kUnit});
  EXPECT_FALSE(allocator.Segment(kBase + 4 * kUnit - 1));
  EXPECT_EQ(allocator.Segment(kBase + 4 * kUnit), (Range{kBase + 4 * kUnit, 2 * kUnit}));
  EXPECT_EQ(allocator.Segment(kBase + 6 * kUnit - 1), (Range{kBase + 4 * kUnit, 2 * kUnit}));
  EXPECT_FALSE(allocator.Segment(kBase + 6 * kUnit));
  EXPECT_EQ(allocator.EmptySegments().size(), 1U);
  const auto block = allocator.Allocate(1);
  EXPECT_TRUE(allocator.EmptySegments().empty());
  EXPECT_TRUE(allocator.Free(*block));
  EXPECT_EQ(allocator.EmptySegments().size(), 1U);
}

TEST(BlockAllocator, PlacesSegmentsInTheLowestGap) {
  BlockAllocator allocator(kBase, 10 * kUnit);
  EXPECT_EQ(allocator.PlaceSegment(10 * kUnit), kBase);
  EXPECT_FALSE(allocator.PlaceSegment(10 * kUnit + 1));
  EXPECT_FALSE(allocator.PlaceSegment(~std::uint64_t{0}));
  allocator.AddSegment({kBase + kUnit, 2 * kUnit});  // 1 … 3
  allocator.AddSegment({kBase + 6 * kUnit, kUnit});  // 6
  EXPECT_EQ(allocator.PlaceSegment(kUnit), kBase);
  EXPECT_EQ(allocator.PlaceSegment(2 * kUnit), kBase + 3 * kUnit);
  EXPECT_EQ(allocator.PlaceSegment(3 * kUnit), kBase + 3 * kUnit);
  EXPECT_FALSE(allocator.PlaceSegment(4 * kUnit));
  allocator.RemoveSegment(kBase + 6 * kUnit);
  EXPECT_EQ(allocator.PlaceSegment(4 * kUnit), kBase + 3 * kUnit);
}

TEST(BlockAllocator, RefusesSizesThatWrapAround) {
  BlockAllocator allocator = WithSegment(10);
  for (const std::uint64_t bytes :
       {~std::uint64_t{0}, ~std::uint64_t{0} - kUnit + 2, kWindow + 1, 11 * kUnit})
    EXPECT_FALSE(allocator.Allocate(bytes)) << bytes;
  EXPECT_EQ(allocator.free_bytes(), 10 * kUnit);
}

// --- Comparison with an obviously correct model: the state of each unit of the window

class Model {
 public:
  static constexpr std::uint64_t kUnits = kWindow / kUnit;

  Model() : unit_(kUnits, kNoSegment) {}

  void AddSegment(Range segment) { Fill(segment, kFree); }
  void RemoveSegment(Range segment) { Fill(segment, kNoSegment); }
  bool AllFree(Range range) const { return All(range, kFree); }
  bool NoSegment(Range range) const { return All(range, kNoSegment); }
  void Take(Range block) { Fill(block, kUsed); }
  void Give(Range block) { Fill(block, kFree); }

  std::uint64_t FreeBytes() const {
    return static_cast<std::uint64_t>(std::count(unit_.begin(), unit_.end(), kFree)) * kUnit;
  }

  // Sizes of all holes. A hole ends at the border of its segment.
  std::vector<std::uint64_t> Holes(const std::vector<Range>& segments) const {
    std::vector<std::uint64_t> holes;
    for (const Range& segment : segments) {
      std::uint64_t hole = 0;
      for (std::uint64_t i = 0; i < segment.bytes / kUnit; ++i) {
        if (unit_[Index(segment.base) + i] == kFree) {
          hole += kUnit;
        } else if (hole != 0) {
          holes.push_back(hole);
          hole = 0;
        }
      }
      if (hole != 0) holes.push_back(hole);
    }
    return holes;
  }

  static std::uint64_t RoundUp(std::uint64_t bytes) { return (bytes + kUnit - 1) / kUnit * kUnit; }

 private:
  enum State : char { kNoSegment, kFree, kUsed };

  static std::size_t Index(std::uint64_t address) { return (address - kBase) / kUnit; }
  void Fill(Range range, State state) {
    std::fill_n(unit_.begin() + static_cast<std::ptrdiff_t>(Index(range.base)),
                RoundUp(range.bytes) / kUnit, state);
  }
  bool All(Range range, State state) const {
    if (range.base < kBase || range.base + RoundUp(range.bytes) > kBase + kWindow) return false;
    const auto first = unit_.begin() + static_cast<std::ptrdiff_t>(Index(range.base));
    return std::all_of(first, first + static_cast<std::ptrdiff_t>(RoundUp(range.bytes) / kUnit),
                       [state](State unit) { return unit == state; });
  }

  std::vector<State> unit_;
};

class RandomUse {
 public:
  explicit RandomUse(std::uint64_t seed) : random_(seed) {}

  void Step() {
    switch (random_() % 10) {
      case 0:
        AddSegment();
        break;
      case 1:
        RemoveSegment();
        break;
      case 2:
      case 3:
      case 4:
      case 5:
        Allocate();
        break;
      case 6:
        FreeNonsense();
        break;
      default:
        Free();
        break;
    }
    ASSERT_EQ(allocator_.free_bytes(), model_.FreeBytes());
    ASSERT_EQ(allocator_.used_blocks(), blocks_.size());
    Look();
  }

 private:
  void AddSegment() {
    const std::uint64_t bytes = (random_() % 600 + 1) * kUnit;
    const auto place = allocator_.PlaceSegment(bytes);
    // The lowest gap, if any.
    std::optional<std::uint64_t> expected;
    for (std::uint64_t i = 0; i < Model::kUnits && !expected; ++i)
      if (model_.NoSegment({kBase + i * kUnit, bytes})) expected = kBase + i * kUnit;
    ASSERT_EQ(place, expected);
    if (!place) return;
    allocator_.AddSegment({*place, bytes});
    model_.AddSegment({*place, bytes});
    segments_.push_back({*place, bytes});
  }

  void RemoveSegment() {
    std::vector<Range> expected;
    for (const Range& segment : segments_)
      if (model_.AllFree(segment)) expected.push_back(segment);
    std::sort(expected.begin(), expected.end(),
              [](const Range& a, const Range& b) { return a.base < b.base; });
    std::vector<Range> empty = allocator_.EmptySegments();
    std::sort(empty.begin(), empty.end(),
              [](const Range& a, const Range& b) { return a.base < b.base; });
    ASSERT_EQ(empty, expected);
    if (empty.empty()) return;
    const Range gone = empty[random_() % empty.size()];
    allocator_.RemoveSegment(gone.base);
    model_.RemoveSegment(gone);
    std::erase(segments_, gone);
  }

  void Allocate() {
    const std::uint64_t bytes = random_() % (random_() % 4 == 0 ? 200 * kUnit : 5 * kUnit) + 1;
    const std::uint64_t rounded = Model::RoundUp(bytes);
    std::optional<std::uint64_t> best;  // The smallest sufficient hole.
    for (const std::uint64_t hole : model_.Holes(segments_))
      if (hole >= rounded && (!best || hole < *best)) best = hole;
    const auto block = allocator_.Allocate(bytes);
    ASSERT_EQ(block.has_value(), best.has_value()) << bytes;
    if (!block) return;
    ASSERT_EQ(*block % kUnit, 0U);
    ASSERT_TRUE(model_.AllFree({*block, bytes})) << "overlaps another block, or lies outside";
    const auto segment = allocator_.Segment(*block);
    ASSERT_TRUE(segment);
    ASSERT_LE(*block + rounded, segment->base + segment->bytes);
    const std::size_t holes_before = CountHoles(*best);
    model_.Take({*block, bytes});
    ASSERT_EQ(CountHoles(*best), holes_before - 1) << "not cut from a best fitting hole";
    blocks_.push_back({*block, bytes});
  }

  std::size_t CountHoles(std::uint64_t bytes) const {
    const std::vector<std::uint64_t> holes = model_.Holes(segments_);
    return static_cast<std::size_t>(std::count(holes.begin(), holes.end(), bytes));
  }

  void Free() {
    if (blocks_.empty()) return;
    const std::size_t i = random_() % blocks_.size();
    ASSERT_TRUE(allocator_.Free(blocks_[i].base));
    model_.Give(blocks_[i]);
    blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(i));
  }

  void FreeNonsense() {
    const std::uint64_t address = kBase + random_() % kWindow;
    if (std::any_of(blocks_.begin(), blocks_.end(),
                    [address](const Range& block) { return block.base == address; }))
      return;
    ASSERT_FALSE(allocator_.Free(address));
  }

  void Look() {
    const std::uint64_t address =
        blocks_.empty() || random_() % 4 == 0
            ? kBase + random_() % kWindow
            : blocks_[random_() % blocks_.size()].base + random_() % (6 * kUnit);
    std::optional<Range> expected;
    for (const Range& block : blocks_)
      if (address >= block.base && address - block.base < block.bytes) expected = block;
    ASSERT_EQ(allocator_.Find(address), expected);
    std::optional<Range> expected_segment;
    for (const Range& segment : segments_)
      if (address >= segment.base && address - segment.base < segment.bytes)
        expected_segment = segment;
    ASSERT_EQ(allocator_.Segment(address), expected_segment);
  }

  std::mt19937_64 random_;
  BlockAllocator allocator_{kBase, kWindow};
  Model model_;
  std::vector<Range> segments_;
  std::vector<Range> blocks_;
};

TEST(BlockAllocator, DoesAsTheModelDoes) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(seed);
    RandomUse use(seed);
    for (int step = 0; step < 3000; ++step) {
      use.Step();
      ASSERT_FALSE(testing::Test::HasFailure()) << "at step " << step;
    }
  }
}

TEST(BlockAllocator, TakenSegmentsAreOneBlock) {
  constexpr std::uint64_t kPiece = 1 << 20;
  BlockAllocator allocator(kPiece, 4 * kPiece);
  allocator.AddTaken({kPiece, kPiece});
  EXPECT_EQ(allocator.free_bytes(), 0u);
  EXPECT_FALSE(allocator.Allocate(1));
  EXPECT_TRUE(allocator.EmptySegments().empty());
  ASSERT_TRUE(allocator.Find(kPiece + 5));
  EXPECT_EQ(allocator.Find(kPiece + 5)->bytes, kPiece);
  EXPECT_EQ(allocator.PlaceSegment(kPiece), 2 * kPiece);
  allocator.RemoveTaken(kPiece);
  EXPECT_FALSE(allocator.Find(kPiece + 5));
  EXPECT_EQ(allocator.PlaceSegment(kPiece), kPiece);
}

}  // namespace
}  // namespace cuspan
