// Reads and writes of files: those of the proxy's own descriptors, and those with bytes of the
// client.
#include "tests/unit/proxy/handlers/file_fixture.h"

namespace cuspan::proxy {
namespace {

TEST_F(FileTest, OwnFilesAreReadInStreamOrder) {
  const std::vector<std::byte> contents = Pattern(kMost, 1);
  const UniqueFd fd = NewFile(contents);
  ASSERT_EQ(Share(1, fd.get()), FileResult::kSuccess);
  std::uint64_t offset = 3;
  for (const std::size_t bytes : {1, 4096, 65'536, 65'537, 1 << 20, (3 << 20) + 17}) {
    client.Post(Memset{stream, block, 0, 1, kMost});
    const std::uint64_t status = PostFile(FileRead{stream, 1, block + 8, offset, bytes, 0, 0});
    PostAdd(stream, block + 8 + RoundUp(bytes, 8), 1, 5);
    ExpectOutcome(status, static_cast<std::int64_t>(bytes));
    const std::vector<std::byte> found = Read(stream, block, kMost);
    std::vector<std::byte> expected(kMost);
    std::copy_n(contents.begin() + static_cast<long>(offset), bytes, expected.begin() + 8);
    expected[8 + RoundUp(bytes, 8)] = std::byte{5};
    EXPECT_EQ(found, expected);
    offset += 70'001;
  }
}

TEST_F(FileTest, OwnFilesAreWrittenInStreamOrder) {
  const std::vector<std::byte> contents = Pattern(kMost, 1);
  const UniqueFd fd = NewFile(contents);
  const UniqueFd copy = NewFile({});
  ASSERT_EQ(Share(1, fd.get()), FileResult::kSuccess);
  ASSERT_EQ(Share(2, copy.get()), FileResult::kSuccess);
  const std::uint64_t read = PostFile(FileRead{stream, 1, block, 0, kMost, 0, 0});
  PostAdd(stream, block, 1, 1);
  const std::uint64_t written = PostFile(FileWrite{stream, 2, block, 100, kMost, 0, 0});
  // Reads the new contents.
  const std::uint64_t again = PostFile(FileRead{stream, 2, block + 4096, 100, 4096, 0, 0});
  client.Post(Memset{stream, block, 0, 1, 4096});
  ExpectOutcome(read, kMost);
  ExpectOutcome(written, kMost);
  ExpectOutcome(again, 4096);
  std::vector<std::byte> expected(100);
  expected.insert(expected.end(), contents.begin(), contents.end());
  std::uint32_t word = 0;
  std::memcpy(&word, contents.data(), sizeof word);
  ++word;
  std::memcpy(expected.data() + 100, &word, sizeof word);
  EXPECT_EQ(ContentsOf(copy.get()), expected);
  EXPECT_EQ(ReadWord(stream, block + 4096), word);
}

TEST_F(FileTest, TheEndOfTheFileAndFailuresAreTold) {
  const std::vector<std::byte> contents = Pattern(3 << 20, 1);
  const UniqueFd fd = NewFile(contents, MFD_ALLOW_SEALING);
  ASSERT_EQ(Share(1, fd.get()), FileResult::kSuccess);
  ExpectOutcome(PostFile(FileRead{stream, 1, block, 1 << 20, kMost, 0, 0}), 2 << 20);
  ExpectOutcome(PostFile(FileRead{stream, 1, block, 3 << 20, 10, 0, 0}), 0);
  ExpectOutcome(PostFile(FileRead{stream, 1, block, std::uint64_t{1} << 62, 10, 0, 0}), 0);
  ExpectOutcome(PostFile(FileRead{stream, 1, block, 0, 0, 0, 0}), 0);
  ExpectOutcome(PostFile(FileRead{stream, 1, block + kMost, 0, kWindowBytes, 0, 0}), 0,
                FileResult::kInvalidMemory);
  ASSERT_EQ(::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_GROW), 0);
  const FileStatus outcome =
      Outcome(PostFile(FileWrite{stream, 1, block, (3 << 20) - 4096, kMost, 0, 0}));
  EXPECT_LE(outcome.bytes, 4096);
  EXPECT_EQ(outcome.error, EPERM);
  gpu.Refuse("to-device", CUDA_ERROR_INVALID_VALUE);
  for (const std::size_t bytes : {std::size_t{10}, kMost})
    ExpectOutcome(PostFile(FileRead{stream, 1, block, 0, bytes, 0, 0}), 0, FileResult::kDevice,
                  CUDA_ERROR_INVALID_VALUE);
  gpu.Refuse("to-device", CUDA_SUCCESS);
  ExpectOutcome(PostFile(FileRead{stream, 1, block, 0, 100, 0, 0}), 100);
}

TEST_F(FileTest, FilesThatAreNoneOrTooMany) {
  const UniqueFd fd = NewFile(Pattern(10, 1));
  int pipes[2] = {-1, -1};
  ASSERT_EQ(::pipe(pipes), 0);
  const UniqueFd ends[] = {UniqueFd(pipes[0]), UniqueFd(pipes[1])};
  EXPECT_EQ(Share(1, ends[0].get()), FileResult::kNotSupported);
  EXPECT_EQ(Share(1, -1), FileResult::kNotSupported);
  EXPECT_EQ(Share(1, fd.get(), Key128{8}), FileResult::kPending) << "another secret";
  EXPECT_EQ(Share(1, fd.get()), FileResult::kSuccess);
  EXPECT_EQ(Share(1, fd.get()), FileResult::kInvalidValue);
  for (std::uint64_t i = 2; i <= FileTable::kMaxFiles; ++i)
    ASSERT_EQ(client.Call(FileOpen{i}).outcome, 0);
  EXPECT_EQ(Share(5000, fd.get()), FileResult::kSystem);
  const FileOpen::Reply refused = client.Call(FileOpen{5000});
  EXPECT_EQ(refused.outcome, static_cast<int>(FileResult::kSystem));
  EXPECT_EQ(refused.error, EMFILE);
  EXPECT_EQ(client.Call(FileClose{7}).result, CUDA_SUCCESS);
  EXPECT_EQ(Share(5000, fd.get()), FileResult::kSuccess);
}

TEST_F(FileTest, AFileMayBeClosedBeforeItIsRead) {
  const std::vector<std::byte> contents = Pattern(kMost, 1);
  UniqueFd fd = NewFile(contents);
  ASSERT_EQ(Share(1, fd.get()), FileResult::kSuccess);
  client.Post(StreamWaitSignal{stream, 1});
  const std::uint64_t status = PostFile(FileRead{stream, 1, block, 0, kMost, 0, 0});
  EXPECT_EQ(client.Call(FileClose{1}).result, CUDA_SUCCESS);
  fd.Reset();
  client.Post(Signal{1});
  ExpectOutcome(status, kMost);
  EXPECT_EQ(Read(stream, block, kMost), contents);
}

TEST_F(FileTest, CopiesBeginWhenTheDeviceHasDoneWhatIsBeforeThem) {
  const UniqueFd fd = NewFile(Pattern(kMost, 1));
  ASSERT_EQ(Share(1, fd.get()), FileResult::kSuccess);
  ASSERT_EQ(client.Call(FileOpen{2}).outcome, 0);
  gpu.Hold(1);
  PostAdd(stream, block, 1, 5);
  const std::uint64_t nowhere = kWindow + kWindowBytes;
  const std::vector<std::uint64_t> none = {
      PostFile(FileRead{stream, 1, block, 0, 0, 0, 0}),
      PostFile(FileRead{stream, 1, block, kMost, 10, 0, 0}),
      PostFile(FileWrite{stream, 1, nowhere, 0, 10, 0, 0}),
      PostFile(FileRead{stream, 2, block, 0, 0, 0, 0}),
  };
  // Their outcome is not the end of the stream's work.
  EXPECT_EQ(client.Call(StreamQuery{stream}).result, CUDA_ERROR_NOT_READY);
  const std::uint32_t waits = client.Ask(DeviceSynchronize{});
  const std::uint64_t read = PostFile(FileRead{stream, 1, block, 0, kMost, 0, 0});
  const std::uint64_t wanted = PostFile(FileRead{stream, 2, block, 0, 10, 2, 0});
  // Other streams get buffers.
  const std::uint64_t other = loopback.NewStream();
  const std::uint64_t at_once = PostFile(FileRead{other, 1, block, 0, kMost, 0, 0});
  const StreamSynchronize::Reply reached = client.Call(StreamSynchronize{other});
  EXPECT_TRUE(client.Await(
      [&](const Received& received) { return received.chunks.size() >= reached.chunks; }));
  EXPECT_EQ(outcomes_.at(at_once).bytes, static_cast<std::int64_t>(kMost));
  EXPECT_EQ(client.Call(StreamQuery{stream}).result, CUDA_ERROR_NOT_READY);
  EXPECT_EQ(client.Now().replies.count(waits), 0U);
  EXPECT_TRUE(client.Now().files.empty());
  for (const std::uint64_t status : none)
    EXPECT_EQ(outcomes_.at(status).result, FileResult::kPending);
  // The host may still change the file.
  const std::vector<std::byte> contents = Pattern(kMost, 9);
  ASSERT_EQ(::pwrite(fd.get(), contents.data(), kMost, 0), static_cast<ssize_t>(kMost));
  gpu.Let(1);
  EXPECT_EQ(client.AwaitReply<DeviceSynchronize>(waits).result, CUDA_SUCCESS);
  AwaitWanted(2);
  client.Post(FileDone{2, 0, 0, 0});
  ExpectOutcome(wanted, 0);
  ExpectOutcome(read, kMost);
  EXPECT_EQ(Read(stream, block, kMost), contents);
  ExpectOutcome(none[2], 0, FileResult::kInvalidMemory);
}

TEST_F(FileTest, WorkOfTheLegacyStreamIsBeforeThemAsWell) {
  const UniqueFd fd = NewFile(Pattern(kMost, 1));
  ASSERT_EQ(Share(1, fd.get()), FileResult::kSuccess);
  const std::vector<std::byte> contents = Pattern(kMost, 9);
  const std::uint64_t independent = loopback.NewStream(CU_STREAM_NON_BLOCKING);
  const auto behind = [&](int held, std::uint64_t first, std::uint64_t second) {
    gpu.Hold(held);
    PostAdd(first, block, 1, 5);
    const std::uint64_t status = PostFile(FileRead{second, 1, block, 0, kMost, 0, 0});
    // This one has nothing before it.
    const std::uint64_t other = PostFile(FileRead{independent, 1, block, 0, 10, 0, 0});
    const StreamSynchronize::Reply reached = client.Call(StreamSynchronize{independent});
    EXPECT_TRUE(client.Await(
        [&](const Received& received) { return received.chunks.size() >= reached.chunks; }));
    EXPECT_EQ(outcomes_.at(other).bytes, 10);
    EXPECT_EQ(outcomes_.at(status).result, FileResult::kPending);
    EXPECT_EQ(::pwrite(fd.get(), contents.data(), kMost, 0), static_cast<ssize_t>(kMost));
    gpu.Let(held);
    const StreamSynchronize::Reply end = client.Call(StreamSynchronize{second});
    EXPECT_TRUE(client.Await(
        [&](const Received& received) { return received.chunks.size() >= end.chunks; }));
    EXPECT_EQ(outcomes_.at(status).bytes, static_cast<std::int64_t>(kMost));
    EXPECT_EQ(Read(second, block, kMost), contents);
    const std::vector<std::byte> before = Pattern(kMost, 1);
    EXPECT_EQ(::pwrite(fd.get(), before.data(), kMost, 0), static_cast<ssize_t>(kMost));
  };
  behind(0, 0, stream);  // A blocking stream behind the legacy one,
  behind(1, stream, 0);  // and the reverse.
}

TEST_F(FileTest, TheClientSendsItsOwnFilesWhenTheStreamIsThere) {
  ASSERT_EQ(client.Call(FileOpen{1}).outcome, 0);
  const std::vector<std::byte> bytes = Pattern(3 * 4096, 4);
  client.Post(StreamWaitSignal{stream, 1});
  const std::uint64_t status = PostFile(FileRead{stream, 1, block, 77, kMost, 2, 0});
  PostAdd(stream, block + bytes.size(), 1, 5);
  EXPECT_EQ(client.Call(MemoryInfo{}).result, CUDA_SUCCESS);
  EXPECT_TRUE(client.Now().files.empty());
  client.Post(Signal{1});
  const FileWanted wanted = AwaitWanted(2);
  EXPECT_EQ(wanted.file, 1U);
  EXPECT_EQ(wanted.offset, 77U);
  EXPECT_EQ(wanted.bytes, kMost);
  // Between nodes, the end may arrive before the last chunks.
  client.Post(FileDone{2, bytes.size(), 0, bytes.size()});
  EXPECT_EQ(client.Call(MemoryInfo{}).result, CUDA_SUCCESS);
  EXPECT_EQ(Count(gpu.Log(), "add 1"), 0U);
  client.SendChunks(2, bytes);
  ExpectOutcome(status, static_cast<std::int64_t>(bytes.size()));
  std::vector<std::byte> found = Read(stream, block, bytes.size());
  EXPECT_EQ(found, bytes);
  EXPECT_EQ(ReadWord(stream, block + bytes.size()), 5U);
  // Nothing at all, and the error of its system.
  const std::uint64_t failed = PostFile(FileRead{stream, 1, block, 0, 100, 4, 0});
  AwaitWanted(4);
  client.Post(FileDone{4, 0, EIO, 0});
  ExpectOutcome(failed, 0, FileResult::kSystem, EIO);
}

TEST_F(FileTest, TheClientWritesItsOwnFilesBeforeTheStreamContinues) {
  ASSERT_EQ(client.Call(FileOpen{1}).outcome, 0);
  client.Post(Memset{stream, block, 0x5a, 1, kMost});
  std::vector<std::byte> file(100'000);
  client.ReceiveTo(11, file.data());
  const std::uint64_t status = PostFile(FileWrite{stream, 1, block, 0, file.size(), 11, 0});
  PostAdd(stream, block, 1, 5);
  ASSERT_TRUE(client.Await([&](const Received& received) {
    std::size_t bytes = 0;
    for (const Chunk& chunk : received.chunks) bytes += chunk.bytes;
    return bytes == file.size();
  }));
  EXPECT_EQ(std::count(file.begin(), file.end(), std::byte{0x5a}), 100'000);
  EXPECT_EQ(client.Call(MemoryInfo{}).result, CUDA_SUCCESS);
  EXPECT_EQ(Count(gpu.Log(), "add 1"), 0U);
  client.Post(FileDone{11, 50'000, ENOSPC, 0});
  ExpectOutcome(status, 50'000, FileResult::kSystem, ENOSPC);
  EXPECT_EQ(ReadWord(stream, block), 0x5a5a5a5aU + 5);
}

TEST_F(FileTest, AWriteDoesNotEndBeforeItsBytesWereSent) {
  expect_end_ok_ = false;
  ASSERT_EQ(client.Call(FileOpen{1}).outcome, 0);
  gpu.Hold(1);
  std::vector<std::byte> file(100'000);
  client.ReceiveTo(11, file.data());
  PostFile(FileWrite{stream, 1, block, 0, file.size(), 11, 0});
  ASSERT_TRUE(gpu.WaitForLog("from-device 1", 4));  // All slots.
  client.Post(FileDone{11, file.size(), 0, 0});
  EXPECT_EQ(loopback.AwaitEnd().message(),
            "the end of file transfer 11 before all its bytes were sent");
}

TEST_F(FileTest, RefusedCopiesOfTheClientsFilesLeaveNothingBehind) {
  ASSERT_EQ(client.Call(FileOpen{1}).outcome, 0);
  for (std::uint64_t i = 1; i <= 3; ++i) {
    const std::uint64_t nowhere = kWindow + kWindowBytes;
    ExpectOutcome(PostFile(FileRead{stream, 1, nowhere, 0, 100, 2 * i, 0}), 0,
                  FileResult::kInvalidMemory);
    ExpectOutcome(PostFile(FileWrite{stream, 1, nowhere, 0, 100, 2 * i + 1, 0}), 0,
                  FileResult::kInvalidMemory);
    ASSERT_TRUE(client.Await(
        [&](const Received& received) { return received.failed_transfers.size() == i; }));
    client.Post(FileDone{2 * i + 1, 0, 0, 0});
  }
  // The numbers are free again.
  const std::uint64_t status = PostFile(FileRead{stream, 1, block, 0, 100, 2, 0});
  AwaitWanted(2);
  client.SendChunks(2, Pattern(100, 1));
  client.Post(FileDone{2, 100, 0, 100});
  ExpectOutcome(status, 100);
}

TEST_F(FileTest, ALostDeviceEndsThemAll) {
  const UniqueFd fd = NewFile(Pattern(kMost, 1));
  ASSERT_EQ(Share(1, fd.get()), FileResult::kSuccess);
  ASSERT_EQ(client.Call(FileOpen{2}).outcome, 0);
  const std::uint64_t other = loopback.NewStream();
  PostFile(FileRead{stream, 2, block, 0, 100, 2, 0});
  AwaitWanted(2);
  PostFile(FileRead{stream, 1, block, 0, kMost, 0, 0});
  for (int i = 0; i < 20; ++i) PostFile(FileRead{other, 1, block, 0, kMost, 0, 0});
  PostLaunch(loopback.NewStream(), loopback.FindKernel(module(), "faults"));
  EXPECT_NE(client.Call(DeviceSynchronize{}).result, CUDA_SUCCESS);
  client.SendChunks(2, Pattern(100, 1));
  client.Post(FileDone{2, 100, 0, 100});
  EXPECT_NE(client.Call(StreamSynchronize{stream}).result, CUDA_SUCCESS);
  EXPECT_EQ(client.Now().faults.size(), 1U);
}

TEST_F(FileTest, TheSessionMayEndMeanwhile) {
  const UniqueFd fd = NewFile(Pattern(kMost, 1));
  ASSERT_EQ(Share(1, fd.get()), FileResult::kSuccess);
  for (int i = 0; i < 50; ++i) PostFile(FileRead{loopback.NewStream(), 1, block, 0, kMost, 0, 0});
  // No wait before TearDown.
  client.HoldChunks(true);
}

}  // namespace
}  // namespace cuspan::proxy
