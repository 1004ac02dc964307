// Reads a file into device memory; a program as its users would write it.
//
//   bench-store-program WAY FILE ROUNDS [direct] [LIBRARY]
//
// WAY: threads (8 threads, each with two page-locked buffers of 1 MiB), pipeline (one thread with
// two buffers of 4 MiB), file (cuspanFileRead), cufile (one cuFileRead) or cufile-threads (8
// threads with cuFileRead of 16 MiB) read the whole file and print GB/s for each round.
// small-buffer (through a page-locked buffer), small-file (cuspanFileRead) and small-cufile
// (cuFileRead) read 4 KiB at a time, wait each time, and print microseconds per read. "direct":
// without the page cache. LIBRARY: a libcufile.so.0.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "bench/common/check_cuda.h"
#include "include/cuspan/file.h"
#include "interpose/cufile/api.h"

namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kSmall = 4096;
constexpr int kSmallReads = 2000;

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(2);
}

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Two page-locked buffers used by turns.
class Buffers {
 public:
  explicit Buffers(size_t bytes) : bytes_(bytes) {
    CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    for (int i = 0; i < 2; ++i) {
      CHECK(cudaMallocHost(&memory_[i], bytes));
      CHECK(cudaEventCreateWithFlags(&free_[i], cudaEventDisableTiming));
    }
  }
  // Copies every `step`-th part of the file, from part `first` on.
  void Copy(int fd, char* device, size_t size, size_t first, size_t step) {
    for (size_t at = first * bytes_; at < size; at += step * bytes_, turn_ ^= 1) {
      const size_t count = std::min(bytes_, size - at);
      CHECK(cudaEventSynchronize(free_[turn_]));
      if (::pread(fd, memory_[turn_], count, static_cast<off_t>(at)) < static_cast<ssize_t>(count))
        Fail("pread: " + std::string(std::strerror(errno)));
      CHECK(cudaMemcpyAsync(device + at, memory_[turn_], count, cudaMemcpyHostToDevice, stream_));
      CHECK(cudaEventRecord(free_[turn_], stream_));
    }
    CHECK(cudaStreamSynchronize(stream_));
  }

 private:
  const size_t bytes_;
  cudaStream_t stream_ = nullptr;
  char* memory_[2] = {};
  cudaEvent_t free_[2] = {};
  int turn_ = 0;
};

// cuspanFileRead, found at run time: without cuspan there is no library.
class DeviceFile {
 public:
  explicit DeviceFile(int fd) {
    void* const library = ::dlopen("libcuspan-store.so.0", RTLD_NOW);
    if (library == nullptr) Fail(::dlerror());
    const auto open =
        reinterpret_cast<decltype(&cuspanFileOpenFd)>(::dlsym(library, "cuspanFileOpenFd"));
    read_ = reinterpret_cast<decltype(read_)>(::dlsym(library, "cuspanFileRead"));
    if (open == nullptr || read_ == nullptr || open(&file_, fd, 0) != CUSPAN_FILE_SUCCESS)
      Fail("the file can not be opened for the device");
    CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }
  void Read(char* device, size_t bytes, size_t offset) {
    cuspanFileStatus_t status = {};
    if (read_(file_, device, bytes, static_cast<int64_t>(offset), stream_, &status) !=
        CUSPAN_FILE_SUCCESS)
      Fail("the read was refused");
    CHECK(cudaStreamSynchronize(stream_));
    if (status.result != CUSPAN_FILE_SUCCESS || status.bytes != static_cast<int64_t>(bytes))
      Fail("the read has failed");
  }

 private:
  cuspanFile_t file_ = nullptr;
  decltype(&cuspanFileRead) read_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

// cuFileRead of a library.
class CufileFile {
 public:
  CufileFile(const char* path, int fd) {
    namespace cufile = cuspan::cufile;
    void* const library = ::dlopen(path, RTLD_NOW);
    if (library == nullptr) Fail(::dlerror());
    const auto add = reinterpret_cast<cufile::CallResult (*)(void**, cufile::Descriptor*)>(
        ::dlsym(library, "cuFileHandleRegister"));
    read_ = reinterpret_cast<decltype(read_)>(::dlsym(library, "cuFileRead"));
    cufile::Descriptor descriptor = {};
    descriptor.type = cufile::Descriptor::kFileDescriptor;
    descriptor.fd = fd;
    if (add == nullptr || read_ == nullptr) Fail(std::string(path) + " is no libcufile");
    if (const int code = add(&handle_, &descriptor).code; code != 0)
      Fail("cuFileHandleRegister returns " + std::to_string(code));
  }
  void Read(char* device, size_t bytes, size_t offset) {
    const ssize_t done = read_(handle_, device, bytes, static_cast<off_t>(offset), 0);
    if (done != static_cast<ssize_t>(bytes)) Fail("cuFileRead returns " + std::to_string(done));
  }
  // The same by 8 threads.
  void ReadByThreads(char* device, size_t bytes) {
    constexpr size_t kThreads = 8;
    constexpr size_t kPart = size_t{16} << 20;
    std::vector<std::thread> threads;
    for (size_t i = 0; i < kThreads; ++i)
      threads.emplace_back([=] {
        for (size_t at = i * kPart; at < bytes; at += kThreads * kPart)
          Read(device + at, std::min(kPart, bytes - at), at);
      });
    for (std::thread& thread : threads) thread.join();
  }

 private:
  void* handle_ = nullptr;
  ssize_t (*read_)(void*, void*, size_t, off_t, off_t) = nullptr;
};

// Calls read(number) for each of the small reads.
template <typename Read>
double SmallReads(Read&& read) {
  const auto start = Clock::now();
  for (int i = 0; i < kSmallReads; ++i) read(i);
  return SecondsSince(start) / kSmallReads * 1e6;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) Fail("usage: see the beginning of program.cu");
  const std::string way = argv[1];
  bool direct = false;
  const char* library = "libcufile.so.0";
  for (int i = 4; i < argc; ++i)
    if (std::strcmp(argv[i], "direct") == 0)
      direct = true;
    else
      library = argv[i];
  const int fd = ::open(argv[2], O_RDONLY | (direct ? O_DIRECT : 0));
  struct stat facts {};
  if (fd < 0 || ::fstat(fd, &facts) != 0) Fail(std::string(argv[2]) + ": " + std::strerror(errno));
  const auto size = static_cast<size_t>(facts.st_size);
  const auto small_offset = [size](int i) { return kSmall * static_cast<size_t>(i) % size; };
  char* device = nullptr;
  CHECK(cudaMalloc(&device, size));
  std::vector<Buffers> buffers;
  std::vector<DeviceFile> files;
  std::vector<CufileFile> cufiles;
  if (way == "cufile" || way == "cufile-threads" || way == "small-cufile")
    cufiles.emplace_back(library, fd);
  if (way == "threads")
    for (int i = 0; i < 8; ++i) buffers.emplace_back(size_t{1} << 20);
  if (way == "pipeline") buffers.emplace_back(size_t{4} << 20);
  if (way == "file" || way == "small-file") files.emplace_back(fd);
  char* small = nullptr;
  cudaStream_t stream = nullptr;
  CHECK(cudaMallocHost(&small, kSmall));
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const auto read_once = [&]() -> double {
    if (way == "small-buffer")
      return SmallReads([&](int i) {
        if (::pread(fd, small, kSmall, static_cast<off_t>(small_offset(i))) < 0) Fail("pread");
        CHECK(cudaMemcpyAsync(device, small, kSmall, cudaMemcpyHostToDevice, stream));
        CHECK(cudaStreamSynchronize(stream));
      });
    if (way == "small-file")
      return SmallReads([&](int i) { files.front().Read(device, kSmall, small_offset(i)); });
    if (way == "small-cufile")
      return SmallReads([&](int i) { cufiles.front().Read(device, kSmall, small_offset(i)); });
    const auto start = Clock::now();
    if (way == "threads") {
      std::vector<std::thread> threads;
      for (size_t i = 0; i < buffers.size(); ++i)
        threads.emplace_back([&, i] { buffers[i].Copy(fd, device, size, i, buffers.size()); });
      for (std::thread& thread : threads) thread.join();
    } else if (way == "pipeline") {
      buffers.front().Copy(fd, device, size, 0, 1);
    } else if (way == "file") {
      files.front().Read(device, size, 0);
    } else if (way == "cufile") {
      cufiles.front().Read(device, size, 0);
    } else if (way == "cufile-threads") {
      cufiles.front().ReadByThreads(device, size);
    } else {
      Fail("unknown way " + way);
    }
    return static_cast<double>(size) / SecondsSince(start) / 1e9;
  };
  read_once();  // Fills caches, here and in the driver.
  for (int round = std::atoi(argv[3]); round > 0; --round) std::printf("%.4f\n", read_once());
  return 0;
}
