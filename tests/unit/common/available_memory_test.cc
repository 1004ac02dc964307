#include "common/available_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <limits>
#include <string>

namespace cuspan {
namespace {

namespace fs = std::filesystem;

class AvailableMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "available-memory-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { fs::remove_all(root_); }
  void Write(const fs::path& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  void WriteGroup(const fs::path& group, const std::string& most, const std::string& used,
                  const std::string& caches) {
    const fs::path folder = "sys/fs/cgroup" / group;
    Write(folder / "memory.max", most + "\n");
    Write(folder / "memory.current", used + "\n");
    Write(folder / "memory.stat", "anon 5\ninactive_file " + caches + "\nslab 7\n");
  }

  fs::path root_;
};

TEST_F(AvailableMemoryTest, IsTheHostsWithoutAGroup) {
  Write("proc/meminfo", "MemTotal: 100 kB\nMemFree: 1 kB\nMemAvailable:      40 kB\n");
  EXPECT_EQ(AvailableMemory(root_), 40U * 1024);
}

TEST_F(AvailableMemoryTest, IsWhatTheGroupHasLeftIfThatIsLess) {
  Write("proc/meminfo", "MemAvailable: 1000 kB\n");
  Write("proc/self/cgroup", "0::/job/step\n");
  WriteGroup("job/step", "max", "900000", "0");
  WriteGroup("job", "500000", "300000", "100000");
  EXPECT_EQ(AvailableMemory(root_), 300000U);
  // The step is over its limit.
  WriteGroup("job/step", "1000", "2000", "10");
  EXPECT_EQ(AvailableMemory(root_), 0U);
}

TEST_F(AvailableMemoryTest, IsWhatAGroupOfVersion1HasLeft) {
  Write("proc/meminfo", "MemAvailable: 1000 kB\n");
  Write("proc/self/cgroup", "9:name=systemd:/\n4:memory:/job/step\n1:cpu:/\n0::/\n");
  const fs::path job = "sys/fs/cgroup/memory/job";
  Write(job / "memory.limit_in_bytes", "500000\n");
  Write(job / "memory.usage_in_bytes", "300000\n");
  Write(job / "memory.stat", "inactive_file 7\ntotal_inactive_file 100000\n");
  EXPECT_EQ(AvailableMemory(root_), 300000U);
}

TEST_F(AvailableMemoryTest, IsTheHostsWhereTheGroupHasMore) {
  Write("proc/meminfo", "MemAvailable: 10 kB\n");
  Write("proc/self/cgroup", "1:name=systemd:/x\n0::/\n");
  WriteGroup("", "500000", "300000", "0");
  EXPECT_EQ(AvailableMemory(root_), 10U * 1024);
}

TEST_F(AvailableMemoryTest, IsWithoutLimitWhereNothingIsKnown) {
  EXPECT_EQ(AvailableMemory(root_), std::numeric_limits<std::uint64_t>::max());
}

}  // namespace
}  // namespace cuspan
