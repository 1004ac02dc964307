// Files of the proxy's node that are read in place of the client's.
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>

#include "common/same_file.h"
#include "tests/unit/proxy/handlers/file_fixture.h"

namespace cuspan::proxy {
namespace {

namespace fs = std::filesystem;

class CounterpartTest : public FileTest {
 protected:
  CounterpartTest() : contents_(Pattern(kMost, 1)) {
    const UniqueFd out(::mkstemp(path_.data()));
    EXPECT_EQ(::write(out.get(), contents_.data(), kMost), static_cast<ssize_t>(kMost));
  }
  ~CounterpartTest() override { ::unlink(path_.c_str()); }

  void SetUp() override {
    FileTest::SetUp();
    AwaitSettled();
    ASSERT_EQ(client.Call(FileOpen{1}).outcome, 0);
  }
  FileBytes Open() const {
    FileBytes::Access access;
    access.reads = true;
    return {UniqueFd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)), access};
  }
  void AwaitSettled() const {
    const FileBytes file = Open();
    while (!FileState::Of(file.fd())->settled())
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  std::uint64_t Find(const std::function<void(FileFind&)>& change = {}) {
    FileFind find;
    find.file = 1;
    find.path = path_;
    find.bytes = kMost;
    find.modified = static_cast<std::uint64_t>(FileState::Of(Open().fd())->modified.count());
    if (change) change(find);
    return client.Call(find).seed;
  }
  std::uint64_t Sum(std::uint64_t seed) const { return *SumOfPages(Open(), kMost, seed); }
  bool Agree() {
    const std::uint64_t seed = Find();
    return seed != 0 && client.Call(FileProve{1, Sum(seed)}).same;
  }
  FileRead ReadOf(std::uint64_t offset, std::uint64_t bytes, std::uint64_t transfer) const {
    return {stream, 1, block, offset, bytes, transfer, 0, true};
  }
  FileWanted AwaitRequest(std::uint64_t transfer, bool counterpart) {
    FileWanted found;
    EXPECT_TRUE(client.Await([&](const Received& received) {
      for (const FileWanted& one : received.files)
        if (one.transfer == transfer && one.counterpart == counterpart) {
          found = one;
          return true;
        }
      return false;
    }));
    return found;
  }
  // The client allows reading the counterpart when it is asked.
  void Allow(std::uint64_t transfer) {
    AwaitRequest(transfer, true);
    client.Post(FileDone{transfer, 0, 0, 0, true});
  }
  // The client sends the bytes when it is asked.
  void SendWhenAsked(std::uint64_t transfer, const std::vector<std::byte>& bytes,
                     bool counterpart = false) {
    EXPECT_EQ(AwaitRequest(transfer, counterpart).bytes, bytes.size());
    client.SendChunks(transfer, bytes);
    client.Post(FileDone{transfer, bytes.size(), 0, bytes.size()});
  }

  std::string path_ = ::testing::TempDir() + "counterpart_XXXXXX";
  const std::vector<std::byte> contents_;
};

TEST_F(CounterpartTest, IsReadInStreamOrder) {
  ASSERT_TRUE(Agree());
  const auto read = [&](std::uint64_t transfer, std::uint64_t offset, std::uint64_t bytes,
                        std::int64_t expected) {
    PostAdd(stream, block, 1, 1);
    const std::uint64_t status = PostFile(ReadOf(offset, bytes, transfer));
    Allow(transfer);
    ExpectOutcome(status, expected);
  };
  read(2, 0, kMost, kMost);
  EXPECT_EQ(Read(stream, block, kMost), contents_);
  read(4, 4097, 70'000, 70'000);
  read(6, kMost - 10, 100, 10);
  read(8, kMost, 100, 0);
  EXPECT_EQ(client.Now().files.size(), 4U);
}

TEST_F(CounterpartTest, TheClientIsAskedWhenTheStreamIsThere) {
  ASSERT_TRUE(Agree());
  client.Post(StreamWaitSignal{stream, 1});
  const std::uint64_t status = PostFile(ReadOf(0, 5000, 2));
  client.Call(MemoryInfo{});
  EXPECT_TRUE(client.Now().files.empty());
  // A host function has changed the client's file meanwhile.
  client.Post(Signal{1});
  const std::vector<std::byte> other = Pattern(5000, 7);
  SendWhenAsked(2, other, true);
  ExpectOutcome(status, 5000);
  EXPECT_EQ(Read(stream, block, 5000), other);
  const std::uint64_t later = PostFile(ReadOf(0, 5000, 4));
  SendWhenAsked(4, other);
  ExpectOutcome(later, 5000);
}

TEST_F(CounterpartTest, OnlyReadsThatAllowItUseIt) {
  ASSERT_TRUE(Agree());
  FileRead own = ReadOf(0, 5000, 2);
  own.counterpart = false;
  const std::uint64_t status = PostFile(own);
  const std::vector<std::byte> other = Pattern(5000, 7);
  SendWhenAsked(2, other);
  ExpectOutcome(status, 5000);
  EXPECT_EQ(Read(stream, block, 5000), other);
}

TEST_F(CounterpartTest, NothingIsReadWithoutAProof) {
  const std::vector<std::byte> other = Pattern(5000, 7);
  const auto read = [&](std::uint64_t transfer) {
    const std::uint64_t status = PostFile(ReadOf(0, 5000, transfer));
    SendWhenAsked(transfer, other);
    ExpectOutcome(status, 5000);
    EXPECT_EQ(Read(stream, block, 5000), other);
  };
  read(2);
  const std::uint64_t seed = Find();
  ASSERT_NE(seed, 0U);
  read(4);
  EXPECT_FALSE(client.Call(FileProve{1, Sum(seed) + 1}).same);
  read(6);
  // There is one try.
  EXPECT_FALSE(client.Call(FileProve{1, Sum(seed)}).same);
  read(8);
  // A proof with an older seed.
  EXPECT_NE(Find(), seed);
  EXPECT_FALSE(client.Call(FileProve{1, Sum(seed)}).same);
  EXPECT_TRUE(Agree());
}

TEST_F(CounterpartTest, SeedsWithoutAProofAreLimited) {
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(Agree());
  for (int i = 0; i < 64; ++i) {
    ASSERT_NE(Find(), 0U);
    if (i % 2 == 0) {
      ASSERT_FALSE(client.Call(FileProve{1, 5}).same);
    }
  }
  EXPECT_EQ(Find(), 0U);
}

TEST_F(CounterpartTest, OtherFilesAreNone) {
  EXPECT_EQ(Find([](FileFind& find) { find.path = "/no/such/file"; }), 0U);
  EXPECT_EQ(Find([](FileFind& find) { find.path = ""; }), 0U);
  const std::string relative = fs::relative(path_).string();
  EXPECT_EQ(Find([&](FileFind& find) { find.path = relative; }), 0U);
  EXPECT_EQ(Find([](FileFind& find) { find.path = "/"; }), 0U);
  EXPECT_EQ(Find([](FileFind& find) { find.path = "/dev/zero"; }), 0U);
  const std::string longer(5000, '/');
  EXPECT_EQ(Find([&](FileFind& find) { find.path = longer; }), 0U);
  const std::string with_zero = path_ + '\0' + "x";
  EXPECT_EQ(Find([&](FileFind& find) { find.path = with_zero; }), 0U);
  EXPECT_EQ(Find([](FileFind& find) { ++find.bytes; }), 0U);
  const std::string small = path_ + ".small";
  fs::copy_file(path_, small);
  fs::resize_file(small, 65'535);
  EXPECT_EQ(Find([&](FileFind& find) {
              find.path = small;
              find.bytes = 65'535;
            }),
            0U);
  fs::remove(small);
  EXPECT_EQ(Find([](FileFind& find) { find.modified += 1'000'000'000; }), 0U);
  const std::string fifo = path_ + ".fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(Find([&](FileFind& find) { find.path = fifo; }), 0U);
  ::unlink(fifo.c_str());
  ASSERT_EQ(::chmod(path_.c_str(), 0600), 0);  // Changed just now.
  EXPECT_EQ(Find(), 0U);
  AwaitSettled();
  EXPECT_NE(Find(), 0U);
}

TEST_F(CounterpartTest, FilesOfTheProxyHaveNone) {
  const UniqueFd fd = NewFile(contents_);
  ASSERT_EQ(Share(9, fd.get()), FileResult::kSuccess);
  EXPECT_EQ(Find([](FileFind& find) { find.file = 9; }), 0U);
}

TEST_F(CounterpartTest, WhenItChangesTheClientSendsItsBytes) {
  ASSERT_TRUE(Agree());
  const UniqueFd file(::open(path_.c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_EQ(::pwrite(file.get(), "x", 1, kMost / 2), 1);
  const std::uint64_t status = PostFile(ReadOf(0, kMost, 2));
  Allow(2);
  SendWhenAsked(2, contents_);
  ExpectOutcome(status, kMost);
  EXPECT_EQ(Read(stream, block, kMost), contents_);
  // From now on, at once.
  const std::uint64_t small = PostFile(ReadOf(0, 10, 4));
  SendWhenAsked(4, Pattern(10, 3));
  ExpectOutcome(small, 10);
}

TEST_F(CounterpartTest, WritesAreTheClients) {
  ASSERT_TRUE(Agree());
  client.Post(Memset{stream, block, 7, 1, 100});
  std::vector<std::byte> received(100);
  client.ReceiveTo(2, received.data());
  const std::uint64_t status = PostFile(FileWrite{stream, 1, block, 0, 100, 2, 0});
  client.Await([](const Received& now) { return !now.chunks.empty(); });
  client.Post(FileDone{2, 100, 0, 0});
  ExpectOutcome(status, 100);
  EXPECT_EQ(Sum(5), *SumOfPages(Open(), kMost, 5));
}

}  // namespace
}  // namespace cuspan::proxy
