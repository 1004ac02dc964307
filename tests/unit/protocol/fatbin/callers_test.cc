#include "protocol/fatbin/callers.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "protocol/fatbin/payload.h"
#include "tests/unit/protocol/fatbin/samples.h"

namespace cuspan::fatbin {
namespace {

constexpr std::string_view kPrint = "vprintf";

Callers CallersIn(std::span<const std::uint8_t> image) {
  return FindCallers(std::as_bytes(image), kPrint);
}
Callers CallersInText(std::string_view text) {
  return FindCallers(std::as_bytes(std::span(text)), kPrint);
}

TEST(CallersTest, ThereAreNoneWithoutTheFunction) {
  for (const char* sample : {"default", "size", "speed", "none", "debug", "many"}) {
    SCOPED_TRACE(sample);
    const Callers found = CallersIn(ReadSample(sample));
    EXPECT_FALSE(found.all);
    EXPECT_TRUE(found.kernels.empty());
  }
}

TEST(CallersTest, AreKnownByMachineCodeAndPtx) {
  const Callers found = CallersIn(ReadSample("prints"));
  EXPECT_TRUE(found.Include("Direct"));
  EXPECT_FALSE(found.Include("Silent"));
}

TEST(CallersTest, IncludeCallersThroughFunctionsAndPointers) {
  for (const char* sample : {"prints_code", "prints_debug", "prints_old", "prints_new"}) {
    SCOPED_TRACE(sample);
    const auto container = ReadSample(sample);
    const auto code = DecodePayload(Find(*ReadContainer(container), Kind::kElf));
    ASSERT_TRUE(code.ok());
    const Callers found = CallersIn(*code);
    for (const char* kernel : {"Direct", "Through", "ThroughPointer"})
      EXPECT_TRUE(found.Include(kernel)) << kernel;
    if (std::string_view(sample) != "prints_debug") {
      EXPECT_FALSE(found.Include("Silent"));
    }
  }
}

// Its callers are not known, so all kernels count.
TEST(CallersTest, AreAllIfAFunctionOfPtxCallsIt) {
  EXPECT_TRUE(CallersIn(ReadSample("prints_ptx")).all);
}

// The launched kernels may call it.
TEST(CallersTest, AreAllIfKernelsLaunchOthers) {
  EXPECT_TRUE(CallersIn(ReadSample("prints_launch")).all);
}

TEST(CallersTest, OfPtxAreTheKernelsWithTheName) {
  const Callers found = CallersInText(
      ".extern .func  (.param .b32 r) vprintf\n(\n.param .b64 a\n)\n;\n"
      ".visible .entry one(\n.param .u64 p\n)\n{\ncall.uni (r),\nvprintf,\n(p);\n}\n"
      ".visible .entry two()\n{\nret;\n}\n.entry three ()\n{ call vprintf, (p); }");
  EXPECT_FALSE(found.all);
  EXPECT_EQ(found.kernels, (std::set<std::string, std::less<>>{"one", "three"}));
  EXPECT_TRUE(CallersInText(".func f()\n{ call vprintf; }\n.entry k() { }").all);
  EXPECT_TRUE(CallersInText("vprintf").all);
  EXPECT_TRUE(CallersInText(".entry vprintf").all);
}

TEST(CallersTest, AreAllInCodeNotSearched) {
  EXPECT_TRUE(CallersIn(ReadSample("lto")).all);
  const std::vector<std::uint8_t> large(kMaxSearchedBytes + 1, '.');
  EXPECT_TRUE(CallersIn(large).all);
  EXPECT_FALSE(CallersIn(std::span(large).first(kMaxSearchedBytes)).all);
}

// Searching these would take too long, or too much stack because of their nesting.
TEST(CallersTest, AreAllBeyondTheLimitsOfSizeAndNesting) {
  const auto sample = ReadSample("none");
  const std::span<const std::byte> whole = std::as_bytes(std::span(sample));
  std::vector<std::byte> deep(whole.begin(), whole.end());
  for (int i = 0; i < 3; ++i) {
    const std::span<const std::byte> objects[] = {deep};
    deep = WithObjects(whole, objects);
  }
  EXPECT_TRUE(FindCallers(deep, kPrint).all);
  const std::vector<std::span<const std::byte>> many(2 * kMaxSearchedBytes / sample.size(), whole);
  EXPECT_TRUE(FindCallers(WithObjects(whole, many), kPrint).all);
}

TEST(CallersTest, AreFoundInObjects) {
  const auto linked = ReadSample("none");
  const auto quiet = ReadSample("size");
  const auto printing = ReadSample("prints");
  const auto lto = ReadSample("lto");
  const auto with = [&](std::span<const std::uint8_t> object) {
    const std::span<const std::byte> objects[] = {std::as_bytes(object)};
    return FindCallers(WithObjects(std::as_bytes(std::span(linked)), objects), kPrint);
  };
  EXPECT_TRUE(with(quiet).kernels.empty());
  EXPECT_FALSE(with(quiet).all);
  EXPECT_TRUE(with(printing).Include("Direct"));
  EXPECT_FALSE(with(printing).Include("Silent"));
  EXPECT_TRUE(with(lto).all);
}

// Damage may hide callers, but nothing outside the image is read.
TEST(CallersTest, DamagedMachineCodeIsReadWithinItsBounds) {
  const auto container = ReadSample("prints_code");
  const auto code = DecodePayload(Find(*ReadContainer(container), Kind::kElf));
  ASSERT_TRUE(code.ok());
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::uint8_t> damaged = *code;
    for (int k = 0; k < 4; ++k)
      damaged[random() % damaged.size()] = static_cast<std::uint8_t>(random());
    if (i % 4 == 0) damaged.resize(random() % damaged.size());
    CallersIn(damaged);
  }
}

}  // namespace
}  // namespace cuspan::fatbin
