#include "interpose/cufile/statistics.h"

#include <gtest/gtest.h>

#include <array>

namespace cuspan::cufile {
namespace {

using std::chrono::microseconds;

Transferred Read(std::int64_t result, std::uint64_t wanted, int device = 0) {
  Transferred read;
  read.device = device;
  read.result = result;
  read.wanted = wanted;
  read.time = microseconds(10);
  return read;
}

TEST(CufileStatistics, CountOnlyBetweenStartAndStop) {
  Statistics statistics;
  statistics.SetLevel(1);
  statistics.Note(Read(100, 100));
  statistics.Start();
  statistics.Note(Read(4096, 4096));
  statistics.Note(Read(-5022, 4096));
  statistics.Note(&Statistics1::handle_register, true);
  statistics.Note(&Statistics1::handle_register, false);
  statistics.Stop();
  statistics.Note(Read(100, 100));
  const Statistics1 basic = statistics.basic();
  EXPECT_EQ(basic.read.done, 1U);
  EXPECT_EQ(basic.read.failed, 1U);
  EXPECT_EQ(basic.read_bytes, 4096U);
  EXPECT_EQ(basic.read_sum_us, 20U);
  EXPECT_EQ(basic.handle_register.done, 1U);
  EXPECT_EQ(basic.handle_register.failed, 1U);
  EXPECT_GT(basic.reads_per_second, 0U);
  statistics.Reset();
  EXPECT_EQ(statistics.basic().read.done, 0U);
}

TEST(CufileStatistics, CountNothingAtLevelZero) {
  Statistics statistics;
  statistics.Start();
  statistics.Note(Read(4096, 4096));
  EXPECT_EQ(statistics.basic().read.done, 0U);
}

TEST(CufileStatistics, KindsAreCountedApart) {
  Statistics statistics;
  statistics.SetLevel(3);
  statistics.Start();
  Transferred entry = Read(5000, 5000);
  entry.kind = Transferred::Kind::kBatchEntry;
  statistics.Note(entry);
  Transferred part = Read(700, 700);
  part.kind = Transferred::Kind::kVector;
  part.opcode = kWrite;
  statistics.Note(part);
  const Statistics1 basic = statistics.basic();
  EXPECT_EQ(basic.read.done + basic.write.done, 0U);
  EXPECT_EQ(basic.batch_read_bytes, 5000U);
  EXPECT_EQ(basic.batch_complete.done, 1U);
  EXPECT_EQ(basic.writev.done, 1U);
  EXPECT_EQ(basic.writev_bytes, 700U);
}

TEST(CufileStatistics, SizesAndDevices) {
  Statistics statistics;
  statistics.SetLevel(3);
  statistics.Start();
  for (const std::uint64_t bytes : {1, 1023, 1024, 2048, 4095})
    statistics.Note(Read(static_cast<std::int64_t>(bytes), bytes, 1));
  statistics.Note(Read(4096, std::uint64_t{1} << 62, -1));
  statistics.Note(Read(4096, 4096, 16));
  const Histograms sizes = statistics.histograms();
  EXPECT_EQ(sizes.read[0], 2U);
  EXPECT_EQ(sizes.read[1], 1U);
  EXPECT_EQ(sizes.read[2], 2U);
  EXPECT_EQ(sizes.read[kSizeClasses - 1], 1U);
  std::array<DeviceStatistics, 2> devices{};
  statistics.Copy(devices);
  EXPECT_EQ(devices[1].reads, 5U);
  EXPECT_EQ(devices[1].unaligned_reads, 5U);
  EXPECT_EQ(devices[0].reads, 0U);
  statistics.NoteBuffer(1, 1000);
  statistics.NoteBuffer(1, 500);
  statistics.NoteBuffer(1, -1000);
  statistics.NoteBuffer(-1, 7);
  statistics.NoteBuffer(0, -9);  // Registered before counting began.
  statistics.Copy(devices);
  EXPECT_EQ(devices[0].registered_bytes, 0U);
  EXPECT_EQ(devices[1].registered_bytes, 500U);
  EXPECT_EQ(devices[1].maps, 2U);
  EXPECT_EQ(devices[1].unmaps, 1U);
}

}  // namespace
}  // namespace cuspan::cufile
