// Registration of files and of buffers.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "group.h"

namespace cufile {
namespace {

// Registers the descriptor, and deregisters it if it was accepted.
std::string Registered(CUfileDescr_t descriptor) {
  CUfileHandle_t handle = nullptr;
  std::string result = cuFileHandleRegister(&handle, &descriptor);
  if (handle != nullptr) cuFileHandleDeregister(handle);
  if (Succeeded(result) != (handle != nullptr)) {
    result += handle != nullptr ? " with handle" : " without handle";
  }
  return result;
}

std::string Registered(int file) { return Registered(DescriptorOf(file)); }

std::string RegisteredAs(int type, int file, const CUfileFSOps_t* operations = nullptr) {
  CUfileDescr_t descriptor = DescriptorOf(file);
  descriptor.type = static_cast<CUfileFileHandleType>(type);
  descriptor.fs_ops = operations;
  return Registered(descriptor);
}

// Registers the buffer, and deregisters it if it was accepted.
std::string Buffer(const void* memory, std::size_t bytes, int flags = 0) {
  std::string result = cuFileBufRegister(memory, bytes, flags);
  if (Succeeded(result)) result += ", then " + cuFileBufDeregister(memory);
  return result;
}

}  // namespace

void Handles() {
  Open();
  const int file = MakeFile("data");
  CUfileHandle_t handle = nullptr;
  CUfileDescr_t descriptor = DescriptorOf(file);
  static const CUfileFSOps_t operations{};
  BAD(cuFileHandleRegister(nullptr, &descriptor));
  BAD(cuFileHandleRegister(&handle, nullptr));
  BAD(cuFileHandleRegister(nullptr, nullptr));
  BAD(Registered(file));
  BAD(RegisteredAs(0, file));
  BAD(RegisteredAs(-1, file));
  BAD(RegisteredAs(CU_FILE_HANDLE_TYPE_OPAQUE_WIN32, file));
  BAD(RegisteredAs(CU_FILE_HANDLE_TYPE_USERSPACE_FS, file));
  BAD(RegisteredAs(CU_FILE_HANDLE_TYPE_USERSPACE_FS, file, &operations));
  BAD(RegisteredAs(4, file));
  BAD(RegisteredAs(99, file));
  BAD_AS("type 1 with operations", RegisteredAs(1, file, &operations));
  BAD(Registered(-1));
  BAD(Registered(-2));
  BAD(Registered(INT32_MIN));
  BAD(Registered(1000));
  BAD(Registered(INT32_MAX));
  BAD_AS("descriptor of zeros", Registered(CUfileDescr_t{}));
  close(file);
  BAD_AS("closed descriptor", Registered(file));
}

void FileKinds() {
  Open();
  MakeFile("data");
  const auto opened = [](int flags) { return open(Path("data").c_str(), flags); };
  int pipe_ends[2] = {-1, -1};
  int sockets[2] = {-1, -1};
  if (pipe(pipe_ends) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0) return;
  BAD_AS("directory", Registered(open("/tmp", O_RDONLY | O_DIRECTORY)));
  BAD_AS("pipe, read end", Registered(pipe_ends[0]));
  BAD_AS("pipe, write end", Registered(pipe_ends[1]));
  BAD_AS("socket", Registered(sockets[0]));
  BAD_AS("/dev/null", Registered(open("/dev/null", O_RDWR)));
  BAD_AS("/dev/zero", Registered(open("/dev/zero", O_RDWR)));
  BAD_AS("/proc/self/status", Registered(open("/proc/self/status", O_RDONLY)));
  BAD_AS("memfd", Registered(memfd_create("data", 0)));
  BAD_AS("O_RDONLY", Registered(opened(O_RDONLY)));
  BAD_AS("O_WRONLY", Registered(opened(O_WRONLY)));
  BAD_AS("O_RDWR", Registered(opened(O_RDWR)));
  BAD_AS("O_RDWR | O_DIRECT", Registered(opened(O_RDWR | O_DIRECT)));
  BAD_AS("O_RDWR | O_APPEND", Registered(opened(O_RDWR | O_APPEND)));
  BAD_AS("O_RDWR | O_APPEND | O_DIRECT", Registered(opened(O_RDWR | O_APPEND | O_DIRECT)));
  BAD_AS("O_RDWR | O_SYNC", Registered(opened(O_RDWR | O_SYNC)));
  BAD_AS("O_RDWR | O_NONBLOCK", Registered(opened(O_RDWR | O_NONBLOCK)));
  BAD_AS("O_RDWR | O_NOATIME", Registered(opened(O_RDWR | O_NOATIME)));
  BAD_AS("O_PATH", Registered(opened(O_PATH)));
  BAD_AS("O_TMPFILE", Registered(open(Path("").c_str(), O_TMPFILE | O_RDWR, 0600)));
  BAD_AS("empty file", Registered(MakeFile("empty", 0)));
  const int deleted = MakeFile("deleted");
  unlink(Path("deleted").c_str());
  BAD_AS("deleted file", Registered(deleted));
  symlink(Path("data").c_str(), Path("link").c_str());
  BAD_AS("symbolic link, O_PATH | O_NOFOLLOW",
         Registered(open(Path("link").c_str(), O_PATH | O_NOFOLLOW)));
  BAD_AS("symbolic link", Registered(open(Path("link").c_str(), O_RDWR)));
}

void SameFile() {
  Open();
  char* const memory = Device();
  const int file = MakeFile("data");
  const int again = open(Path("data").c_str(), O_RDWR);
  const int duplicate = dup(file);
  CUfileDescr_t descriptor = DescriptorOf(file);
  CUfileHandle_t first = Register(file);
  CUfileHandle_t second = nullptr;
  BAD_AS("same descriptor", cuFileHandleRegister(&second, &descriptor));
  BAD_AS("handles are equal", second == first ? "true" : "false");
  BAD_AS("same descriptor a third time", Registered(file));
  BAD_AS("same file, other descriptor", Registered(again));
  BAD_AS("duplicate", Registered(duplicate));
  BAD_AS("read by the first handle", cuFileRead(first, memory, 4096, 0, 0));
  BAD_AS("deregister the first handle", cuFileHandleDeregister(first));
  if (second != nullptr) {
    BAD_AS("read by the second handle", cuFileRead(second, memory, 4096, 0, 0));
    BAD_AS("deregister the second handle", cuFileHandleDeregister(second));
  }
  BAD_AS("same descriptor after all", Registered(file));
}

void Deregistration() {
  Open();
  char* const memory = Device();
  const int file = MakeFile("data");
  static char zeros[4096];
  BAD(cuFileHandleDeregister(nullptr));
  BAD(cuFileHandleDeregister(Rubbish<CUfileHandle_t>(1)));
  BAD(cuFileHandleDeregister(Rubbish<CUfileHandle_t>(-1)));
  BAD(cuFileHandleDeregister(zeros));
  BAD(cuFileHandleDeregister(memory));
  CUfileHandle_t handle = Register(file);
  BAD_AS("deregister", cuFileHandleDeregister(handle));
  BAD_AS("deregister twice", cuFileHandleDeregister(handle));
  BAD_AS("read by the deregistered handle", cuFileRead(handle, memory, 4096, 0, 0));
  handle = Register(file);
  close(file);
  BAD_AS("deregister after close", cuFileHandleDeregister(handle));
}

void HandlesAfterClose() {
  Open();
  char* const memory = Device();
  const int file = MakeFile("data");
  const CUfileHandle_t handle = Register(file);
  close(file);
  BAD_AS("read, descriptor closed", cuFileRead(handle, memory, 4096, 0, 0));
  BAD_AS("write, descriptor closed", cuFileWrite(handle, memory, 4096, 0, 0));
  const int other = MakeFile("other", kFileBytes, O_RDWR, 9);
  BAD_AS("other file has the same number", other == file ? "true" : "false");
  BAD_AS("read, descriptor of another file", cuFileRead(handle, memory, 4096, 0, 0));
  BAD_AS("byte read", std::to_string(FirstByte(memory)));
  BAD_AS("register the other file", Registered(other));
  BAD_AS("deregister", cuFileHandleDeregister(handle));
  BAD_AS("register the other file after it", Registered(other));
}

void Buffers() {
  Open();
  char* const memory = Device();
  char stack[4096];
  static char data[8192];
  BAD(Buffer(nullptr, 0));
  BAD(Buffer(nullptr, 4096));
  BAD(Buffer(memory, 0));
  BAD(Buffer(memory, 1));
  BAD(Buffer(memory, 4095));
  BAD(Buffer(memory, 4096));
  BAD(Buffer(memory, kMemoryBytes));
  BAD(Buffer(memory, kMemoryBytes + 1));
  BAD(Buffer(memory, kMemoryBytes + 4096));
  BAD(Buffer(memory, std::size_t{1} << 40));
  BAD(Buffer(memory, std::size_t{1} << 62));
  BAD(Buffer(memory, SIZE_MAX));
  BAD(Buffer(memory + 1, 4096));
  BAD(Buffer(memory + 4096, 4096));
  BAD(Buffer(memory + 65536, 65536));
  BAD(Buffer(memory + 4096, kMemoryBytes));
  BAD(Buffer(Rubbish<void*>(1), 4096));
  BAD(Buffer(Rubbish<void*>(4096), 4096));
  BAD(Buffer(Rubbish<void*>(-4096), 4096));
  BAD(Buffer(stack, sizeof stack));
  BAD(Buffer(data, sizeof data));
  BAD(Buffer(data + 1, 100));
  BAD(Buffer(data, std::size_t{1} << 40));
  char* const freed = Device();
  CHECK(cudaFree(freed));
  BAD(Buffer(freed, 4096));
}

void BufferFlags() {
  Open();
  char* const memory = Device();
  BAD(Buffer(memory, 65536, CU_FILE_RDMA_REGISTER));
  BAD(Buffer(memory, 65536, CU_FILE_RDMA_RELAXED_ORDERING));
  BAD(Buffer(memory, 65536, 3));
  BAD(Buffer(memory, 65536, 4));
  BAD(Buffer(memory, 65536, 16));
  BAD(Buffer(memory, 65536, 0x1000));
  BAD(Buffer(memory, 65536, -1));
}

void BufferKinds() {
  Open();
  void* pinned = nullptr;
  void* mapped = nullptr;
  void* managed = nullptr;
  void* pooled = nullptr;
  CHECK(cudaMallocHost(&pinned, kMemoryBytes));
  CHECK(cudaHostAlloc(&mapped, kMemoryBytes, cudaHostAllocMapped));
  CHECK(cudaMallocManaged(&managed, kMemoryBytes));
  CHECK(cudaMallocAsync(&pooled, kMemoryBytes, nullptr));
  CHECK(cudaDeviceSynchronize());
  char* const pageable = static_cast<char*>(std::aligned_alloc(4096, kMemoryBytes));
  char* const registered = static_cast<char*>(std::aligned_alloc(4096, kMemoryBytes));
  CHECK(cudaHostRegister(registered, kMemoryBytes, 0));
  void* const pages = mmap(nullptr, kMemoryBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void* const none = mmap(nullptr, kMemoryBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  BAD_AS("cudaMallocHost", Buffer(pinned, kMemoryBytes));
  BAD_AS("cudaMallocHost, beyond", Buffer(pinned, 2 * kMemoryBytes));
  BAD_AS("cudaHostAlloc", Buffer(mapped, kMemoryBytes));
  BAD_AS("cudaMallocManaged", Buffer(managed, kMemoryBytes));
  BAD_AS("cudaMallocManaged, beyond", Buffer(managed, 2 * kMemoryBytes));
  BAD_AS("cudaMallocAsync", Buffer(pooled, kMemoryBytes));
  BAD_AS("aligned_alloc", Buffer(pageable, kMemoryBytes));
  BAD_AS("cudaHostRegister", Buffer(registered, kMemoryBytes));
  BAD_AS("PROT_READ", Buffer(pages, kMemoryBytes));
  BAD_AS("PROT_NONE", Buffer(none, kMemoryBytes));
  BAD_AS("code", Buffer(reinterpret_cast<void*>(&BufferKinds), 16));
}

void BufferOverlaps() {
  Open();
  char* const memory = Device();
  static char host[65536];
  BAD(cuFileBufRegister(memory, 65536, 0));
  BAD_AS("the same again", cuFileBufRegister(memory, 65536, 0));
  BAD_AS("the same, shorter", cuFileBufRegister(memory, 4096, 0));
  BAD_AS("the same, longer", cuFileBufRegister(memory, 131072, 0));
  BAD_AS("inside", cuFileBufRegister(memory + 4096, 4096, 0));
  BAD_AS("inside, up to the end", cuFileBufRegister(memory + 32768, 32768, 0));
  BAD_AS("over the end", cuFileBufRegister(memory + 61440, 65536, 0));
  BAD_AS("behind", cuFileBufRegister(memory + 65536, 65536, 0));
  BAD_AS("behind, again", cuFileBufRegister(memory + 65536, 65536, 0));
  BAD(cuFileBufDeregister(memory));
  BAD_AS("once more", cuFileBufDeregister(memory));
  BAD(cuFileBufDeregister(memory + 4096));
  BAD(cuFileBufDeregister(memory + 32768));
  BAD(cuFileBufDeregister(memory + 61440));
  BAD(cuFileBufDeregister(memory + 65536));
  BAD(cuFileBufRegister(host, 65536, 0));
  BAD_AS("host, the same again", cuFileBufRegister(host, 65536, 0));
  BAD_AS("host, inside", cuFileBufRegister(host + 4096, 4096, 0));
  BAD(cuFileBufDeregister(host));
  BAD_AS("host, once more", cuFileBufDeregister(host));
}

void BufferDeregistration() {
  Open();
  char* const memory = Device();
  static char host[4096];
  BAD(cuFileBufDeregister(nullptr));
  BAD(cuFileBufDeregister(memory));
  BAD(cuFileBufDeregister(host));
  BAD(cuFileBufDeregister(Rubbish<void*>(1)));
  BAD(cuFileBufDeregister(Rubbish<void*>(-1)));
  MUST(cuFileBufRegister(memory, kMemoryBytes, 0));
  BAD(cuFileBufDeregister(memory + 1));
  BAD(cuFileBufDeregister(memory + 4096));
  BAD(cuFileBufDeregister(memory + kMemoryBytes));
  BAD_AS("of the registered one", cuFileBufDeregister(memory));
  BAD_AS("twice", cuFileBufDeregister(memory));
  char* const freed = Device();
  MUST(cuFileBufRegister(freed, kMemoryBytes, 0));
  BAD_AS("cudaFree of a registered buffer", std::string(cudaGetErrorName(cudaFree(freed))));
  BAD_AS("of the freed one", cuFileBufDeregister(freed));
  BAD_AS("of the freed one, twice", cuFileBufDeregister(freed));
  char* const mapped = Reserve();
  MapAt(mapped);
  BAD_AS("register mapped memory", cuFileBufRegister(mapped, kMemoryBytes, 0));
  UnmapAt(mapped);
  MapAt(mapped);
  BAD_AS("register other memory at its address", cuFileBufRegister(mapped, kMemoryBytes, 0));
  BAD_AS("deregister it", cuFileBufDeregister(mapped));
}

}  // namespace cufile
