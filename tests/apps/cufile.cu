// Files read and written by cuFile: all kinds of memory, offsets and sizes, batches, streams and
// threads.
//
//   cufile FOLDER [LIBRARY [GROUP]]
//
// FOLDER gets the files. LIBRARY instead of libcufile.so.0. GROUP: one group of tests only.
#include <cuda_runtime.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "cufile_library.h"

namespace {

std::atomic<int> failures{0};
const Cufile* cufile = nullptr;
std::string folder;

constexpr size_t kKib = 1024;
constexpr size_t kMib = 1024 * kKib;

// Content of a file at an offset: no part of a file is equal to another one.
__host__ __device__ unsigned char ByteAt(size_t offset, unsigned seed) {
  unsigned long long mixed = (offset + 1) * 0x9e3779b97f4a7c15ULL + seed * 0xc2b2ae3d27d4eb4fULL;
  mixed ^= mixed >> 29;
  return static_cast<unsigned char>(mixed * 0xbf58476d1ce4e5b9ULL >> 56);
}

__global__ void Fill(unsigned char* bytes, size_t count, size_t offset, unsigned seed) {
  const size_t step = size_t{gridDim.x} * blockDim.x;
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step)
    bytes[i] = ByteAt(offset + i, seed);
}

__global__ void CountDifferent(const unsigned char* bytes, size_t count, size_t offset,
                               unsigned seed, unsigned long long* different) {
  const size_t step = size_t{gridDim.x} * blockDim.x;
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step)
    if (bytes[i] != ByteAt(offset + i, seed)) atomicAdd(different, 1ULL);
}

constexpr int kBlocks = 4;
constexpr int kThreads = 64;

// Bytes of the file from `offset` on are where they should be.
void ExpectBytes(const void* memory, size_t count, size_t offset, unsigned seed, const char* what) {
  std::vector<unsigned char> found(count);
  CHECK(cudaMemcpy(found.data(), memory, count, cudaMemcpyDefault));
  size_t first = 0;
  while (first < count && found[first] == ByteAt(offset + first, seed)) ++first;
  EXPECT(first == count, "%s: byte %zu of %zu at offset %zu is wrong", what, first, count, offset);
}

// A registered file.
class File {
 public:
  File(const std::string& name, int flags, size_t bytes = 0, unsigned seed = 0)
      : path(folder + "/" + name) {
    if (bytes != 0) Write(bytes, seed);
    fd = open(path.c_str(), flags, 0600);
    if (fd < 0) {
      std::perror(path.c_str());
      std::exit(EXIT_FAILURE);
    }
    CUfileDescr_t descriptor{};
    descriptor.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
    descriptor.handle.fd = fd;
    CUFILE_CHECK(cufile->cuFileHandleRegister(&handle, &descriptor));
  }
  ~File() {
    cufile->cuFileHandleDeregister(handle);
    close(fd);
  }
  File(const File&) = delete;

  void ExpectContent(size_t bytes, size_t offset, unsigned seed, const char* what) const {
    std::vector<unsigned char> found(bytes);
    const int plain = open(path.c_str(), O_RDONLY);
    const ssize_t done = pread(plain, found.data(), bytes, static_cast<off_t>(offset));
    close(plain);
    EXPECT(done == static_cast<ssize_t>(bytes), "%s: the file has %zd of %zu bytes", what, done,
           bytes);
    size_t first = 0;
    while (first < bytes && found[first] == ByteAt(offset + first, seed)) ++first;
    EXPECT(first == bytes, "%s: byte %zu of the file is wrong", what, offset + first);
  }

  const std::string path;
  int fd = -1;
  CUfileHandle_t handle = nullptr;

 private:
  void Write(size_t bytes, unsigned seed) const {
    std::vector<unsigned char> content(bytes);
    for (size_t i = 0; i < bytes; ++i) content[i] = ByteAt(i, seed);
    const int plain = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (write(plain, content.data(), bytes) != static_cast<ssize_t>(bytes)) std::perror("write");
    close(plain);
  }
};

// Device memory.
class Memory {
 public:
  explicit Memory(size_t bytes) {
    CHECK(cudaMalloc(&bytes_, bytes));
    CHECK(cudaMemset(bytes_, 0, bytes));
    CHECK(cudaDeviceSynchronize());
  }
  ~Memory() { CHECK(cudaFree(bytes_)); }
  Memory(const Memory&) = delete;
  unsigned char* get() const { return bytes_; }

 private:
  unsigned char* bytes_ = nullptr;
};

void Sizes() {
  constexpr size_t kFile = 3 * kMib + 123;
  const Memory memory(4 * kMib);
  for (const int direct : {0, O_DIRECT}) {
    const File file("sizes", O_RDONLY | direct, kFile, 1);
    for (const size_t bytes :
         {size_t{1}, size_t{511}, size_t{4096}, size_t{65536}, kMib + 1, kFile}) {
      for (const size_t offset : {size_t{0}, size_t{1}, size_t{4096}, kMib, kFile - 5, kFile}) {
        for (const size_t place : {size_t{0}, size_t{3}, size_t{4096}}) {
          const ssize_t expected = static_cast<ssize_t>(std::min(bytes, kFile - offset));
          const ssize_t done =
              cufile->cuFileRead(file.handle, memory.get(), bytes, static_cast<off_t>(offset),
                                 static_cast<off_t>(place));
          EXPECT(done == expected, "read of %zu bytes at %zu: %zd", bytes, offset, done);
          if (done == expected)
            ExpectBytes(memory.get() + place, static_cast<size_t>(done), offset, 1, "sizes");
        }
      }
    }
  }
}

void Writes() {
  const Memory memory(2 * kMib);
  for (const int direct : {0, O_DIRECT}) {
    for (const size_t bytes : {size_t{1}, size_t{4096}, size_t{5000}, kMib + 1}) {
      for (const size_t offset : {size_t{0}, size_t{4096}, size_t{77}}) {
        const File file("writes", O_RDWR | O_CREAT | O_TRUNC | direct);
        Fill<<<kBlocks, kThreads>>>(memory.get() + 16, bytes, offset, 2);
        CHECK(cudaDeviceSynchronize());
        const ssize_t done =
            cufile->cuFileWrite(file.handle, memory.get(), bytes, static_cast<off_t>(offset), 16);
        EXPECT(done == static_cast<ssize_t>(bytes), "write of %zu bytes: %zd", bytes, done);
        file.ExpectContent(bytes, offset, 2, "writes");
      }
    }
  }
}

void Buffers() {
  const Memory memory(kMib);
  const File file("buffers", O_RDWR, kMib, 3);
  CUFILE_CHECK(cufile->cuFileBufRegister(memory.get(), kMib, 0));
  for (const size_t place : {size_t{0}, size_t{4096}, size_t{12345}}) {
    const ssize_t done =
        cufile->cuFileRead(file.handle, memory.get(), 5000, 100, static_cast<off_t>(place));
    EXPECT(done == 5000, "registered memory: %zd", done);
    ExpectBytes(memory.get() + place, 5000, 100, 3, "registered memory");
  }
  CUFILE_CHECK(cufile->cuFileBufDeregister(memory.get()));
  EXPECT(cufile->cuFileRead(file.handle, memory.get(), kMib, 0, 0) == static_cast<ssize_t>(kMib),
         "memory that is no more registered");
  ExpectBytes(memory.get(), kMib, 0, 3, "memory that is no more registered");
}

void HostMemory() {
  const File file("host", O_RDWR, kMib, 4);
  std::vector<unsigned char> pageable(kMib);
  unsigned char* pinned = nullptr;
  unsigned char* managed = nullptr;
  unsigned long long* different = nullptr;
  CHECK(cudaMallocHost(&pinned, kMib));
  CHECK(cudaMallocManaged(&managed, kMib));
  CHECK(cudaMallocManaged(&different, sizeof *different));
  for (unsigned char* const memory : {pageable.data(), pinned, managed}) {
    const ssize_t done = cufile->cuFileRead(file.handle, memory, kMib - 7, 7, 0);
    EXPECT(done == static_cast<ssize_t>(kMib) - 7, "memory of the program: %zd", done);
    ExpectBytes(memory, kMib - 7, 7, 4, "memory of the program");
  }
  *different = 0;
  CountDifferent<<<kBlocks, kThreads>>>(managed, kMib - 7, 7, 4, different);
  CHECK(cudaDeviceSynchronize());
  EXPECT(*different == 0, "a kernel finds %llu wrong bytes", *different);
  // A kernel's bytes in managed memory.
  Fill<<<kBlocks, kThreads>>>(managed, kMib, 0, 5);
  CHECK(cudaDeviceSynchronize());
  EXPECT(cufile->cuFileWrite(file.handle, managed, kMib, 0, 0) == static_cast<ssize_t>(kMib),
         "a write from managed memory");
  file.ExpectContent(kMib, 0, 5, "a write from managed memory");
  CHECK(cudaFree(different));
  CHECK(cudaFree(managed));
  CHECK(cudaFreeHost(pinned));
}

// Waits for `count` events of a batch, and sums their bytes.
size_t Finish(CUfileBatchHandle_t batch, unsigned count, size_t bytes) {
  size_t total = 0;
  std::vector<bool> seen(count);
  for (unsigned ended = 0; ended < count;) {
    std::vector<CUfileIOEvents_t> events(count);
    unsigned number = count;
    timespec limit{20, 0};
    CUFILE_CHECK(cufile->cuFileBatchIOGetStatus(batch, 1, &number, events.data(), &limit));
    EXPECT(number > 0, "no entry of the batch has ended in 20 s");
    if (number == 0) break;
    for (unsigned i = 0; i < number; ++i) {
      const auto cookie = reinterpret_cast<uintptr_t>(events[i].cookie);
      EXPECT(cookie < count && !seen[cookie], "entry %zu is reported twice", cookie);
      if (cookie < count) seen[cookie] = true;
      EXPECT(events[i].status == CUFILE_COMPLETE && events[i].ret == bytes,
             "entry %zu: status %d, %zd bytes", cookie, events[i].status,
             static_cast<ssize_t>(events[i].ret));
      total += events[i].ret;
    }
    ended += number;
  }
  return total;
}

void Batches() {
  constexpr unsigned kEntries = 64;
  constexpr size_t kBytes = 20000;
  const File file("batch", O_RDWR, kEntries * kBytes, 6);
  const Memory memory(kEntries * kBytes);
  std::vector<unsigned char> host(kBytes);
  CUfileBatchHandle_t batch = nullptr;
  CUFILE_CHECK(cufile->cuFileBatchIOSetUp(&batch, kEntries));
  for (int round = 0; round < 3; ++round) {
    std::vector<CUfileIOParams_t> entries(kEntries);
    for (unsigned i = 0; i < kEntries; ++i) {
      CUfileIOParams_t& entry = entries[i];
      entry.mode = CUFILE_BATCH;
      // One entry of each batch has memory of the program.
      entry.u.batch.devPtr_base = i == 5 ? host.data() : memory.get();
      entry.u.batch.devPtr_offset = i == 5 ? 0 : static_cast<off_t>(i * kBytes);
      entry.u.batch.file_offset = static_cast<off_t>(i * kBytes);
      entry.u.batch.size = kBytes;
      entry.fh = file.handle;
      entry.opcode = CUFILE_READ;
      entry.cookie = reinterpret_cast<void*>(uintptr_t{i});
    }
    CUFILE_CHECK(cufile->cuFileBatchIOSubmit(batch, kEntries, entries.data(), 0));
    const size_t total = Finish(batch, kEntries, kBytes);
    EXPECT(total == kEntries * kBytes, "a batch has read %zu bytes", total);
    ExpectBytes(memory.get(), 5 * kBytes, 0, 6, "a batch");
    ExpectBytes(host.data(), kBytes, 5 * kBytes, 6, "a batch, memory of the program");
    ExpectBytes(memory.get() + 6 * kBytes, (kEntries - 6) * kBytes, 6 * kBytes, 6, "a batch");
  }
  cufile->cuFileBatchIODestroy(batch);
}

// Arguments of an operation in a stream.
struct Arguments {
  size_t bytes;
  off_t file_offset;
  off_t memory_offset;
  ssize_t done;
};

void Streams() {
  constexpr size_t kBytes = 2 * kMib;
  const File file("streams", O_RDWR | O_CREAT | O_TRUNC);
  const Memory from(kBytes);
  const Memory to(kBytes);
  unsigned long long* different = nullptr;
  Arguments* arguments = nullptr;
  CHECK(cudaMallocManaged(&different, sizeof *different));
  for (const bool pinned : {false, true}) {
    if (pinned)
      CHECK(cudaMallocHost(&arguments, sizeof *arguments));
    else
      arguments = new Arguments;
    for (const unsigned flags : {0U, 7U, 15U}) {
      cudaStream_t stream = nullptr;
      CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
      CUFILE_CHECK(cufile->cuFileStreamRegister(stream, flags));
      const unsigned seed = 100 + flags;
      *different = 0;
      *arguments = {kBytes, 0, 0, -77};
      // A kernel's bytes go to the file and come back, and another kernel finds them.
      Fill<<<kBlocks, kThreads, 0, stream>>>(from.get(), kBytes, 0, seed);
      CUFILE_CHECK(cufile->cuFileWriteAsync(file.handle, from.get(), &arguments->bytes,
                                            &arguments->file_offset, &arguments->memory_offset,
                                            &arguments->done, stream));
      Fill<<<kBlocks, kThreads, 0, stream>>>(from.get(), kBytes, 0, seed + 1);
      ssize_t read = -77;
      CUFILE_CHECK(cufile->cuFileReadAsync(file.handle, to.get(), &arguments->bytes,
                                           &arguments->file_offset, &arguments->memory_offset,
                                           &read, stream));
      CountDifferent<<<kBlocks, kThreads, 0, stream>>>(to.get(), kBytes, 0, seed, different);
      CHECK(cudaStreamSynchronize(stream));
      EXPECT(arguments->done == static_cast<ssize_t>(kBytes), "a write in a stream: %zd",
             arguments->done);
      EXPECT(read == static_cast<ssize_t>(kBytes), "a read in a stream: %zd", read);
      EXPECT(*different == 0, "flags %u: a kernel finds %llu wrong bytes", flags, *different);
      CUFILE_CHECK(cufile->cuFileStreamDeregister(stream));
      CHECK(cudaStreamDestroy(stream));
    }
    if (pinned)
      CHECK(cudaFreeHost(arguments));
    else
      delete arguments;
  }
  CHECK(cudaFree(different));
}

void Change(void* arguments) { *static_cast<Arguments*>(arguments) = {30000, 4096, 17, -77}; }

// Arguments are read when the stream has come there. (NVIDIA's library without its driver reads
// them at once.)
void LateArguments() {
  constexpr size_t kBytes = kMib;
  const File file("late", O_RDWR, kBytes, 12);
  const Memory memory(kBytes);
  Arguments* pinned = nullptr;
  CHECK(cudaMallocHost(&pinned, sizeof *pinned));
  Arguments pageable{};
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (Arguments* const arguments : {&pageable, pinned}) {
    CHECK(cudaMemset(memory.get(), 0, kBytes));
    CHECK(cudaDeviceSynchronize());
    *arguments = {kBytes, 0, 0, -77};
    CHECK(cudaLaunchHostFunc(stream, &Change, arguments));
    CUFILE_CHECK(cufile->cuFileReadAsync(file.handle, memory.get(), &arguments->bytes,
                                         &arguments->file_offset, &arguments->memory_offset,
                                         &arguments->done, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(arguments->done == 30000, "late arguments: %zd", arguments->done);
    ExpectBytes(memory.get() + 17, 30000, 4096, 12, "late arguments");
  }
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFreeHost(pinned));
}

void Vectors() {
  if (cufile->cuFileReadv == nullptr) return;
  const File file("vectors", O_RDWR, kMib, 7);
  const Memory memory(kMib);
  std::vector<unsigned char> host(5000);
  const CUfileIOVec_t parts[] = {
      {memory.get(), 100}, {host.data(), 5000}, {memory.get() + 4096, 70000}};
  const ssize_t done = cufile->cuFileReadv(file.handle, parts, 3, 11, 0);
  EXPECT(done == 75100, "three parts: %zd", done);
  ExpectBytes(memory.get(), 100, 11, 7, "the first part");
  ExpectBytes(host.data(), 5000, 111, 7, "the second part");
  ExpectBytes(memory.get() + 4096, 70000, 5111, 7, "the third part");
  const ssize_t at_end = cufile->cuFileReadv(file.handle, parts, 3, kMib - 150, 0);
  EXPECT(at_end == 150, "parts over the end of the file: %zd", at_end);
  const File other("vectors.written", O_RDWR | O_CREAT | O_TRUNC);
  for (size_t i = 0; i < host.size(); ++i) host[i] = ByteAt(111 + i, 7);
  EXPECT(cufile->cuFileRead(file.handle, memory.get(), 100, 11, 0) == 100, "the first part");
  EXPECT(cufile->cuFileRead(file.handle, memory.get() + 4096, 70000, 5111, 0) == 70000,
         "the third");
  EXPECT(cufile->cuFileWritev(other.handle, parts, 3, 11, 0) == 75100, "three parts written");
  other.ExpectContent(75100, 11, 7, "three parts written");
}

void Threads() {
  constexpr int kCallers = 8;
  constexpr int kCalls = 100;
  constexpr size_t kPart = 64 * kKib;
  const File file("threads", O_RDWR, kCallers * kMib, 8);
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller)
    callers.emplace_back([&file, caller] {
      std::mt19937 random(static_cast<unsigned>(caller));
      const Memory memory(kPart);
      const size_t own = static_cast<size_t>(caller) * kMib;
      for (int call = 0; call < kCalls; ++call) {
        const size_t bytes = 1 + random() % kPart;
        const size_t offset = own + random() % (kMib - bytes);
        if (random() % 2 == 0) {
          const ssize_t done =
              cufile->cuFileRead(file.handle, memory.get(), bytes, static_cast<off_t>(offset), 0);
          EXPECT(done == static_cast<ssize_t>(bytes), "a thread's read: %zd", done);
          ExpectBytes(memory.get(), bytes, offset, 8, "a thread's read");
        } else {
          Fill<<<kBlocks, kThreads, 0, cudaStreamPerThread>>>(memory.get(), bytes, offset, 8);
          CHECK(cudaStreamSynchronize(cudaStreamPerThread));
          const ssize_t done =
              cufile->cuFileWrite(file.handle, memory.get(), bytes, static_cast<off_t>(offset), 0);
          EXPECT(done == static_cast<ssize_t>(bytes), "a thread's write: %zd", done);
        }
      }
    });
  for (std::thread& caller : callers) caller.join();
  file.ExpectContent(kCallers * kMib, 0, 8, "all threads");
}

void Devices() {
  int count = 0;
  CHECK(cudaGetDeviceCount(&count));
  const File file("devices", O_RDWR, kMib, 9);
  for (int device = 0; device < count; ++device) {
    CHECK(cudaSetDevice(device));
    const Memory memory(kMib);
    // The memory tells the device, not the current one.
    CHECK(cudaSetDevice(0));
    EXPECT(cufile->cuFileRead(file.handle, memory.get(), kMib, 0, 0) == static_cast<ssize_t>(kMib),
           "memory of device %d", device);
    ExpectBytes(memory.get(), kMib, 0, 9, "memory of a device");
  }
}

void Growth() {
  const Memory memory(kMib);
  { const File file("growth", O_RDWR, 4096, 10); }
  const auto descriptors = [] {
    int open_ones = 0;
    for (int fd = 0; fd < 4096; ++fd) open_ones += fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
    return open_ones;
  };
  // The last ones may still be closed by another thread.
  constexpr int kUnderWay = 4;
  const int before = descriptors();
  for (int round = 0; round < 2000; ++round) {
    const File file("growth", O_RDWR);
    CUFILE_CHECK(cufile->cuFileBufRegister(memory.get(), kMib, 0));
    EXPECT(cufile->cuFileRead(file.handle, memory.get(), 4096, 0, 0) == 4096, "round %d", round);
    CUFILE_CHECK(cufile->cuFileBufDeregister(memory.get()));
    CUfileBatchHandle_t batch = nullptr;
    CUFILE_CHECK(cufile->cuFileBatchIOSetUp(&batch, 1));
    cufile->cuFileBatchIODestroy(batch);
  }
  const int after = descriptors();
  EXPECT(after <= before + kUnderWay, "%d descriptors instead of %d", after, before);
}

// Threads read, write, and wait for a batch and a stream, until all of it fails.
void Endless() {
  const File file("endless", O_RDWR, kMib, 11);
  std::vector<std::thread> callers;
  const Memory memory(4 * kMib);
  std::atomic<ssize_t> last[4] = {};
  std::atomic<int> at_work{0};
  for (int caller = 0; caller < 2; ++caller)
    callers.emplace_back([&, caller] {
      for (ssize_t done = 0; done >= 0; last[caller] = done) {
        done = caller == 0 ? cufile->cuFileRead(file.handle, memory.get(), kMib, 0, 0)
                           : cufile->cuFileWrite(file.handle, memory.get(), kMib, 0, kMib);
        if (last[caller] == 0) ++at_work;
      }
    });
  callers.emplace_back([&] {
    for (ssize_t done = 0; done >= 0; last[2] = done) {
      CUfileBatchHandle_t batch = nullptr;
      CUfileIOParams_t entry{};
      entry.mode = CUFILE_BATCH;
      entry.u.batch.devPtr_base = memory.get() + 2 * kMib;
      entry.u.batch.size = kMib;
      entry.fh = file.handle;
      CUfileIOEvents_t event{};
      unsigned count = 1;
      done = -cufile->cuFileBatchIOSetUp(&batch, 1).err;
      if (done == 0) done = -cufile->cuFileBatchIOSubmit(batch, 1, &entry, 0).err;
      if (done == 0) done = -cufile->cuFileBatchIOGetStatus(batch, 1, &count, &event, nullptr).err;
      if (done == 0) done = static_cast<ssize_t>(event.ret);
      cufile->cuFileBatchIODestroy(batch);
      if (last[2] == 0) ++at_work;
    }
  });
  callers.emplace_back([&] {
    size_t bytes = kMib;
    off_t place = 3 * kMib;
    off_t offset = 0;
    for (ssize_t done = 0; done >= 0; last[3] = done) {
      const CUfileError_t error = cufile->cuFileReadAsync(
          file.handle, memory.get(), &bytes, &offset, &place, &done, cudaStreamPerThread);
      const cudaError_t waited = cudaStreamSynchronize(cudaStreamPerThread);
      if (error.err != CU_FILE_SUCCESS) done = -error.err;
      if (waited != cudaSuccess && done >= 0) done = -static_cast<ssize_t>(waited);
      if (last[3] == 0) ++at_work;
    }
  });
  while (at_work < 4) std::this_thread::yield();
  std::printf("at work\n");
  std::fflush(stdout);
  for (std::thread& caller : callers) caller.join();
  std::printf("ended\n");
  std::fflush(stdout);
  std::_Exit(EXIT_FAILURE);
}

struct Group {
  const char* name;
  void (*run)();
  bool by_name_only = false;
};
constexpr Group kGroups[] = {
    {"sizes", Sizes},        {"writes", Writes},   {"buffers", Buffers},
    {"host", HostMemory},    {"batches", Batches}, {"streams", Streams},
    {"vectors", Vectors},    {"threads", Threads}, {"devices", Devices},
    {"late", LateArguments}, {"growth", Growth},   {"endless", Endless, true}};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 4) {
    std::fprintf(stderr, "usage: cufile FOLDER [LIBRARY [GROUP]]\n");
    return 2;
  }
  folder = argv[1];
  const Cufile library(argc > 2 ? argv[2] : "libcufile.so.0");
  cufile = &library;
  int version = 0;
  CUFILE_CHECK(cufile->cuFileGetVersion(&version));
  std::printf("version %d\n", version);
  bool found = false;
  for (const Group& group : kGroups) {
    if (argc > 3 ? std::strcmp(argv[3], group.name) != 0 : group.by_name_only) continue;
    found = true;
    group.run();
    std::printf("%s: %d failures so far\n", group.name, failures.load());
  }
  if (!found) {
    std::fprintf(stderr, "cufile: there is no group %s\n", argv[3]);
    return 2;
  }
  std::printf("cufile: %s\n", failures == 0 ? "PASS" : "FAIL");
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
