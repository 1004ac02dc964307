// Reads and writes in the order of streams.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <functional>

#include "group.h"

namespace cufile {
namespace {

// Arguments of a call in a stream. The library may read them until the stream has come to it.
struct Work {
  std::size_t size = 4096;
  off_t file_offset = 0;
  off_t memory_offset = 0;
  ssize_t bytes = -77;
};

std::string Wait(cudaStream_t stream) {
  const cudaError_t error = cudaStreamSynchronize(stream);
  return error == cudaSuccess ? std::string() : std::string(", stream ") + cudaGetErrorName(error);
}

// A read or write with these values, and the result of its execution.
std::string Async(bool write, CUfileHandle_t file, void* memory, cudaStream_t stream,
                  const Work& values) {
  static Work work;
  work = values;
  std::string result = write ? cuFileWriteAsync(file, memory, &work.size, &work.file_offset,
                                                &work.memory_offset, &work.bytes, stream)
                             : cuFileReadAsync(file, memory, &work.size, &work.file_offset,
                                               &work.memory_offset, &work.bytes, stream);
  result += Wait(stream);
  return result + ", bytes " + Late(work.bytes);
}

cudaStream_t MakeStream() {
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

// Result of a registration, which is undone.
std::string Registered(cudaStream_t stream, unsigned flags) {
  std::string result = cuFileStreamRegister(stream, flags);
  if (Succeeded(result)) result += ", then " + cuFileStreamDeregister(stream);
  return result;
}

void Calls(bool write, CUfileHandle_t file, cudaStream_t stream) {
  char* const memory = Device();
  static char host[8192];
  void* pinned = nullptr;
  void* managed = nullptr;
  CHECK(cudaMallocHost(&pinned, 8192));
  CHECK(cudaMallocManaged(&managed, 8192));
  const auto with = [&](void* pointer, std::size_t size = 4096, off_t file_offset = 0,
                        off_t memory_offset = 0) {
    return Async(write, file, pointer, stream, {size, file_offset, memory_offset});
  };
  BAD(with(memory));
  BAD(with(memory, 0));
  BAD(with(memory, 100, 1, 1));
  BAD(with(memory, kMemoryBytes + 1));
  BAD(with(memory, SIZE_MAX));
  FATAL(with(memory, std::size_t{1} << 62));
  BAD(with(memory, 4096, -1));
  BAD(with(memory, 4096, INT64_MIN));
  BAD(with(memory, 4096, INT64_MAX));
  if (!write) {
    BAD(with(memory, 4096, kFileBytes));
    BAD(with(memory, 4096, kFileBytes - 1));
  }
  BAD(with(memory, 4096, 0, -1));
  BAD(with(memory + 4096, 4096, 0, -4096));
  BAD(with(memory, 4096, 0, kMemoryBytes));
  BAD(with(memory, 4096, 0, INT64_MAX));
  BAD(with(host));
  BAD(with(pinned));
  BAD(with(managed));
  BAD(with(Rubbish<void*>(1)));
  BAD(with(Rubbish<void*>(4096)));
  char* const freed = Device();
  CHECK(cudaFree(freed));
  BAD_AS("freed", with(freed));
  MUST(cuFileBufRegister(memory, 65536, 0));
  BAD_AS("registered", with(memory));
  BAD_AS("registered, over the end", with(memory, 131072));
  BAD_AS("registered, beyond the end", with(memory, 4096, 0, 65536));
}

void HoldStream(void* released) {
  while (!static_cast<std::atomic<bool>*>(released)->load()) usleep(1000);
}

}  // namespace

void StreamRegistration() {
  Open();
  cudaStream_t stream = MakeStream();
  BAD(cuFileStreamDeregister(stream));
  BAD(cuFileStreamDeregister(nullptr));
  BAD(Registered(nullptr, 0));
  BAD(Registered(cudaStreamLegacy, 0));
  BAD(Registered(cudaStreamPerThread, 0));
  FATAL(Registered(Rubbish<cudaStream_t>(99), 0));
  FATAL(cuFileStreamDeregister(Rubbish<cudaStream_t>(99)));
  for (const unsigned flags : {0u, 1u, 2u, 4u, 7u, 8u, 15u, 16u, 17u, 0xffffu, ~0u}) {
    BAD_AS("flags " + std::to_string(flags), Registered(stream, flags));
  }
  BAD(cuFileStreamRegister(stream, 0));
  BAD_AS("register twice", cuFileStreamRegister(stream, 0));
  BAD_AS("register twice, other flags", cuFileStreamRegister(stream, 15));
  BAD(cuFileStreamDeregister(stream));
  BAD_AS("deregister twice", cuFileStreamDeregister(stream));
  BAD_AS("register", cuFileStreamRegister(stream, 0));
  CHECK(cudaStreamDestroy(stream));
  FATAL_AS("deregister the destroyed stream", cuFileStreamDeregister(stream));
  FATAL_AS("register the destroyed stream", Registered(stream, 0));
  stream = MakeStream();
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  BAD_AS("register during capture", Registered(stream, 0));
  BAD_AS("thread without context", InThread([&] { return Registered(MakeStream(), 0); }));
}

void AsyncArguments() {
  Open();
  char* const memory = Device();
  const CUfileHandle_t file = Register(MakeFile("data"));
  static char zeros[4096];
  cudaStream_t stream = MakeStream();
  static Work work;
  std::size_t* const size = &work.size;
  off_t* const offset = &work.file_offset;
  off_t* const into = &work.memory_offset;
  ssize_t* const bytes = &work.bytes;
  BAD(cuFileReadAsync(nullptr, memory, size, offset, into, bytes, stream));
  BAD(cuFileReadAsync(file, nullptr, size, offset, into, bytes, stream));
  BAD(cuFileReadAsync(file, memory, nullptr, offset, into, bytes, stream));
  BAD(cuFileReadAsync(file, memory, size, nullptr, into, bytes, stream));
  BAD(cuFileReadAsync(file, memory, size, offset, nullptr, bytes, stream));
  BAD(cuFileReadAsync(file, memory, size, offset, into, nullptr, stream));
  BAD(cuFileReadAsync(zeros, memory, size, offset, into, bytes, stream));
  FATAL(cuFileReadAsync(file, memory, size, offset, into, bytes, Rubbish<cudaStream_t>(99)));
  BAD(cuFileWriteAsync(nullptr, memory, size, offset, into, bytes, stream));
  BAD(cuFileWriteAsync(file, nullptr, size, offset, into, bytes, stream));
  BAD(cuFileWriteAsync(file, memory, nullptr, offset, into, bytes, stream));
  BAD(cuFileWriteAsync(file, memory, size, nullptr, into, bytes, stream));
  BAD(cuFileWriteAsync(file, memory, size, offset, nullptr, bytes, stream));
  BAD(cuFileWriteAsync(file, memory, size, offset, into, nullptr, stream));
  BAD(cuFileWriteAsync(zeros, memory, size, offset, into, bytes, stream));
  BAD_AS("synchronize", "0" + Wait(stream));
}

void AsyncReads() {
  Open();
  MakeFile("data");
  const CUfileHandle_t file = Register(open(Path("data").c_str(), O_RDWR));
  const CUfileHandle_t write_only = Register(open(Path("data").c_str(), O_WRONLY));
  char* const memory = Device();
  cudaStream_t stream = MakeStream();
  BAD_AS("stream 0", Async(false, file, memory, nullptr, Work{}));
  BAD_AS("cudaStreamLegacy", Async(false, file, memory, cudaStreamLegacy, Work{}));
  BAD_AS("cudaStreamPerThread", Async(false, file, memory, cudaStreamPerThread, Work{}));
  BAD_AS("O_WRONLY", Async(false, write_only, memory, stream, Work{}));
  BAD_AS("thread without context",
         InThread([&] { return Async(false, file, memory, stream, Work{}); }));
  Calls(false, file, stream);
}

void AsyncWrites() {
  Open();
  MakeFile("data");
  const CUfileHandle_t file = Register(open(Path("data").c_str(), O_RDWR));
  const CUfileHandle_t read_only = Register(open(Path("data").c_str(), O_RDONLY));
  cudaStream_t stream = MakeStream();
  BAD_AS("O_RDONLY", Async(true, read_only, Device(), stream, Work{}));
  Calls(true, file, stream);
}

void AsyncRegistered() {
  Open();
  const CUfileHandle_t file = Register(MakeFile("data"));
  cudaStream_t stream = MakeStream();
  MUST(cuFileStreamRegister(stream, 0));
  Calls(false, file, stream);
  BAD(cuFileStreamDeregister(stream));
}

// Arguments change between submission and execution.
void AsyncLate() {
  Open();
  char* const memory = Device();
  const int descriptor = MakeFile("data");
  const CUfileHandle_t file = Register(descriptor);
  const auto changed = [&](const Work& before, const Work& after) {
    static std::atomic<bool> released;
    static Work work;
    cudaStream_t stream = MakeStream();
    released = false;
    work = before;
    CHECK(cudaLaunchHostFunc(stream, HoldStream, &released));
    const std::string result = cuFileReadAsync(file, memory, &work.size, &work.file_offset,
                                               &work.memory_offset, &work.bytes, stream);
    work = after;
    released = true;
    const std::string waited = Wait(stream);
    return result + waited + ", bytes " + Late(work.bytes);
  };
  BAD(changed({4096, 0, 0}, {4096, 0, 0}));
  BAD(changed({4096, 0, 0}, {100, 0, 0}));
  BAD(changed({4096, 0, 0}, {0, 0, 0}));
  BAD(changed({4096, 0, 0}, {8192, 0, 0}));
  BAD(changed({4096, 0, 0}, {kMemoryBytes + 1, 0, 0}));
  BAD(changed({4096, 0, 0}, {SIZE_MAX, 0, 0}));
  BAD(changed({4096, 0, 0}, {4096, -1, 0}));
  BAD(changed({4096, 0, 0}, {4096, kFileBytes, 0}));
  BAD(changed({4096, 0, 0}, {4096, kFileBytes - 10, 0}));
  BAD(changed({4096, 0, 0}, {4096, 0, -1}));
  BAD(changed({4096, 0, 0}, {4096, 0, kMemoryBytes}));
  BAD(changed({4096, -1, 0}, {4096, 0, 0}));
  BAD(changed({4096, 0, kMemoryBytes}, {4096, 0, 0}));
  BAD_AS("descriptor closed before execution", [&] {
    static std::atomic<bool> released;
    static Work work;
    cudaStream_t stream = MakeStream();
    CHECK(cudaLaunchHostFunc(stream, HoldStream, &released));
    const std::string result = cuFileReadAsync(file, memory, &work.size, &work.file_offset,
                                               &work.memory_offset, &work.bytes, stream);
    close(descriptor);
    released = true;
    const std::string waited = Wait(stream);
    return result + waited + ", bytes " + Late(work.bytes);
  }());
}

// The same with registered streams, whose flags fix the arguments at submission.
void AsyncFixed() {
  Open();
  char* const memory = Device();
  const CUfileHandle_t file = Register(MakeFile("data"));
  const auto changed = [&](unsigned flags, const Work& before, const Work& after) {
    static std::atomic<bool> released;
    static Work work;
    cudaStream_t stream = MakeStream();
    released = false;
    work = before;
    const std::string registered = cuFileStreamRegister(stream, flags);
    CHECK(cudaLaunchHostFunc(stream, HoldStream, &released));
    const std::string result = cuFileReadAsync(file, memory, &work.size, &work.file_offset,
                                               &work.memory_offset, &work.bytes, stream);
    work = after;
    released = true;
    const std::string waited = Wait(stream);
    return registered + ", " + result + waited + ", bytes " + Late(work.bytes);
  };
  BAD(changed(0, {4096, 0, 0}, {100, 0, 0}));
  BAD(changed(CU_FILE_STREAM_FIXED_FILE_SIZE, {4096, 0, 0}, {100, 0, 0}));
  BAD(changed(CU_FILE_STREAM_FIXED_FILE_SIZE, {4096, 0, 0}, {4096, kFileBytes - 10, 0}));
  BAD(changed(CU_FILE_STREAM_FIXED_FILE_OFFSET, {4096, 0, 0}, {4096, kFileBytes - 10, 0}));
  BAD(changed(CU_FILE_STREAM_FIXED_BUF_OFFSET, {4096, 0, 0}, {4096, 0, kMemoryBytes}));
  BAD(changed(7, {4096, 0, 0}, {100, kFileBytes, kMemoryBytes}));
  BAD(changed(15, {4096, 0, 0}, {100, kFileBytes, kMemoryBytes}));
  BAD(changed(15, {100, 1, 1}, {100, 1, 1}));
  BAD(changed(7, {kMemoryBytes + 1, 0, 0}, {4096, 0, 0}));
  BAD(changed(7, {4096, -1, 0}, {4096, 0, 0}));
  BAD(changed(7, {4096, 0, kMemoryBytes}, {4096, 0, 0}));
}

void AsyncCapture() {
  Open();
  char* const memory = Device();
  const CUfileHandle_t file = Register(MakeFile("data"));
  static Work work;
  const auto captured = [&](bool write, bool registered) {
    cudaStream_t stream = MakeStream();
    if (registered) MUST(cuFileStreamRegister(stream, 0));
    work = Work{};
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    const std::string result = write ? cuFileWriteAsync(file, memory, &work.size, &work.file_offset,
                                                        &work.memory_offset, &work.bytes, stream)
                                     : cuFileReadAsync(file, memory, &work.size, &work.file_offset,
                                                       &work.memory_offset, &work.bytes, stream);
    const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
    cudaGraphExec_t exec = nullptr;
    std::string launched;
    if (ended == cudaSuccess) {
      std::size_t nodes = 0;
      CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
      launched = nodes == 0 ? ", empty" : ", not empty";
      cudaError_t error = cudaGraphInstantiate(&exec, graph, 0);
      if (error == cudaSuccess) error = cudaGraphLaunch(exec, stream);
      launched += std::string(", launch ") + cudaGetErrorName(error) + Wait(stream);
    }
    return result + ", capture " + cudaGetErrorName(ended) + launched + ", bytes " +
           Late(work.bytes);
  };
  BAD(captured(false, false));
  BAD(captured(true, false));
  BAD(captured(false, true));
  BAD(captured(true, true));
}

}  // namespace cufile
