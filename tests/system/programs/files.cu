// Files read into device memory and written from it: include/cuspan/file.h.
//
//   files random FILE OPERATIONS SEED [direct]   random operations of several streams, and a model
//   files sizes FILE                             reads and writes of many sizes, at all alignments
//   files large FILE MEBIBYTES                   a whole file there and back
//   files bad FILE FOLDER                        a line for the result of each bad call
//   files many FILE COUNT                        opens one file COUNT times
//   files devices FILE                           one file, read and written by two devices
//   files resets FILE                            resets of the device with open files
//   files waits FILE                             reads and writes behind a kernel that waits
//   files threads FILE                           threads open, use and close files
//   files endless FILE                           reads and writes until it is killed
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "open_file.h"
#include "whole_files.h"

namespace {

int failures = 0;

__global__ void AddToBytes(unsigned char* bytes, size_t count, unsigned char value) {
  for (size_t i = threadIdx.x; i < count; i += blockDim.x) bytes[i] += value;
}

__managed__ int managed_word;

void ExpectEqual(const Contents& found, const Contents& expected, const char* what) {
  const size_t common = std::min(found.size(), expected.size());
  const auto differ = std::mismatch(found.begin(), found.begin() + common, expected.begin());
  EXPECT(found.size() == expected.size(), "%s: %zu bytes instead of %zu", what, found.size(),
         expected.size());
  EXPECT(differ.first == found.begin() + common, "%s: byte %zu differs", what,
         static_cast<size_t>(differ.first - found.begin()));
}

void ExpectDone(const cuspanFileStatus_t& status, int64_t bytes, const char* what) {
  EXPECT(status.result == CUSPAN_FILE_SUCCESS && status.bytes == bytes,
         "%s: result %d, error %d, %lld bytes instead of %lld", what, status.result, status.error,
         static_cast<long long>(status.bytes), static_cast<long long>(bytes));
}

// A stream with memory and a part of the file of its own.
class Lane {
 public:
  static constexpr size_t kMemory = size_t{3} << 20;
  static constexpr size_t kPart = size_t{2} << 20;

  Lane(int number, Contents* file) : part_(number * kPart), file_(*file), memory_(kMemory) {
    CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&device_, kMemory));
    CHECK(cudaMemset(device_, 0, kMemory));
    CHECK(cudaDeviceSynchronize());
  }

  void Do(cuspanFile_t file, std::mt19937& random) {
    const size_t place = random() % kMemory;
    size_t bytes = 1 + random() % (random() % 8 == 0 ? kPart : size_t{5000});
    const size_t offset = part_ + random() % kPart;
    bytes = std::min({bytes, kMemory - place, part_ + kPart - offset});
    switch (random() % 4) {
      case 0: {
        const size_t there = offset < file_.size() ? std::min(bytes, file_.size() - offset) : 0;
        NewStatus(there);
        FILE_CHECK(cuspanFileRead(file, device_ + place, bytes, static_cast<int64_t>(offset),
                                  stream_, statuses_.back().get()));
        std::copy_n(file_.begin() + static_cast<long>(std::min(offset, file_.size())), there,
                    memory_.begin() + static_cast<long>(place));
        break;
      }
      case 1:
        // Only in the file's size at the start: the lanes would disagree about its end.
        if (offset >= file_.size()) break;
        bytes = std::min(bytes, file_.size() - offset);
        NewStatus(bytes);
        FILE_CHECK(cuspanFileWrite(file, device_ + place, bytes, static_cast<int64_t>(offset),
                                   stream_, statuses_.back().get()));
        std::copy_n(memory_.begin() + static_cast<long>(place), bytes,
                    file_.begin() + static_cast<long>(offset));
        break;
      case 2: {
        const auto value = static_cast<unsigned char>(random());
        AddToBytes<<<1, 64, 0, stream_>>>(device_ + place, bytes, value);
        CHECK_LAUNCH();
        for (size_t i = 0; i < bytes; ++i) memory_[place + i] += value;
        break;
      }
      case 3:
        if (random() % 4 == 0) Check();
        break;
    }
  }

  void Check() {
    CHECK(cudaStreamSynchronize(stream_));
    for (size_t i = 0; i < statuses_.size(); ++i)
      ExpectDone(*statuses_[i], expected_[i], "an operation");
    statuses_.clear();
    expected_.clear();
  }

  void CheckMemory() {
    Check();
    Contents found(kMemory);
    CHECK(cudaMemcpyAsync(found.data(), device_, kMemory, cudaMemcpyDeviceToHost, stream_));
    CHECK(cudaStreamSynchronize(stream_));
    ExpectEqual(found, memory_, "device memory");
  }

 private:
  void NewStatus(size_t bytes) {
    statuses_.push_back(std::make_unique<cuspanFileStatus_t>());
    expected_.push_back(static_cast<int64_t>(bytes));
  }

  const size_t part_;
  Contents& file_;
  Contents memory_;
  cudaStream_t stream_ = nullptr;
  unsigned char* device_ = nullptr;
  std::vector<std::unique_ptr<cuspanFileStatus_t>> statuses_;
  std::vector<int64_t> expected_;
};

void RandomOperations(const char* path, long operations, unsigned seed, bool direct) {
  constexpr int kLanes = 4;
  Contents contents = Random(kLanes * Lane::kPart - 700'001, seed);
  WriteWhole(path, contents);
  std::mt19937 random(seed);
  {
    File file(path, O_RDWR | (direct ? O_DIRECT : 0), 0);
    std::vector<std::unique_ptr<Lane>> lanes;
    for (int i = 0; i < kLanes; ++i) lanes.push_back(std::make_unique<Lane>(i, &contents));
    for (long i = 0; i < operations; ++i) lanes[random() % kLanes]->Do(file.file, random);
    for (const auto& lane : lanes) lane->CheckMemory();
  }
  ExpectEqual(ReadWhole(path), contents, "the file");
}

void Sizes(const char* path) {
  constexpr size_t kWhole = (size_t{5} << 20) + 123;
  Contents contents = Random(kWhole, 5);
  WriteWhole(path, contents);
  unsigned char* device = nullptr;
  CHECK(cudaMalloc(&device, kWhole));
  for (const int flags : {O_RDWR, O_RDWR | O_DIRECT}) {
    File file(path, flags, 0);
    for (const size_t bytes : {0, 1, 4095, 4096, 4097, 65'536, 65'537, 1'048'576, 3'000'001}) {
      for (const size_t offset : {0, 1, 511, 4096, 1'048'575, 1'048'577}) {
        // Its old contents must stay around the read bytes.
        CHECK(cudaMemset(device, 9, kWhole));
        const size_t place = (bytes + offset) % 7;
        cuspanFileStatus_t status = {-1, -1, -1};
        FILE_CHECK(cuspanFileRead(file.file, device + place, bytes, static_cast<int64_t>(offset),
                                  nullptr, &status));
        CHECK(cudaStreamSynchronize(nullptr));
        ExpectDone(status, static_cast<int64_t>(bytes), "a read");
        Contents expected(kWhole, 9);
        std::copy_n(contents.begin() + static_cast<long>(offset), bytes,
                    expected.begin() + static_cast<long>(place));
        Contents found(kWhole);
        CHECK(cudaMemcpy(found.data(), device, kWhole, cudaMemcpyDeviceToHost));
        ExpectEqual(found, expected, "memory with a part of the file");
        // And back, elsewhere.
        const size_t there = (offset + 77'777) % (kWhole - bytes);
        FILE_CHECK(cuspanFileWrite(file.file, device + place, bytes, static_cast<int64_t>(there),
                                   nullptr, &status));
        CHECK(cudaStreamSynchronize(nullptr));
        ExpectDone(status, static_cast<int64_t>(bytes), "a write");
        std::copy_n(expected.begin() + static_cast<long>(place), bytes,
                    contents.begin() + static_cast<long>(there));
      }
    }
    // Reads at and behind the end.
    for (const int64_t behind : {int64_t{-5}, int64_t{0}, int64_t{1'000'000}, int64_t{1} << 40}) {
      cuspanFileStatus_t status = {-1, -1, -1};
      FILE_CHECK(cuspanFileRead(file.file, device, 100'000, static_cast<int64_t>(kWhole) + behind,
                                nullptr, &status));
      CHECK(cudaStreamSynchronize(nullptr));
      ExpectDone(status, behind < 0 ? -behind : 0, "a read behind the end");
    }
  }
  ExpectEqual(ReadWhole(path), contents, "the file");
  // A write makes it longer; a file without a name, and a closed descriptor, stay usable.
  File file(path, O_RDWR, 0);
  ::unlink(path);
  cuspanFileStatus_t status = {-1, -1, -1};
  FILE_CHECK(cuspanFileWrite(file.file, device, 10'000, kWhole + 50'000, nullptr, &status));
  CHECK(cudaStreamSynchronize(nullptr));
  ExpectDone(status, 10'000, "a write behind the end");
  EXPECT(::lseek(file.fd, 0, SEEK_END) == static_cast<off_t>(kWhole + 60'000), "the file's size");
  const int closed = ::dup(file.fd);
  cuspanFile_t other = nullptr;
  FILE_CHECK(cuspanFileOpenFd(&other, closed, 0));
  ::close(closed);
  FILE_CHECK(cuspanFileRead(other, device, 20'000, kWhole + 45'000, nullptr, &status));
  FILE_CHECK(cuspanFileClose(other));
  CHECK(cudaStreamSynchronize(nullptr));
  ExpectDone(status, 15'000, "a read of a file closed after it");
}

void Large(const char* path, long mebibytes) {
  const size_t bytes = (static_cast<size_t>(mebibytes) << 20) + 1;
  const Contents contents = Random(bytes, 3);
  WriteWhole(path, contents);
  unsigned char* device = nullptr;
  CHECK(cudaMalloc(&device, bytes));
  const std::string copy = std::string(path) + ".copy";
  {
    File from(path, O_RDONLY, 0);
    File to(copy.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0);
    cuspanFileStatus_t read = {-1, -1, -1};
    cuspanFileStatus_t written = {-1, -1, -1};
    FILE_CHECK(cuspanFileRead(from.file, device, bytes, 0, nullptr, &read));
    FILE_CHECK(cuspanFileWrite(to.file, device, bytes, 0, nullptr, &written));
    CHECK(cudaStreamSynchronize(nullptr));
    ExpectDone(read, static_cast<int64_t>(bytes), "the read");
    ExpectDone(written, static_cast<int64_t>(bytes), "the write");
  }
  ExpectEqual(ReadWhole(copy.c_str()), contents, "the copy");
  ::unlink(copy.c_str());
}

// Prints results that do not depend on addresses.
void Show(const char* what, int result) { std::printf("%s: %d\n", what, result); }

void Bad(const char* path, const char* folder) {
  WriteWhole(path, Random(100'000, 1));
  File file(path, O_RDWR, 0);
  unsigned char* device = nullptr;
  unsigned char* other = nullptr;
  CHECK(cudaMalloc(&device, 65'536));
  CHECK(cudaMalloc(&other, 65'536));
  void* managed = nullptr;
  void* pinned = nullptr;
  void* pool = nullptr;
  CHECK(cudaMallocManaged(&managed, 4096));
  CHECK(cudaMallocHost(&pinned, 4096));
  CHECK(cudaMallocAsync(&pool, 4096, nullptr));
  CHECK(cudaFree(other));
  unsigned char host[16];
  cuspanFileStatus_t status = {-1, -1, -1};
  cuspanFile_t made = nullptr;

  Show("no place for the handle", cuspanFileOpenFd(nullptr, file.fd, 0));
  Show("a negative descriptor", cuspanFileOpenFd(&made, -1, 0));
  Show("a descriptor that is not open", cuspanFileOpenFd(&made, 999'999, 0));
  Show("a negative device", cuspanFileOpenFd(&made, file.fd, -1));
  Show("a device that does not exist", cuspanFileOpenFd(&made, file.fd, 99));
  int pipes[2] = {-1, -1};
  if (::pipe(pipes) != 0) std::exit(EXIT_FAILURE);
  Show("a pipe", cuspanFileOpenFd(&made, pipes[0], 0));
  const int directory = ::open(folder, O_RDONLY | O_DIRECTORY);
  Show("a directory", cuspanFileOpenFd(&made, directory, 0));
  const int null = ::open("/dev/null", O_RDWR);
  Show("a device file", cuspanFileOpenFd(&made, null, 0));
  EXPECT(made == nullptr, "a handle after a failure");
  const int memory_file = ::memfd_create("files", MFD_CLOEXEC);
  Show("a file in memory", cuspanFileOpenFd(&made, memory_file, 0));
  Show("closing it", cuspanFileClose(made));
  Show("closing it again", cuspanFileClose(made));
  Show("closing nothing", cuspanFileClose(nullptr));
  Show("closing an address", cuspanFileClose(reinterpret_cast<cuspanFile_t>(host)));

  const auto read = [&](const char* what, cuspanFile_t from, void* to, size_t bytes, int64_t offset,
                        cudaStream_t stream = nullptr) {
    Show(what, cuspanFileRead(from, to, bytes, offset, stream, &status));
  };
  read("a read of a closed file", made, device, 10, 0);
  read("a read of no file", nullptr, device, 10, 0);
  read("a negative offset", file.file, device, 10, -1);
  read("a size of a negative number", file.file, device, static_cast<size_t>(-1), 0);
  read("a size and an offset that overflow", file.file, device, 1000, INT64_MAX - 10);
  read("host memory", file.file, host, sizeof host, 0);
  read("managed memory", file.file, managed, 10, 0);
  read("a managed variable", file.file, &managed_word, sizeof managed_word, 0);
  read("pinned memory", file.file, pinned, 10, 0);
  read("memory of a pool", file.file, pool, 10, 0);
  read("no memory", file.file, nullptr, 10, 0);
  read("freed memory", file.file, other, 10, 0);
  read("more than the allocation", file.file, device, 65'537, 0);
  read("the end of the allocation", file.file, device + 65'535, 2, 0);
  read("a stream that does not exist", file.file, device, 10, 0,
       reinterpret_cast<cudaStream_t>(host));
  Show("no place for the outcome", cuspanFileRead(file.file, device, 10, 0, nullptr, nullptr));
  Show("a write from host memory",
       cuspanFileWrite(file.file, host, sizeof host, 0, nullptr, &status));
  Show("a write from more than the allocation",
       cuspanFileWrite(file.file, device, 65'537, 0, nullptr, &status));
  {
    File only_read(path, O_RDONLY, 0);
    File only_write(path, O_WRONLY, 0);
    File appends(path, O_RDWR | O_APPEND, 0);
    Show("a write to a descriptor for reading",
         cuspanFileWrite(only_read.file, device, 10, 0, nullptr, &status));
    read("a read from a descriptor for writing", only_write.file, device, 10, 0);
    Show("a write with O_APPEND", cuspanFileWrite(appends.file, device, 10, 0, nullptr, &status));
  }
  cudaStream_t capturing = nullptr;
  CHECK(cudaStreamCreate(&capturing));
  CHECK(cudaStreamBeginCapture(capturing, cudaStreamCaptureModeRelaxed));
  read("a stream in capture", file.file, device, 10, 0, capturing);
  cudaGraph_t graph = nullptr;
  static_cast<void>(cudaStreamEndCapture(capturing, &graph));
  static_cast<void>(cudaGetLastError());

  // The system refuses it when the stream comes there: a full device.
  const int full = ::memfd_create("files", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (::ftruncate(full, 4096) != 0 || ::fcntl(full, F_ADD_SEALS, F_SEAL_GROW) != 0)
    std::exit(EXIT_FAILURE);
  FILE_CHECK(cuspanFileOpenFd(&made, full, 0));
  FILE_CHECK(cuspanFileWrite(made, device, 8192, 0, nullptr, &status));
  CHECK(cudaStreamSynchronize(nullptr));
  std::printf("a write that the system refuses: %d, errno %d\n", status.result, status.error);
  FILE_CHECK(cuspanFileClose(made));

  // Nothing of this has changed the file or the memory.
  FILE_CHECK(cuspanFileRead(file.file, device, 65'536, 100, nullptr, &status));
  Contents found(65'536);
  CHECK(cudaMemcpy(found.data(), device, found.size(), cudaMemcpyDeviceToHost));
  const Contents whole = Random(100'000, 1);
  ExpectEqual(found, Contents(whole.begin() + 100, whole.begin() + 65'636), "a read afterwards");
}

void Many(const char* path, long count) {
  WriteWhole(path, Random(5000, 1));
  const int fd = ::open(path, O_RDONLY);
  std::vector<cuspanFile_t> files;
  int result = CUSPAN_FILE_SUCCESS;
  for (long i = 0; i < count && result == CUSPAN_FILE_SUCCESS; ++i) {
    cuspanFile_t file = nullptr;
    result = cuspanFileOpenFd(&file, fd, 0);
    if (result == CUSPAN_FILE_SUCCESS) files.push_back(file);
  }
  std::printf("%zu files, then %d %s\n", files.size(), result, cuspanFileLastMessage());
  // Each one that is closed makes room.
  for (long i = 0; i < count; ++i) {
    FILE_CHECK(cuspanFileClose(files.back()));
    FILE_CHECK(cuspanFileOpenFd(&files.back(), fd, 0));
  }
  for (const cuspanFile_t file : files) FILE_CHECK(cuspanFileClose(file));
}

void Devices(const char* path) {
  constexpr size_t kBytes = (size_t{4} << 20) + 5;
  const Contents contents = Random(kBytes, 1);
  WriteWhole(path, contents);
  File first(path, O_RDWR, 0);
  File second(path, O_RDWR, 1);
  unsigned char* here = nullptr;
  unsigned char* there = nullptr;
  CHECK(cudaMalloc(&here, kBytes));
  CHECK(cudaSetDevice(1));
  CHECK(cudaMalloc(&there, kBytes));
  cuspanFileStatus_t statuses[4] = {};
  EXPECT(
      cuspanFileRead(first.file, there, 10, 0, nullptr, &statuses[0]) == CUSPAN_FILE_INVALID_MEMORY,
      "memory of another device");
  // All in one stream of the second device: each operation sees the ones before.
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreate(&stream));
  FILE_CHECK(cuspanFileRead(first.file, here, kBytes, 0, stream, &statuses[0]));
  FILE_CHECK(cuspanFileWrite(first.file, here, kBytes, kBytes, stream, &statuses[1]));
  FILE_CHECK(cuspanFileRead(second.file, there, kBytes, kBytes, stream, &statuses[2]));
  AddToBytes<<<1, 256, 0, stream>>>(there, kBytes, 1);
  CHECK_LAUNCH();
  FILE_CHECK(cuspanFileWrite(second.file, there, kBytes, 0, stream, &statuses[3]));
  CHECK(cudaStreamSynchronize(stream));
  for (const cuspanFileStatus_t& status : statuses) ExpectDone(status, kBytes, "an operation");
  Contents expected = contents;
  for (unsigned char& byte : expected) ++byte;
  expected.insert(expected.end(), contents.begin(), contents.end());
  ExpectEqual(ReadWhole(path), expected, "the file");
}

void Resets(const char* path) {
  constexpr size_t kBytes = size_t{8} << 20;
  const Contents contents = Random(kBytes, 1);
  WriteWhole(path, contents);
  const int fd = ::open(path, O_RDWR);
  static cuspanFileStatus_t statuses[40];
  for (int round = 0; round < 20; ++round) {
    cuspanFile_t file = nullptr;
    FILE_CHECK(cuspanFileOpenFd(&file, fd, 0));
    unsigned char* device = nullptr;
    CHECK(cudaMalloc(&device, kBytes));
    FILE_CHECK(cuspanFileRead(file, device, kBytes, 0, nullptr, &statuses[2 * round]));
    FILE_CHECK(cuspanFileWrite(file, device, kBytes, 0, nullptr, &statuses[2 * round + 1]));
    if (round % 2 == 0) {
      CHECK(cudaDeviceSynchronize());
      ExpectDone(statuses[2 * round], kBytes, "a read before the reset");
      ExpectDone(statuses[2 * round + 1], kBytes, "a write before the reset");
    }
    CHECK(cudaDeviceReset());
    EXPECT(cuspanFileRead(file, device, 10, 0, nullptr, &statuses[0]) == CUSPAN_FILE_INVALID_FILE,
           "a read after the reset");
    EXPECT(cuspanFileClose(file) == CUSPAN_FILE_INVALID_FILE, "closing after the reset");
  }
  ::close(fd);
}

__global__ void WaitFor(volatile int* word) {
  while (*word == 0) {
  }
}

// The host lets a kernel continue after a read in another stream, and after changing the file that
// is read behind the kernel.
void Waits(const char* path) {
  constexpr size_t kBytes = size_t{40} << 20;
  WriteWhole(path, Random(kBytes, 1));
  File file(path, O_RDWR, 0);
  unsigned char* device = nullptr;
  unsigned char* other = nullptr;
  int* word = nullptr;
  CHECK(cudaMalloc(&device, kBytes));
  CHECK(cudaMalloc(&other, kBytes));
  CHECK(cudaMallocHost(&word, sizeof *word));
  *word = 0;
  cudaStream_t behind = nullptr;
  cudaStream_t free = nullptr;
  CHECK(cudaStreamCreateWithFlags(&behind, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&free, cudaStreamNonBlocking));
  cuspanFileStatus_t statuses[4] = {};
  WaitFor<<<1, 1, 0, behind>>>(word);
  CHECK_LAUNCH();
  FILE_CHECK(cuspanFileRead(file.file, device, kBytes, 0, behind, &statuses[0]));
  FILE_CHECK(cuspanFileRead(file.file, device, 0, 0, behind, &statuses[1]));
  FILE_CHECK(cuspanFileWrite(file.file, device, kBytes, kBytes, behind, &statuses[2]));
  FILE_CHECK(cuspanFileRead(file.file, other, kBytes, 0, free, &statuses[3]));
  CHECK(cudaStreamSynchronize(free));
  ExpectDone(statuses[3], kBytes, "the read of the other stream");
  EXPECT(cudaStreamQuery(behind) == cudaErrorNotReady, "the kernel still waits");
  EXPECT(statuses[0].result == CUSPAN_FILE_PENDING, "a read before its turn");
  const Contents changed = Random(kBytes, 2);
  EXPECT(::pwrite(file.fd, changed.data(), kBytes, 0) == static_cast<ssize_t>(kBytes), "pwrite");
  __atomic_store_n(word, 1, __ATOMIC_RELEASE);
  CHECK(cudaDeviceSynchronize());
  ExpectDone(statuses[0], kBytes, "the read behind the kernel");
  ExpectDone(statuses[1], 0, "the read of nothing");
  ExpectDone(statuses[2], kBytes, "the write behind the kernel");
  Contents expected = changed;
  expected.insert(expected.end(), changed.begin(), changed.end());
  ExpectEqual(ReadWhole(path), expected, "the file");
}

// Some calls come after another thread has closed the file: they are refused.
void Threads(const char* path) {
  WriteWhole(path, Random(1 << 20, 1));
  std::vector<std::thread> threads;
  std::atomic<cuspanFile_t> common{nullptr};
  std::atomic<int> wrong{0};
  for (int i = 0; i < 6; ++i)
    threads.emplace_back([&, i] {
      std::mt19937 random(i);
      unsigned char* device = nullptr;
      cudaStream_t stream = nullptr;
      CHECK(cudaMalloc(&device, 1 << 20));
      CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
      for (int round = 0; round < 200; ++round) {
        if (i < 2) {
          const int fd = ::open(path, O_RDONLY);
          cuspanFile_t file = nullptr;
          FILE_CHECK(cuspanFileOpenFd(&file, fd, 0));
          ::close(fd);
          if (const cuspanFile_t before = common.exchange(file))
            FILE_CHECK(cuspanFileClose(before));
          continue;
        }
        cuspanFileStatus_t status = {};
        const size_t bytes = random() % (1 << 20);
        const int result = cuspanFileRead(common.load(), device, bytes, 0, stream, &status);
        if (result == CUSPAN_FILE_SUCCESS) {
          CHECK(cudaStreamSynchronize(stream));
          if (status.result != CUSPAN_FILE_SUCCESS || status.bytes != static_cast<int64_t>(bytes))
            ++wrong;
        } else if (result != CUSPAN_FILE_INVALID_FILE) {
          ++wrong;
        }
      }
      CHECK(cudaFree(device));
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT(wrong == 0, "%d wrong results", wrong.load());
  FILE_CHECK(cuspanFileClose(common.load()));
}

[[noreturn]] void Endless(const char* path) {
  constexpr size_t kBytes = size_t{16} << 20;
  WriteWhole(path, Random(kBytes, 1));
  File file(path, O_RDWR, 0);
  unsigned char* device = nullptr;
  CHECK(cudaMalloc(&device, kBytes));
  cuspanFileStatus_t status = {-1, -1, -1};
  for (bool said = false;; said = true) {
    FILE_CHECK(cuspanFileRead(file.file, device, kBytes, 0, nullptr, &status));
    FILE_CHECK(cuspanFileWrite(file.file, device, kBytes, 0, nullptr, &status));
    if (!said) {
      std::puts("at work");
      std::fflush(stdout);
    }
    CHECK(cudaStreamSynchronize(nullptr));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 2 ? argv[1] : "";
  if (mode == "random") {
    RandomOperations(argv[2], NumberArgument(argc, argv, 3, 100, 1, 10'000'000),
                     static_cast<unsigned>(NumberArgument(argc, argv, 4, 1, 0, 1'000'000)),
                     argc > 5);
  } else if (mode == "sizes") {
    Sizes(argv[2]);
  } else if (mode == "large") {
    Large(argv[2], NumberArgument(argc, argv, 3, 64, 1, 100'000));
  } else if (mode == "bad" && argc > 3) {
    Bad(argv[2], argv[3]);
  } else if (mode == "many") {
    Many(argv[2], NumberArgument(argc, argv, 3, 1100, 1, 100'000));
  } else if (mode == "devices") {
    Devices(argv[2]);
  } else if (mode == "resets") {
    Resets(argv[2]);
  } else if (mode == "waits") {
    Waits(argv[2]);
  } else if (mode == "threads") {
    Threads(argv[2]);
  } else if (mode == "endless") {
    Endless(argv[2]);
  } else {
    std::fprintf(stderr, "usage: see the beginning of files.cu\n");
    return 2;
  }
  std::printf("files %s: %s\n", mode.c_str(), failures == 0 ? "PASS" : "FAIL");
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
