// Tests kernel times kept between runs: the table's text, and its file with many writers.
#include "proxy/objects/kernel_table.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "common/format.h"
#include "common/settings.h"

namespace cuspan::proxy {
namespace {

namespace fs = std::filesystem;
using scheduling::Bottleneck;
using testing::HasSubstr;

constexpr KernelTimeSums kSums{2, 200, 20'000, 5'000, 500'000};

KernelKey KeyOf(std::string name, std::uint64_t module = 7) { return {module, std::move(name)}; }

// --- Modules.

TEST(ModuleHashTest, TellsModulesApart) {
  std::vector<std::byte> image(3'000'000);
  std::mt19937 random(1);
  for (std::byte& byte : image) byte = static_cast<std::byte>(random());
  const std::uint64_t hash = ModuleHash(image);
  EXPECT_EQ(ModuleHash(std::vector(image)), hash);
  for (const std::size_t at : {0, 1, 7, 8, 31, 32, 1'000, (1 << 20) - 1}) {
    std::vector<std::byte> other = image;
    other[at] ^= std::byte{1};
    EXPECT_NE(ModuleHash(other), hash) << at;
  }
  const std::span<const std::byte> all(image);
  std::vector<std::uint64_t> hashes;
  for (std::size_t bytes = 0; bytes < 200; ++bytes) hashes.push_back(ModuleHash(all.first(bytes)));
  hashes.push_back(ModuleHash(all.first(2'000'000)));
  hashes.push_back(ModuleHash(all.first(2'000'001)));
  std::sort(hashes.begin(), hashes.end());
  EXPECT_EQ(std::adjacent_find(hashes.begin(), hashes.end()), hashes.end());
}

// --- Text.

TEST(KernelRecordsTest, TextIsReadAsItWasWritten) {
  KernelRecords records;
  const KernelRecord first{{1.5, 33.25, 1e15 / 3, 0.1 + 0.2, 1e-7}, Bottleneck::kMemory};
  const KernelRecord second{{}, Bottleneck::kCompute};
  records.Put(KeyOf("_Z4copyPfS_i", ~std::uint64_t{0}), first);
  records.Put(KeyOf("a<b>(c)::d", 0), second);
  const std::string text = records.Text();
  const KernelRecords read = KernelRecords::Parse(text);
  EXPECT_EQ(read.size(), 2U);
  ASSERT_NE(read.Find(KeyOf("_Z4copyPfS_i", ~std::uint64_t{0})), nullptr);
  EXPECT_EQ(*read.Find(KeyOf("_Z4copyPfS_i", ~std::uint64_t{0})), first);
  ASSERT_NE(read.Find(KeyOf("a<b>(c)::d", 0)), nullptr);
  EXPECT_EQ(*read.Find(KeyOf("a<b>(c)::d", 0)), second);
  EXPECT_EQ(read.Find(KeyOf("a<b>(c)::d", 1)), nullptr);
  EXPECT_EQ(read.Text(), text);
}

constexpr char kTitle[] = "cuspan kernel times 1\n";
constexpr char kLine[] = "0000000000000007 memory 2 200 20000 5000 500000 copy\n";

TEST(KernelRecordsTest, WhatIsNoTableIsEmpty) {
  for (const std::string text : {"", "\n", "cuspan kernel times 2\n", "hello\nworld\n", "\0\0\0\0",
                                 "cuspan kernel times 1", "cuspan kernel times 1 \n"})
    EXPECT_EQ(KernelRecords::Parse(text + kLine).size(), 0U) << text;
  EXPECT_EQ(KernelRecords::Parse(std::string(kTitle) + kLine).size(), 1U);
}

TEST(KernelRecordsTest, DamagedLinesAreLeftOut) {
  for (const char* line : {
           "",
           "0000000000000007",
           "000000000000007 memory 2 200 20000 5000 500000 copy",
           "0000000000000007 other 2 200 20000 5000 500000 copy",
           "000000000000000g memory 2 200 20000 5000 500000 copy",
           "+000000000000007 memory 2 200 20000 5000 500000 copy",
           "0000000000000007 memory 2 200 20000 5000 500000",
           "0000000000000007 memory 2 200 20000 5000 500000 ",
           "0000000000000007  memory 2 200 20000 5000 500000 copy",
           "0000000000000007 memory 2 200 20000 5000 500000 co py",
           "0000000000000007 memory 2 200 20000 5000 500000 copy\r",
           "0000000000000007 memory 2x 200 20000 5000 500000 copy",
           "0000000000000007 memory nan 200 20000 5000 500000 copy",
           "0000000000000007 memory 2 200 20000 inf 500000 copy",
           "0000000000000007 memory 2 200 20000 1e999 500000 copy",
           "0000000000000007 memory 2 200 20000 -5000 500000 copy",
           "0000000000000007 memory 0 200 20000 5000 500000 copy",
           "0000000000000007 memory 11 1100 110000 5000 500000 copy",
           "0000000000000007 memory 2 200 19000 5000 500000 copy",
           "0000000000000007 memory 2 1 1 5000 500000 copy",
           "0000000000000007 memory 2 200 20000 5000 500000 c\xc3\xb6py",
       })
    EXPECT_EQ(KernelRecords::Parse(Format("{}{}\n{}", kTitle, line, kLine)).size(), 1U) << line;
  const std::string longest(KernelRecords::kMaxNameBytes, 'x');
  const auto with = [](const std::string& name) {
    return std::string(kTitle) + "0000000000000007 memory 2 200 20000 5000 500000 " + name + "\n";
  };
  EXPECT_EQ(KernelRecords::Parse(with(longest)).size(), 1U);
  EXPECT_EQ(KernelRecords::Parse(with(longest + "x")).size(), 0U);
}

TEST(KernelRecordsTest, AnyBytesWillDo) {
  const std::string whole = std::string(kTitle) + kLine + kLine;
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string text = whole.substr(0, random() % (whole.size() + 1));
    for (unsigned changes = random() % 4; changes > 0 && !text.empty(); --changes)
      text[random() % text.size()] = static_cast<char>(random());
    const KernelRecords read = KernelRecords::Parse(text);
    EXPECT_LE(read.size(), 2U);
    EXPECT_EQ(KernelRecords::Parse(read.Text()).Text(), read.Text());
  }
}

TEST(KernelRecordsTest, TheOldestGo) {
  KernelRecords records;
  constexpr int kMany = KernelRecords::kMaxKernels + 5;
  for (int i = 0; i < kMany; ++i)
    records.Put(KeyOf(Format("k{}", i)), {kSums, Bottleneck::kUnknown});
  records.Put(KeyOf("k0"), {kSums, Bottleneck::kCompute});  // The newest again.
  const KernelRecords read = KernelRecords::Parse(records.Text());
  EXPECT_EQ(read.size(), KernelRecords::kMaxKernels);
  EXPECT_NE(read.Find(KeyOf("k0")), nullptr);
  EXPECT_EQ(read.Find(KeyOf("k5")), nullptr);
  EXPECT_NE(read.Find(KeyOf("k6")), nullptr);
  EXPECT_NE(read.Find(KeyOf(Format("k{}", kMany - 1))), nullptr);
}

TEST(KernelRecordsTest, LongNamesGoTheSameWay) {
  KernelRecords records;
  const std::string padding(4'000, 'x');
  for (int i = 0; i < 2'000; ++i) records.Put(KeyOf(Format("{}{}", padding, i)), {kSums});
  records.Put(KeyOf(std::string(5'000, 'x')), {kSums});
  EXPECT_LE(records.Text().size(), KernelRecords::kMaxBytes);
  const KernelRecords read = KernelRecords::Parse(records.Text());
  EXPECT_GT(read.size(), 1'000U);
  EXPECT_NE(read.Find(KeyOf(padding + "1999")), nullptr);
  EXPECT_EQ(read.Find(KeyOf(padding + "0")), nullptr);
}

// --- The file.

class KernelTableTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = testing::TempDir() + "cuspan-times-XXXXXX";
    ASSERT_NE(::mkdtemp(path.data()), nullptr);
    base_ = path;
  }
  void TearDown() override { fs::remove_all(base_); }

  std::string folder() const { return (base_ / "made" / "times").string(); }
  fs::path file() const { return fs::path(folder()) / "NVIDIA_H100_80GB"; }
  fs::path new_file() const { return file().string() + ".new"; }

  std::unique_ptr<KernelTable> Open() const {
    auto table = KernelTable::Open(folder(), "NVIDIA H100 80GB");
    EXPECT_TRUE(table.ok()) << table.status().message();
    return table.ok() ? *std::move(table) : nullptr;
  }
  std::string Text() const {
    std::ifstream in(file());
    return {std::istreambuf_iterator<char>(in), {}};
  }
  KernelRecords Records() const { return KernelRecords::Parse(Text()); }
  void Put(const std::string& text) const {
    fs::create_directories(folder());
    fs::permissions(folder(), fs::perms::owner_all);
    std::ofstream(file()) << text;
    fs::permissions(file(), fs::perms::owner_read | fs::perms::owner_write);
  }
  // Adds two launches. Only the second counts.
  static void Measure(KernelTable& table, const KernelKey& key, double nanoseconds) {
    for (int i = 0; i < 2; ++i) table.TimeOf(key)->Add(100, nanoseconds);
  }

  fs::path base_;
};

TEST_F(KernelTableTest, TheNextRunKnowsIt) {
  {
    const auto table = Open();
    EXPECT_FALSE(table->TimeOf(KeyOf("copy"))->Predict(100).has_value());
    Measure(*table, KeyOf("copy"), 5'000);
    table->SetBottleneck(KeyOf("copy"), Bottleneck::kMemory);
    table->SetBottleneck(KeyOf("never_run"), Bottleneck::kCompute);
    table->WriteLast();
  }
  struct stat status {};
  ASSERT_EQ(::stat(file().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  ASSERT_EQ(::stat(folder().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700U);
  EXPECT_FALSE(fs::exists(new_file()));
  const auto table = Open();
  const auto time = table->TimeOf(KeyOf("copy"));
  EXPECT_EQ(table->TimeOf(KeyOf("copy")), time) << "one for each kernel";
  EXPECT_NEAR(time->Predict(100).value_or(0), 5'000, 1e-6);
  EXPECT_EQ(table->BottleneckOf(KeyOf("copy")), Bottleneck::kMemory);
  EXPECT_EQ(table->BottleneckOf(KeyOf("never_run")), Bottleneck::kCompute);
  EXPECT_FALSE(table->TimeOf(KeyOf("never_run"))->Predict(1).has_value());
  EXPECT_FALSE(table->TimeOf(KeyOf("copy", 8))->Predict(100).has_value()) << "another module's";
}

TEST_F(KernelTableTest, OtherModelsHaveFilesOfTheirOwn) {
  const auto table = Open();
  Measure(*table, KeyOf("copy"), 5'000);
  table->WriteLast();
  for (const char* gpu : {"NVIDIA H200", "", "..", "../../x", "a/b"}) {
    auto other = KernelTable::Open(folder(), gpu);
    ASSERT_TRUE(other.ok()) << gpu;
    EXPECT_FALSE((*other)->TimeOf(KeyOf("copy"))->Predict(100).has_value()) << gpu;
    Measure(**other, KeyOf("copy"), 1'000);
    (*other)->WriteLast();
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder()), {}), 6);
  EXPECT_EQ(std::distance(fs::directory_iterator(base_), {}), 1);
  EXPECT_NEAR(Records().Find(KeyOf("copy"))->sums.time, 5'000, 1e-9);
}

TEST_F(KernelTableTest, WhatIsNotNewIsNotWritten) {
  const auto now = std::chrono::steady_clock::now();
  const auto table = Open();
  table->TimeOf(KeyOf("copy"));
  table->Write(now);
  EXPECT_FALSE(fs::exists(file()));
  Measure(*table, KeyOf("copy"), 5'000);
  table->Write(now);
  ASSERT_TRUE(fs::exists(file()));
  fs::remove(file());
  table->Write(now);
  EXPECT_FALSE(fs::exists(file()));
  const auto other = Open();
  table->TimeOf(KeyOf("copy"))->Add(100, 6'000);
  table->Write(now);
  EXPECT_TRUE(fs::exists(file()));
}

TEST_F(KernelTableTest, WritesNowAndThen) {
  const auto table = Open();
  const auto now = std::chrono::steady_clock::now();
  EXPECT_FALSE(table->WantsWrite(now));
  EXPECT_TRUE(table->WantsWrite(now + KernelTable::kBetweenWrites));
  table->Write(now + KernelTable::kBetweenWrites);
  EXPECT_FALSE(table->WantsWrite(now + KernelTable::kBetweenWrites * 3 / 2));
  EXPECT_TRUE(table->WantsWrite(now + KernelTable::kBetweenWrites * 2));
}

TEST_F(KernelTableTest, TwoWritersLoseNothing) {
  Put(std::string(kTitle) + kLine);
  const auto first = Open(), second = Open();
  Measure(*first, KeyOf("one"), 1'000);
  first->SetBottleneck(KeyOf("shared"), Bottleneck::kCompute);
  Measure(*second, KeyOf("two"), 2'000);
  Measure(*second, KeyOf("shared"), 3'000);
  first->WriteLast();
  second->WriteLast();
  Measure(*first, KeyOf("one"), 1'000);
  first->WriteLast();
  const KernelRecords records = Records();
  EXPECT_EQ(records.size(), 4U);
  for (const char* name : {"copy", "one", "two"})
    ASSERT_NE(records.Find(KeyOf(name)), nullptr) << name;
  // Each writer knew a part of it.
  ASSERT_NE(records.Find(KeyOf("shared")), nullptr);
  EXPECT_EQ(records.Find(KeyOf("shared"))->bottleneck, Bottleneck::kCompute);
  EXPECT_EQ(records.Find(KeyOf("shared"))->sums.time, 3'000);
}

TEST_F(KernelTableTest, ManyProcessesLoseNothing) {
  constexpr int kProcesses = 8, kKernels = 10;
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    const auto table = Open();
    for (int i = 0; i < kKernels; ++i) {
      const KernelKey key = KeyOf(Format("k{}", i), static_cast<std::uint64_t>(process));
      Measure(*table, key, 1'000);
      // While another process has the file, nothing is written.
      do table->Write(std::chrono::steady_clock::now());
      while (Records().Find(key) == nullptr);
    }
    ::_exit(0);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(Records().size(), static_cast<std::size_t>(kProcesses * kKernels));
  EXPECT_FALSE(fs::exists(new_file()));
}

TEST_F(KernelTableTest, AWriterThatWasKilledLeavesNothing) {
  Put(std::string(kTitle) + kLine);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // Dies in the middle of a write.
    const int fd = ::open(new_file().c_str(), O_WRONLY | O_CREAT, 0600);
    if (::flock(fd, LOCK_EX) != 0 || ::write(fd, kTitle, 10) != 10) ::_exit(1);
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_TRUE(fs::exists(new_file()));
  const auto table = Open();
  Measure(*table, KeyOf("one"), 1'000);
  table->Write(std::chrono::steady_clock::now());
  EXPECT_FALSE(fs::exists(new_file()));
  EXPECT_EQ(Records().size(), 2U);
}

TEST_F(KernelTableTest, AWriterThatStandsStillIsNotWaitedFor) {
  Put(std::string(kTitle) + kLine);
  const UniqueFd held(::open(new_file().c_str(), O_WRONLY | O_CREAT, 0600));
  ASSERT_EQ(::flock(held.get(), LOCK_EX), 0);
  const auto table = Open();
  Measure(*table, KeyOf("one"), 1'000);
  table->Write(std::chrono::steady_clock::now());
  table->WriteLast();
  EXPECT_EQ(Records().size(), 1U);
  EXPECT_TRUE(fs::exists(new_file())) << "it is the other's";
  ::flock(held.get(), LOCK_UN);
  table->Write(std::chrono::steady_clock::now());
  EXPECT_EQ(Records().size(), 2U) << "it is written later";
}

TEST_F(KernelTableTest, DamagedFilesAreBegunAnew) {
  const std::string texts[] = {"", "garbage", std::string(100'000, '\0'),
                               std::string(kTitle) + "damaged\n" + kLine + "half a li",
                               std::string(KernelRecords::kMaxBytes + 1, '\n')};
  for (const std::string& text : texts) {
    Put(text);
    const auto table = Open();
    Measure(*table, KeyOf("one"), 1'000);
    table->WriteLast();
    EXPECT_NE(Records().Find(KeyOf("one")), nullptr);
    EXPECT_EQ(Text(), Records().Text());
  }
}

// No link is followed, no message above the log level info is printed, and no file is left.
TEST_F(KernelTableTest, WhatCannotBeUsedIsLeftAlone) {
  const auto try_it = [&](const char* what) {
    testing::internal::CaptureStderr();
    const auto table = Open();
    EXPECT_FALSE(table->TimeOf(KeyOf("one"))->Predict(1).has_value()) << what;
    Measure(*table, KeyOf("one"), 1'000);
    table->WriteLast();
    table->TimeOf(KeyOf("one"))->Add(100, 1'000);
    table->WriteLast();
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << what;
  };
  fs::create_directories(folder());
  fs::permissions(folder(), fs::perms::owner_all);
  const fs::path other = base_ / "other";
  std::ofstream(other) << kTitle << kLine;
  fs::permissions(other, fs::perms::owner_read | fs::perms::owner_write);

  fs::create_symlink(other, file());
  try_it("a link in the table's place");
  EXPECT_TRUE(fs::is_symlink(file()));
  EXPECT_FALSE(fs::exists(new_file()));
  fs::remove(file());

  fs::create_symlink(other, new_file());
  try_it("a link in the new file's place");
  EXPECT_FALSE(fs::exists(file()));
  fs::remove(new_file());

  fs::create_directory(file());
  try_it("a folder in the table's place");
  EXPECT_FALSE(fs::exists(new_file()));
  fs::remove(file());

  ASSERT_EQ(::mkfifo(new_file().c_str(), 0600), 0);
  try_it("a pipe in the new file's place");
  fs::remove(new_file());

  Put(std::string(kTitle) + "0000000000000007 memory 2 200 20000 5000 500000 one\n");
  fs::permissions(file(), fs::perms::all);
  try_it("a table that others may write to");
  std::ifstream in(other);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), std::string(kTitle) + kLine);
}

TEST_F(KernelTableTest, FoldersOfOthersAreRefused) {
  fs::create_directories(folder());
  fs::permissions(folder(), fs::perms::all);
  const auto shared = KernelTable::Open(folder(), "gpu");
  EXPECT_EQ(shared.status().code(), StatusCode::kRefused);
  const auto relative = KernelTable::Open("times", "gpu");
  EXPECT_THAT(relative.status().message(), HasSubstr("CUSPAN_KERNEL_TIMES"));
  std::ofstream(base_ / "file") << "x";
  EXPECT_FALSE(KernelTable::Open((base_ / "file").string(), "gpu").ok());
  EXPECT_FALSE(KernelTable::Open((base_ / "file" / "below").string(), "gpu").ok());
  if (::geteuid() == 0) return;
  fs::permissions(base_, fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_FALSE(KernelTable::Open((base_ / "new").string(), "gpu").ok());
  fs::permissions(base_, fs::perms::owner_all);
}

TEST_F(KernelTableTest, TheSettingNamesTheFolder) {
  ::setenv(settings::kKernelTimes.name, "off", 1);
  EXPECT_EQ(KernelTable::BySettings("gpu"), nullptr);
  ::setenv(settings::kKernelTimes.name, folder().c_str(), 1);
  EXPECT_NE(KernelTable::BySettings("gpu"), nullptr);
  EXPECT_TRUE(fs::is_directory(folder()));
  ::setenv(settings::kKernelTimes.name, "times", 1);
  EXPECT_EQ(KernelTable::BySettings("gpu"), nullptr);
  ::unsetenv(settings::kKernelTimes.name);
  ::setenv("XDG_CACHE_HOME", (base_ / "cache").c_str(), 1);
  EXPECT_NE(KernelTable::BySettings("gpu"), nullptr);
  EXPECT_TRUE(fs::is_directory(base_ / "cache/cuspan/kernel-times"));
  ::unsetenv("XDG_CACHE_HOME");
}

TEST_F(KernelTableTest, ErrorsAreThoseOfAllKernels) {
  Put(std::string(kTitle) + "0000000000000007 memory 2 200 20000 2000 200000 one\n" +
      "0000000000000007 memory 2 200 20000 2000 200000 two\n");
  const auto table = Open();
  EXPECT_FALSE(table->Errors().Median().has_value());
  Measure(*table, KeyOf("one"), 1'000);
  Measure(*table, KeyOf("two"), 1'000);
  Measure(*table, KeyOf("three"), 1'000);
  EXPECT_EQ(table->Errors().count(), 2U) << "of the third nothing was known";
  EXPECT_LE(table->Errors().Median().value_or(1), 0.01);
}

// A program may load new modules all the time.
TEST_F(KernelTableTest, KernelsBeyondTheMostAreNotKept) {
  const auto table = Open();
  for (std::size_t i = 0; i < KernelRecords::kMaxKernels; ++i)
    table->TimeOf(KeyOf("k", i + 1))->Add(1, 1);
  const KernelKey more = KeyOf("k", 0);
  table->SetBottleneck(more, Bottleneck::kMemory);
  EXPECT_EQ(table->BottleneckOf(more), Bottleneck::kUnknown);
  EXPECT_NE(table->TimeOf(more), nullptr);
  table->TimeOf(KeyOf("k", 1))->Add(1, 1);
  table->WriteLast();
  EXPECT_EQ(Records().size(), 1U);
}

}  // namespace
}  // namespace cuspan::proxy
