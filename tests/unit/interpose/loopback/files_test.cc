// Files of the program, through the whole client: its devices are on another node, so that it reads
// and writes them itself.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "common/unique_fd.h"
#include "interpose/calls/file.h"
#include "interpose/client/files.h"
#include "tests/unit/interpose/loopback/loopback.h"

namespace cuspan {
namespace {

constexpr std::size_t kWholeFile = 300'000;

class FilesTest : public LoopbackTest {
 protected:
  FilesTest() : fd_(::memfd_create("file", MFD_CLOEXEC)) {
    for (std::size_t i = 0; i < kWholeFile; ++i)
      contents_.push_back(static_cast<std::byte>(i * 7 + i / 251));
    EXPECT_EQ(::pwrite(fd_.get(), contents_.data(), kWholeFile, 0),
              static_cast<ssize_t>(kWholeFile));
    void* memory = nullptr;
    EXPECT_CUDA(cudaMalloc(&memory, kWholeFile));
    memory_ = static_cast<std::byte*>(memory);
    EXPECT_EQ(OpenProgramFile(fd_.get(), 0, &file_).result, FileResult::kSuccess);
  }
  ~FilesTest() override { EXPECT_EQ(CloseFile(file_).result, FileResult::kSuccess); }

  // Posts a read or write of the whole memory's first bytes; returns the place of its outcome.
  const FileStatus& Read(std::size_t bytes, std::int64_t offset, cudaStream_t stream) {
    outcomes_.emplace_back();
    EXPECT_EQ(ReadFile({file_, memory_, bytes, offset, stream, &outcomes_.back()}).result,
              FileResult::kSuccess);
    return outcomes_.back();
  }
  const FileStatus& Write(std::size_t bytes, std::int64_t offset, cudaStream_t stream) {
    outcomes_.emplace_back();
    EXPECT_EQ(WriteFile({file_, memory_, bytes, offset, stream, &outcomes_.back()}).result,
              FileResult::kSuccess);
    return outcomes_.back();
  }
  std::vector<std::byte> Memory() const {
    std::vector<std::byte> found(kWholeFile);
    EXPECT_CUDA(cudaMemcpy(found.data(), memory_, kWholeFile, cudaMemcpyDeviceToHost));
    return found;
  }
  std::vector<std::byte> File() const {
    std::vector<std::byte> found(static_cast<std::size_t>(::lseek(fd_.get(), 0, SEEK_END)));
    EXPECT_EQ(::pread(fd_.get(), found.data(), found.size(), 0),
              static_cast<ssize_t>(found.size()));
    return found;
  }

  const UniqueFd fd_;
  std::vector<std::byte> contents_;
  std::byte* memory_ = nullptr;
  std::uint64_t file_ = 0;
  std::deque<FileStatus> outcomes_;
};

TEST_F(FilesTest, IsReadUpToItsEnd) {
  const cudaStream_t stream = NewStream();
  const FileStatus& whole = Read(kWholeFile, 0, stream);
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(whole.bytes, static_cast<std::int64_t>(kWholeFile));
  EXPECT_EQ(Memory(), contents_);
  const FileStatus& end = Read(kWholeFile, kWholeFile - 5000, stream);
  const FileStatus& behind = Read(10, kWholeFile, stream);
  const FileStatus& none = Read(0, 0, stream);
  ASSERT_CUDA(cudaDeviceSynchronize());
  EXPECT_EQ(end.bytes, 5000);
  EXPECT_EQ(behind.bytes, 0);
  EXPECT_EQ(none.result, FileResult::kSuccess);
  std::copy(contents_.end() - 5000, contents_.end(), contents_.begin());
  EXPECT_EQ(Memory(), contents_);
}

TEST_F(FilesTest, IsWrittenWithSmallAndLargeCopiesBetween) {
  const cudaStream_t stream = NewStream();
  const cudaStream_t other = NewStream();
  ASSERT_CUDA(cudaMemset(memory_, 0x5a, kWholeFile));
  ASSERT_CUDA(cudaDeviceSynchronize());
  std::vector<std::byte> copy(kWholeFile);
  for (const std::size_t bytes : {1, 4000, 4096, 4097, 100'000}) {
    for (int i = 0; i < 20; ++i) {
      Write(bytes, 1000 * i, stream);
      ASSERT_CUDA(cudaMemcpyAsync(copy.data(), memory_, bytes, cudaMemcpyDeviceToHost, other));
    }
    ASSERT_CUDA(cudaStreamSynchronize(stream));
    for (const FileStatus& outcome : outcomes_) {
      EXPECT_EQ(outcome.result, FileResult::kSuccess);
      EXPECT_EQ(outcome.bytes, static_cast<std::int64_t>(bytes));
    }
    outcomes_.clear();
    for (int i = 0; i < 20; ++i) std::fill_n(contents_.begin() + 1000 * i, bytes, std::byte{0x5a});
    EXPECT_EQ(File(), contents_);
  }
}

TEST_F(FilesTest, ReadsAndWritesAreInOrderWithTheStream) {
  const cudaStream_t stream = NewStream();
  Hold(stream);
  const FileStatus& read = Read(kWholeFile, 0, stream);
  const FileStatus& written = Write(kWholeFile, 10, stream);
  ASSERT_CUDA(cudaMemsetAsync(memory_, 0, kWholeFile, stream));
  EXPECT_EQ(read.result, FileResult::kPending);
  EXPECT_EQ(File(), contents_);
  Let(stream);
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(read.result, FileResult::kSuccess);
  EXPECT_EQ(written.bytes, static_cast<std::int64_t>(kWholeFile));
  std::vector<std::byte> expected(contents_.begin(), contents_.begin() + 10);
  expected.insert(expected.end(), contents_.begin(), contents_.end());
  EXPECT_EQ(File(), expected);
  EXPECT_EQ(Memory(), std::vector<std::byte>(kWholeFile));
}

TEST_F(FilesTest, AnOlderFailureIsLeftToTheNextCallOfCuda) {
  const cudaStream_t stream = NewStream();
  gpu().Refuse("set", CUDA_ERROR_INVALID_VALUE);
  ASSERT_CUDA(cudaMemsetAsync(memory_, 0, 10, stream));
  const FileStatus& read = Read(kWholeFile, 0, stream);
  EXPECT_CUDA_ERROR(cudaStreamSynchronize(stream), cudaErrorInvalidValue);
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(read.bytes, static_cast<std::int64_t>(kWholeFile));
}

TEST_F(FilesTest, FailuresOfTheDeviceAreInTheOutcome) {
  const cudaStream_t stream = NewStream();
  gpu().Refuse("to-device", CUDA_ERROR_INVALID_VALUE);
  gpu().Refuse("from-device", CUDA_ERROR_INVALID_VALUE);
  const FileStatus& read = Read(kWholeFile, 0, stream);
  const FileStatus& written = Write(kWholeFile, 0, stream);
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  for (const FileStatus* const outcome : {&read, &written}) {
    EXPECT_EQ(outcome->result, FileResult::kDevice);
    EXPECT_EQ(outcome->error, CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(outcome->bytes, 0);
  }
  gpu().Refuse("to-device", CUDA_SUCCESS);
  gpu().Refuse("from-device", CUDA_SUCCESS);
  EXPECT_EQ(File(), contents_);
}

TEST_F(FilesTest, ALostDeviceLeavesTheOutcomePending) {
  const cudaStream_t stream = NewStream();
  Hold(stream);
  const FileStatus& read = Read(kWholeFile, 0, stream);
  LoseProxy(0);
  EXPECT_CUDA_ERROR(cudaStreamSynchronize(stream), cudaErrorDevicesUnavailable);
  EXPECT_EQ(read.result, FileResult::kPending);
}

// A lost channel ends operations while another one is being posted.
TEST_F(FilesTest, EveryOperationOfALostDeviceEndsOnce) {
  Files& files = session().TableOf<Files>();
  const std::shared_ptr<const ProgramFile> file = files.Find(file_);
  ASSERT_NE(file, nullptr);
  const StreamTarget there{file->connection};
  const FileExtent extent{reinterpret_cast<std::uintptr_t>(memory_), 4096, 0};
  constexpr int kOperations = 200;
  std::vector<std::atomic<int>> ends(kOperations);
  std::vector<bool> posted;
  std::deque<FileStatus> statuses(kOperations);
  for (int i = 0; i < kOperations; ++i) {
    if (i == kOperations / 2) LoseProxy(0);
    const auto end = [&ends, i](CUresult) { ++ends[static_cast<std::size_t>(i)]; };
    FileStatus* const status = &statuses[static_cast<std::size_t>(i)];
    posted.push_back((i % 2 == 0 ? files.Read(file, there, extent, status, end)
                                 : files.Write(file, there, extent, status, end)) == CUDA_SUCCESS);
  }
  EXPECT_CUDA_ERROR(cudaDeviceSynchronize(), cudaErrorDevicesUnavailable);
  for (std::size_t i = 0; i < ends.size(); ++i) {
    while (posted[i] && ends[i] == 0) std::this_thread::yield();
    EXPECT_EQ(ends[i], posted[i] ? 1 : 0) << i;
  }
}

}  // namespace
}  // namespace cuspan
