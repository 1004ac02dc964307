// Tests functions called by kernels by name: printf, assert, malloc, free, clocks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>

#include "proxy/softgpu/rt/printf.h"
#include "tests/unit/proxy/softgpu/driver/kernel_harness.h"

namespace cuspan::softgpu {
namespace {

// Packs arguments like nvcc: each at its natural alignment.
class ArgumentBuffer {
 public:
  template <typename T>
  ArgumentBuffer& Add(T value) {
    bytes_.resize((bytes_.size() + sizeof(T) - 1) / sizeof(T) * sizeof(T) + sizeof(T));
    std::memcpy(bytes_.data() + bytes_.size() - sizeof(T), &value, sizeof(T));
    return *this;
  }
  std::string Format(const char* format, int* count = nullptr) const {
    std::string text;
    const int result = FormatDevicePrintf(format, bytes_.data(), &text);
    if (count != nullptr) *count = result;
    return text;
  }

 private:
  std::vector<std::uint8_t> bytes_;
};

TEST(PrintfTest, FormatsAsTheHostDoes) {
  ArgumentBuffer buffer;
  buffer.Add<std::int32_t>(-7).Add<double>(2.5).Add<const char*>("word").Add<std::int32_t>('x');
  buffer.Add<std::int64_t>(-1234567890123);
  int count = 0;
  EXPECT_EQ(buffer.Format("%d|%8.3f|%s|%c|%lld\n", &count), "-7|   2.500|word|x|-1234567890123\n");
  EXPECT_EQ(count, 5);
}

TEST(PrintfTest, KnowsFlagsWidthsAndLengths) {
  EXPECT_EQ(ArgumentBuffer().Add<std::int32_t>(5).Format("%+05d"), "+0005");
  EXPECT_EQ(ArgumentBuffer().Add<std::int32_t>(255).Format("%#x"), "0xff");
  EXPECT_EQ(ArgumentBuffer().Add<std::int32_t>(-1).Format("%u"), "4294967295");
  EXPECT_EQ(ArgumentBuffer().Add<std::int32_t>(-1).Format("%x"), "ffffffff");
  EXPECT_EQ(ArgumentBuffer().Add<std::int32_t>(0x1ff).Format("%hhu"), "255");
  EXPECT_EQ(ArgumentBuffer().Add<std::int32_t>(0x18000).Format("%hd"), "-32768");
  EXPECT_EQ(ArgumentBuffer().Add<std::uint64_t>(~0ull).Format("%llx"), "ffffffffffffffff");
  EXPECT_EQ(ArgumentBuffer().Add<std::uint64_t>(~0ull).Format("%lu"), "18446744073709551615");
  EXPECT_EQ(ArgumentBuffer().Add<std::uint64_t>(12).Format("%zu"), "12");
  EXPECT_EQ(ArgumentBuffer().Add<std::int32_t>(6).Add<std::int32_t>(2).Add<double>(3.14159).Format(
                "%*.*f"),
            "  3.14");
  EXPECT_EQ(ArgumentBuffer().Add<std::int32_t>(-4).Add<std::int32_t>(1).Format("%*d|"), "1   |");
  EXPECT_EQ(ArgumentBuffer().Add<double>(1e300).Format("%.0f").size(), 301u);
  EXPECT_EQ(ArgumentBuffer().Add<double>(INFINITY).Format("%g"), "inf");
  EXPECT_EQ(ArgumentBuffer().Add<double>(0.5).Format("%a"), "0x1p-1");
  EXPECT_EQ(ArgumentBuffer().Add<const void*>(reinterpret_cast<void*>(0x1234)).Format("%p"),
            "0x1234");
  EXPECT_EQ(ArgumentBuffer().Add<const char*>("abcdef").Format("%.3s|%%|"), "abc|%|");
}

TEST(PrintfTest, SurvivesOddFormats) {
  int count = 7;
  EXPECT_EQ(ArgumentBuffer().Format("plain", &count), "plain");
  EXPECT_EQ(count, 0);
  EXPECT_EQ(ArgumentBuffer().Format("100%"), "100%");
  EXPECT_EQ(ArgumentBuffer().Format("%5.2"), "%5.2");
  EXPECT_EQ(ArgumentBuffer().Format("%y"), "%y");
  EXPECT_EQ(ArgumentBuffer().Add<const char*>(nullptr).Format("%s"), "(null)");
  std::string text;
  EXPECT_EQ(FormatDevicePrintf(nullptr, nullptr, &text), -1);
  EXPECT_EQ(text, "");
}

struct Message {
  std::int32_t number;
  std::int32_t padding;
  double value;
};

void PrintKernel(ThreadContext* c) {
  const Message message{static_cast<std::int32_t>(Thread(c)), 0, Thread(c) + 0.5};
  cuspan_rt_vprintf(c, "thread %d has %.1f\n", &message);
}

TEST(ServicesTest, PrintfWritesWholeLinesToStdout) {
  testing::internal::CaptureStdout();
  int unused = 0;
  Launch launch = MakeLaunch(&PrintKernel, {1, 1, 1}, {3, 1, 1}, &unused);
  launch.compiled.needs_fibers = false;
  const Outcome outcome = RunLaunch(std::move(launch));
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "thread 0 has 0.5\nthread 1 has 1.5\nthread 2 has 2.5\n");
  EXPECT_EQ(outcome.error, CUDA_SUCCESS);
}

void PrintBadString(ThreadContext* c) {
  const char* bad = reinterpret_cast<const char*>(0x10);
  cuspan_rt_vprintf(c, "%s", &bad);
}

TEST(ServicesTest, ABadStringIsAFaultOfTheKernel) {
  int unused = 0;
  EXPECT_EQ(RunLaunch(&PrintBadString, {1, 1, 1}, {1, 1, 1}, &unused).error,
            CUDA_ERROR_ILLEGAL_ADDRESS);
}

void AssertKernel(ThreadContext* c) {
  if (Thread(c) == 2) cuspan_rt_assert_fail(c, "x == 1", "file.cu", 10, "void f(int)", 1);
}

// The line as printed by CUDA (seen on an H200).
TEST(ServicesTest, AssertPrintsItsPlaceAndEndsTheLaunch) {
  testing::internal::CaptureStderr();
  int unused = 0;
  const Outcome outcome = RunLaunch(&AssertKernel, {1, 1, 1}, {4, 1, 1}, &unused);
  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "file.cu:10: void f(int): block: [0,0,0], thread: [2,0,0] Assertion `x == 1` failed.\n");
  EXPECT_EQ(outcome.error, CUDA_ERROR_ASSERT);
}

struct Kept {
  std::atomic<int> failed{0};
  std::atomic<void*> memory[64] = {};
};

void AllocateAndKeep(ThreadContext* c) {
  auto& kept = Argument<Kept>(c);
  auto* own = static_cast<std::uint32_t*>(cuspan_rt_malloc(c, 64));
  if (own == nullptr || reinterpret_cast<std::uint64_t>(own) % 16 != 0) {
    ++kept.failed;
    return;
  }
  for (int i = 0; i < 16; ++i) own[i] = Thread(c);
  kept.memory[Thread(c)] = own;
}

void CheckAndFree(ThreadContext* c) {
  auto& kept = Argument<Kept>(c);
  auto* own = static_cast<std::uint32_t*>(kept.memory[Thread(c)].load());
  for (int i = 0; i < 16; ++i) kept.failed += own[i] != Thread(c);
  cuspan_rt_free(c, own);
  cuspan_rt_free(c, nullptr);
}

// Memory from malloc persists between launches.
TEST(ServicesTest, DeviceMallocOutlivesTheKernel) {
  DeviceHeap heap;
  Kept kept;
  Launch launch = MakeLaunch(&AllocateAndKeep, {1, 1, 1}, {64, 1, 1}, &kept);
  launch.heap = &heap;
  ASSERT_EQ(RunLaunch(std::move(launch)).error, CUDA_SUCCESS);
  launch = MakeLaunch(&CheckAndFree, {1, 1, 1}, {64, 1, 1}, &kept);
  launch.heap = &heap;
  ASSERT_EQ(RunLaunch(std::move(launch)).error, CUDA_SUCCESS);
  EXPECT_EQ(kept.failed, 0);
}

TEST(ServicesTest, DeviceHeapKeepsItsLimit) {
  DeviceHeap heap;
  heap.SetLimit(1000);
  void* first = heap.Allocate(900);
  EXPECT_NE(first, nullptr);
  EXPECT_EQ(heap.Allocate(200), nullptr);
  EXPECT_EQ(heap.Allocate(0), nullptr);
  EXPECT_EQ(heap.Allocate(~std::size_t{0}), nullptr);
  EXPECT_TRUE(heap.Free(first));
  EXPECT_FALSE(heap.Free(first));
  EXPECT_NE(heap.Allocate(1000), nullptr);
}

void FreeForeign(ThreadContext* c) { cuspan_rt_free(c, reinterpret_cast<void*>(0x1000)); }

TEST(ServicesTest, FreeOfForeignMemoryIsAnErrorOfTheLaunch) {
  DeviceHeap heap;
  int unused = 0;
  Launch launch = MakeLaunch(&FreeForeign, {1, 1, 1}, {1, 1, 1}, &unused);
  launch.heap = &heap;
  EXPECT_EQ(RunLaunch(std::move(launch)).error, CUDA_ERROR_ILLEGAL_ADDRESS);
}

void ReadClock(ThreadContext* c) {
  const std::uint64_t first = cuspan_rt_clock(c);
  std::uint64_t second = first;
  while (second == first) second = cuspan_rt_clock(c);
  Argument<std::atomic<int>>(c) = second > first ? 1 : -1;
}

TEST(ServicesTest, TheClockGoesForward) {
  std::atomic<int> result{0};
  ASSERT_EQ(RunLaunch(&ReadClock, {1, 1, 1}, {1, 1, 1}, &result).error, CUDA_SUCCESS);
  EXPECT_EQ(result, 1);
}

TEST(ServicesTest, TheSymbolTableIsCompleteAndDistinct) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kRuntimeSymbolCount; ++i) {
    EXPECT_NE(kRuntimeSymbols[i].address, nullptr);
    names.emplace_back(kRuntimeSymbols[i].name);
  }
  EXPECT_THAT(names, testing::Contains("cuspan_rt_barrier"));
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::unique(names.begin(), names.end()), names.end());
}

}  // namespace
}  // namespace cuspan::softgpu
