// Reads and writes of one buffer.
#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "group.h"

namespace cufile {
namespace {

constexpr off_t kHugeOffset = off_t{1} << 62;

// Memory of each kind, for reads and writes.
struct Kinds {
  Kinds() {
    MapAt(adjacent);
    MapAt(adjacent + kMemoryBytes);
    CHECK(cudaMallocHost(&pinned, kMemoryBytes));
    CHECK(cudaMallocManaged(&managed, kMemoryBytes));
    CHECK(cudaMallocAsync(&pooled, kMemoryBytes, nullptr));
    CHECK(cudaDeviceSynchronize());
    pageable = static_cast<char*>(std::aligned_alloc(4096, kMemoryBytes));
    registered = static_cast<char*>(std::aligned_alloc(4096, kMemoryBytes));
    CHECK(cudaHostRegister(registered, kMemoryBytes, 0));
    for (char* memory : {pinned, managed, pageable, registered}) {
      std::memset(memory, 1, kMemoryBytes);
    }
  }
  char* device = Device();
  // Two allocations at consecutive addresses.
  char* adjacent = Reserve();
  char* pinned = nullptr;
  char* managed = nullptr;
  char* pooled = nullptr;
  char* pageable = nullptr;
  char* registered = nullptr;
};

}  // namespace

void ReadHandles() {
  Open();
  char* const memory = Device();
  static char zeros[4096];
  BAD(cuFileRead(nullptr, memory, 4096, 0, 0));
  BAD(cuFileWrite(nullptr, memory, 4096, 0, 0));
  BAD(cuFileRead(nullptr, nullptr, 0, 0, 0));
  BAD(cuFileRead(Rubbish<CUfileHandle_t>(1), memory, 4096, 0, 0));
  BAD(cuFileRead(Rubbish<CUfileHandle_t>(-1), memory, 4096, 0, 0));
  BAD(cuFileRead(zeros, memory, 4096, 0, 0));
  BAD(cuFileWrite(zeros, memory, 4096, 0, 0));
  BAD(cuFileRead(memory, memory, 4096, 0, 0));
}

void ReadSizes() {
  Open();
  char* const memory = Device();
  const CUfileHandle_t file = Register(MakeFile("data"));
  BAD(cuFileRead(file, nullptr, 0, 0, 0));
  BAD(cuFileRead(file, nullptr, 4096, 0, 0));
  BAD(cuFileRead(file, memory, 0, 0, 0));
  BAD(cuFileRead(file, memory, 0, -1, 0));
  BAD(cuFileRead(file, memory, 0, 0, -1));
  BAD(cuFileRead(file, memory, 0, kFileBytes, 0));
  BAD(cuFileRead(file, memory, 1, 0, 0));
  BAD(cuFileRead(file, memory, 4095, 1, 1));
  BAD(cuFileRead(file, memory, kFileBytes, 0, 0));
  BAD(cuFileRead(file, memory, kFileBytes + 1, 0, 0));
  BAD(cuFileRead(file, memory, kFileBytes, 1, 0));
  BAD(cuFileRead(file, memory, kFileBytes, kFileBytes - 1, 0));
  BAD(cuFileRead(file, memory, 4096, kFileBytes, 0));
  BAD(cuFileRead(file, memory, 4096, kFileBytes + 1, 0));
  BAD(cuFileRead(file, memory, 4096, off_t{1} << 40, 0));
  BAD(cuFileRead(file, memory, 4096, kHugeOffset, 0));
  BAD(cuFileRead(file, memory, 4096, INT64_MAX, 0));
  BAD(cuFileRead(file, memory, 4096, -1, 0));
  BAD(cuFileRead(file, memory, 4096, -4096, 0));
  BAD(cuFileRead(file, memory, 4096, INT64_MIN, 0));
  BAD(cuFileRead(file, memory, 4096, 0, -1));
  BAD(cuFileRead(file, memory, 4096, 0, -4096));
  BAD(cuFileRead(file, memory + 4096, 4096, 0, -4096));
  BAD(cuFileRead(file, memory + 4096, 4096, 0, -8192));
  BAD(cuFileRead(file, memory, 4096, 0, INT64_MIN));
  BAD(cuFileRead(file, memory, kMemoryBytes, 0, 0));
  BAD(cuFileRead(file, memory, kMemoryBytes + 1, 0, 0));
  BAD(cuFileRead(file, memory, kMemoryBytes + 4096, 0, 0));
  BAD(cuFileRead(file, memory, std::size_t{1} << 31, 0, 0));
  BAD(cuFileRead(file, memory, std::size_t{1} << 40, 0, 0));
  BAD(cuFileRead(file, memory, std::size_t{1} << 62, 0, 0));
  BAD(cuFileRead(file, memory, SIZE_MAX, 0, 0));
  BAD(cuFileRead(file, memory, SIZE_MAX - 4095, 0, 0));
  BAD(cuFileRead(file, memory, 4096, 0, kMemoryBytes - 4096));
  BAD(cuFileRead(file, memory, 4096, 0, kMemoryBytes - 4095));
  BAD(cuFileRead(file, memory, 4096, 0, kMemoryBytes));
  BAD(cuFileRead(file, memory, 4096, 0, kHugeOffset));
  BAD(cuFileRead(file, memory, 4096, 0, INT64_MAX));
  BAD(cuFileRead(file, memory + kMemoryBytes, 4096, 0, -4096));
  BAD(cuFileRead(file, memory + kMemoryBytes - 4096, 8192, 0, 0));
}

// Reads of a file that is longer than the memory.
void ReadLarge() {
  Open();
  char* const memory = Device();
  static char host[8192];
  const CUfileHandle_t file = Register(MakeFile("data", 2 * kMemoryBytes));
  const CUfileHandle_t small = Register(MakeFile("small"));
  BAD(cuFileRead(file, memory, kMemoryBytes, 0, 0));
  BAD(cuFileRead(file, memory, kMemoryBytes, 1, 0));
  BAD(cuFileRead(file, memory, kMemoryBytes - 1, 1, 1));
  BAD(cuFileRead(file, memory, kMemoryBytes + 1, 0, 0));
  BAD(cuFileRead(file, memory, kMemoryBytes + 4096, 0, 0));
  BAD(cuFileRead(file, memory, 2 * kMemoryBytes, 0, 0));
  BAD(cuFileRead(file, memory, 4096, 0, kMemoryBytes - 2048));
  BAD(cuFileRead(file, memory + kMemoryBytes - 4096, 8192, 0, 0));
  BAD(cuFileRead(file, host, sizeof host, 0, 0));
  for (const int bits : {22, 23, 24, 25, 26, 27, 28, 29, 30}) {
    BAD_AS("size 1 << " + std::to_string(bits) + " of a small file",
           cuFileRead(small, memory, std::size_t{1} << bits, 0, 0));
  }
  BAD(cuFileRead(small, memory, 0x7ffff000, 0, 0));
  BAD(cuFileRead(small, memory, 0x7ffff001, 0, 0));
  char* const mapped = Reserve();
  MapAt(mapped);
  BAD_AS("unmapped second half", cuFileRead(file, mapped, 2 * kMemoryBytes, 0, 0));
  MUST(cuFileBufRegister(memory, kMemoryBytes, 0));
  BAD_AS("registered", cuFileRead(file, memory, kMemoryBytes, 0, 0));
  BAD_AS("registered, too long", cuFileRead(file, memory, kMemoryBytes + 1, 0, 0));
  BAD_AS("registered, twice as long", cuFileRead(file, memory, 2 * kMemoryBytes, 0, 0));
}

void ReadBuffers() {
  Open();
  char* const memory = Device();
  const CUfileHandle_t file = Register(MakeFile("data"));
  MUST(cuFileBufRegister(memory + 65536, 65536, 0));
  char* const buffer = memory + 65536;
  BAD(cuFileRead(file, buffer, 4096, 0, 0));
  BAD(cuFileRead(file, buffer, 4095, 1, 1));
  BAD(cuFileRead(file, buffer, 65536, 0, 0));
  BAD(cuFileRead(file, buffer, 0, 0, 0));
  BAD_AS("from the middle", cuFileRead(file, buffer + 4096, 4096, 0, 0));
  BAD_AS("offset at the end", cuFileRead(file, buffer, 4096, 0, 65536));
  BAD_AS("offset over the end", cuFileRead(file, buffer, 4096, 0, 65536 - 2048));
  BAD_AS("offset beyond the end", cuFileRead(file, buffer, 4096, 0, 131072));
  BAD_AS("offset beyond the allocation", cuFileRead(file, buffer, 4096, 0, kMemoryBytes));
  BAD_AS("size over the end", cuFileRead(file, buffer, 65537, 0, 0));
  BAD_AS("size over the end, in the allocation", cuFileRead(file, buffer, 131072, 0, 0));
  BAD_AS("size over the allocation", cuFileRead(file, buffer, kMemoryBytes, 0, 0));
  BAD_AS("negative offset", cuFileRead(file, buffer, 4096, 0, -4096));
  BAD_AS("negative offset over the begin", cuFileRead(file, buffer, 8192, 0, -4096));
  BAD_AS("negative offset from the middle", cuFileRead(file, buffer + 8192, 4096, 0, -4096));
  BAD_AS("pointer in front", cuFileRead(file, memory, 4096, 0, 0));
  BAD_AS("pointer in front, over the begin", cuFileRead(file, memory + 61440, 8192, 0, 0));
  BAD_AS("pointer in front, offset into it", cuFileRead(file, memory, 4096, 0, 65536));
  BAD_AS("pointer behind", cuFileRead(file, memory + 131072, 4096, 0, 0));
  BAD_AS("huge size", cuFileRead(file, buffer, SIZE_MAX, 0, 0));
  BAD_AS("negative file offset", cuFileRead(file, buffer, 4096, -1, 0));
  BAD_AS("beyond the file", cuFileRead(file, buffer, 4096, kFileBytes, 0));
  MUST(cuFileBufDeregister(buffer));
  BAD_AS("deregistered", cuFileRead(file, buffer, 4096, 0, 0));
}

void ReadPointers() {
  Open();
  const CUfileHandle_t file = Register(MakeFile("data"));
  const Kinds kinds;
  char stack[4096];
  BAD_AS("device", cuFileRead(file, kinds.device, 4096, 0, 0));
  BAD_AS("device, byte", std::to_string(FirstByte(kinds.device)));
  BAD_AS("cudaMallocHost", cuFileRead(file, kinds.pinned, 4096, 0, 0));
  BAD_AS("cudaMallocHost, byte", std::to_string(kinds.pinned[4095]));
  BAD_AS("cudaMallocManaged", cuFileRead(file, kinds.managed, 4096, 0, 0));
  BAD_AS("cudaMallocManaged, byte", std::to_string(kinds.managed[4095]));
  BAD_AS("cudaMallocAsync", cuFileRead(file, kinds.pooled, 4096, 0, 0));
  BAD_AS("cudaMallocAsync, byte", std::to_string(FirstByte(kinds.pooled)));
  BAD_AS("aligned_alloc", cuFileRead(file, kinds.pageable, 4096, 0, 0));
  BAD_AS("aligned_alloc, byte", std::to_string(kinds.pageable[4095]));
  BAD_AS("cudaHostRegister", cuFileRead(file, kinds.registered, 4096, 0, 0));
  BAD_AS("cudaHostRegister, byte", std::to_string(kinds.registered[4095]));
  BAD_AS("stack", cuFileRead(file, stack, sizeof stack, 0, 0));
  BAD_AS("stack, byte", std::to_string(stack[4095]));
  BAD_AS("stack, unaligned", cuFileRead(file, stack + 1, 100, 1, 1));
  BAD_AS("offset in pageable memory", cuFileRead(file, kinds.pageable, 4096, 0, 4096));
  BAD_AS("negative offset in pageable memory",
         cuFileRead(file, kinds.pageable + 8192, 4096, 0, -4096));
  BAD_AS("size 0 into pageable memory", cuFileRead(file, kinds.pageable, 0, 0, 0));
  BAD_AS("negative file offset into pageable memory",
         cuFileRead(file, kinds.pageable, 4096, -1, 0));
  BAD_AS("beyond the file into pageable memory",
         cuFileRead(file, kinds.pageable, 4096, kFileBytes, 0));
  BAD_AS("short read into pageable memory",
         cuFileRead(file, kinds.pageable, kFileBytes, kFileBytes - 1, 0));
  BAD_AS("huge size into pageable memory", cuFileRead(file, kinds.pageable, SIZE_MAX, 0, 0));
  BAD_AS("cudaMallocHost, beyond", cuFileRead(file, kinds.pinned, 4096, 0, kMemoryBytes));
  BAD_AS("cudaMallocHost, size beyond", cuFileRead(file, kinds.pinned, kMemoryBytes + 1, 0, 0));
  BAD_AS("cudaMallocManaged, beyond", cuFileRead(file, kinds.managed, 4096, 0, kMemoryBytes));
  BAD_AS("cudaMallocManaged, size beyond", cuFileRead(file, kinds.managed, kMemoryBytes + 1, 0, 0));
  BAD_AS("two allocations", cuFileRead(file, kinds.adjacent + kMemoryBytes - 4096, 8192, 0, 0));
  BAD_AS("two allocations, offset into the second",
         cuFileRead(file, kinds.adjacent, 4096, 0, kMemoryBytes));
  BAD_AS("rubbish 1", cuFileRead(file, Rubbish<void*>(1), 4096, 0, 0));
  BAD_AS("rubbish 4096", cuFileRead(file, Rubbish<void*>(4096), 4096, 0, 0));
  BAD_AS("rubbish -4096", cuFileRead(file, Rubbish<void*>(-4096), 4096, 0, 0));
  BAD_AS("constant", cuFileRead(file, const_cast<char*>("constant"), 4, 0, 0));
  BAD_AS("NULL with an offset", cuFileRead(file, nullptr, 4096, 0, 4096));
  CHECK(cudaFree(kinds.device));
  BAD_AS("freed", cuFileRead(file, kinds.device, 4096, 0, 0));
  char* const registered = Device();
  MUST(cuFileBufRegister(registered, kMemoryBytes, 0));
  CHECK(cudaFree(registered));
  BAD_AS("freed, still registered", cuFileRead(file, registered, 4096, 0, 0));
}

void ReadFiles() {
  Open();
  char* const memory = Device();
  static char host[4096];
  MakeFile("data");
  const std::string data = Path("data");
  const CUfileHandle_t write_only = Register(open(data.c_str(), O_WRONLY));
  BAD_AS("O_WRONLY", cuFileRead(write_only, memory, 4096, 0, 0));
  BAD_AS("O_WRONLY into host memory", cuFileRead(write_only, host, 4096, 0, 0));
  BAD_AS("O_WRONLY, size 0", cuFileRead(write_only, memory, 0, 0, 0));
  const CUfileHandle_t empty = Register(MakeFile("empty", 0));
  BAD_AS("empty file", cuFileRead(empty, memory, 4096, 0, 0));
  const int position_file = open(data.c_str(), O_RDWR);
  const CUfileHandle_t positioned = Register(position_file);
  lseek(position_file, 100, SEEK_SET);
  BAD_AS("file position at 100", cuFileRead(positioned, memory, kFileBytes, 0, 0));
  BAD_AS("position after it", Text(lseek(position_file, 0, SEEK_CUR)));
  const int shrinking = MakeFile("shrinking");
  const CUfileHandle_t truncated = Register(shrinking);
  BAD_AS("before truncation", cuFileRead(truncated, memory, kFileBytes, 0, 0));
  if (ftruncate(shrinking, 100) != 0) return;
  BAD_AS("after truncation", cuFileRead(truncated, memory, kFileBytes, 0, 0));
  const int deleted_file = MakeFile("deleted");
  const CUfileHandle_t deleted = Register(deleted_file);
  unlink(Path("deleted").c_str());
  BAD_AS("deleted", cuFileRead(deleted, memory, 4096, 0, 0));
  const int sparse_file = MakeFile("sparse", 0);
  if (ftruncate(sparse_file, 1 << 20) != 0) return;
  const CUfileHandle_t sparse = Register(sparse_file);
  BAD_AS("hole", cuFileRead(sparse, memory, 1 << 20, 0, 0));
  BAD_AS("byte of the hole", std::to_string(FirstByte(memory)));
}

void ReadContexts() {
  Open();
  char* const memory = Device();
  const CUfileHandle_t file = Register(MakeFile("data"));
  BAD_AS("thread without context, device",
         InThread([&] { return cuFileRead(file, memory, 4096, 0, 0); }));
  BAD_AS("thread without context, pinned", InThread([&] {
           void* pinned = nullptr;
           CHECK(cudaMallocHost(&pinned, 4096));
           cuCtxSetCurrent(nullptr);
           return cuFileRead(file, pinned, 4096, 0, 0);
         }));
  BAD_AS("thread without context, stack", InThread([&] {
           char stack[4096];
           return cuFileRead(file, stack, 4096, 0, 0);
         }));
  BAD_AS("thread without context, write",
         InThread([&] { return cuFileWrite(file, memory, 4096, 0, 0); }));
  BAD_AS("thread without context, cuFileBufRegister",
         InThread([&] { return cuFileBufRegister(memory, kMemoryBytes, 0); }));
  BAD_AS("thread without context, registered",
         InThread([&] { return cuFileRead(file, memory, 4096, 0, 0); }));
  BAD_AS("thread without context, cuFileBufDeregister",
         InThread([&] { return cuFileBufDeregister(memory); }));
  BAD_AS("thread without context, current after a read", InThread([&] {
           cuFileRead(file, memory, 4096, 0, 0);
           CUcontext current = nullptr;
           DRIVER(cuCtxGetCurrent(&current));
           return std::string(current == nullptr ? "none" : "a context");
         }));
  CUcontext primary = nullptr;
  CUcontext other = nullptr;
  CUdeviceptr of_other = 0;
  DRIVER(cuCtxGetCurrent(&primary));
  DRIVER(cuCtxCreate(&other, nullptr, 0, 0));
  DRIVER(cuMemAlloc(&of_other, kMemoryBytes));
  void* const pointer = reinterpret_cast<void*>(of_other);
  BAD_AS("memory of another context that is current", cuFileRead(file, pointer, 4096, 0, 0));
  BAD_AS("memory of the primary context, another one is current",
         cuFileRead(file, memory, 4096, 0, 0));
  DRIVER(cuCtxSetCurrent(primary));
  BAD_AS("memory of a context that is not current", cuFileRead(file, pointer, 4096, 0, 0));
  BAD_AS("write from it", cuFileWrite(file, pointer, 4096, 0, 0));
  BAD_AS("cuFileBufRegister of it", cuFileBufRegister(pointer, kMemoryBytes, 0));
  BAD_AS("read into it", cuFileRead(file, pointer, 4096, 0, 0));
  BAD_AS("cuFileBufDeregister of it", cuFileBufDeregister(pointer));
  BAD_AS("thread without context, memory of another context",
         InThread([&] { return cuFileRead(file, pointer, 4096, 0, 0); }));
  DRIVER(cuCtxDestroy(other));
  BAD_AS("memory of a destroyed context", cuFileRead(file, pointer, 4096, 0, 0));
  BAD_AS("memory of the primary context after it", cuFileRead(file, memory, 4096, 0, 0));
}

void WriteSizes() {
  Open();
  char* const memory = Device();
  const int descriptor = MakeFile("data");
  const CUfileHandle_t file = Register(descriptor);
  const auto size = [&](const std::string& result) {
    return result + " file " + std::to_string(SizeOf(descriptor));
  };
  BAD(cuFileWrite(file, nullptr, 0, 0, 0));
  BAD(cuFileWrite(file, nullptr, 4096, 0, 0));
  BAD(cuFileWrite(file, memory, 0, 0, 0));
  BAD(size(cuFileWrite(file, memory, 0, 1 << 20, 0)));
  BAD(cuFileWrite(file, memory, 4096, -1, 0));
  BAD(cuFileWrite(file, memory, 4096, INT64_MIN, 0));
  BAD(cuFileWrite(file, memory, 4096, kHugeOffset, 0));
  BAD(cuFileWrite(file, memory, 4096, INT64_MAX, 0));
  BAD(cuFileWrite(file, memory, 4096, 0, -1));
  BAD(cuFileWrite(file, memory + 4096, 4096, 0, -4096));
  BAD(cuFileWrite(file, memory + 4096, 4096, 0, -8192));
  BAD(cuFileWrite(file, memory, 4096, 0, kMemoryBytes));
  BAD(cuFileWrite(file, memory, 4096, 0, kMemoryBytes - 4095));
  BAD(cuFileWrite(file, memory, 4096, 0, INT64_MAX));
  BAD(size(cuFileWrite(file, memory, kMemoryBytes + 1, 0, 0)));
  BAD(size(cuFileWrite(file, memory, std::size_t{1} << 40, 0, 0)));
  BAD(size(cuFileWrite(file, memory, std::size_t{1} << 62, 0, 0)));
  BAD(size(cuFileWrite(file, memory, SIZE_MAX, 0, 0)));
  BAD(size(cuFileWrite(file, memory, 1, 1, 1)));
  BAD(size(cuFileWrite(file, memory, 4096, kFileBytes, 0)));
  BAD(size(cuFileWrite(file, memory, 1, 1 << 20, 0)));
  MUST(cuFileBufRegister(memory, 65536, 0));
  BAD_AS("registered, over the end", size(cuFileWrite(file, memory, 131072, 0, 0)));
  BAD_AS("registered, beyond the end", size(cuFileWrite(file, memory, 4096, 0, 65536)));
  BAD_AS("registered, over the allocation",
         size(cuFileWrite(file, memory, kMemoryBytes + 4096, 0, 0)));
}

void WritePointers() {
  Open();
  const CUfileHandle_t file = Register(MakeFile("data"));
  const Kinds kinds;
  const char stack[4096]{};
  BAD_AS("device", cuFileWrite(file, kinds.device, 4096, 0, 0));
  BAD_AS("cudaMallocHost", cuFileWrite(file, kinds.pinned, 4096, 0, 0));
  BAD_AS("cudaMallocManaged", cuFileWrite(file, kinds.managed, 4096, 0, 0));
  BAD_AS("cudaMallocAsync", cuFileWrite(file, kinds.pooled, 4096, 0, 0));
  BAD_AS("aligned_alloc", cuFileWrite(file, kinds.pageable, 4096, 0, 0));
  BAD_AS("cudaHostRegister", cuFileWrite(file, kinds.registered, 4096, 0, 0));
  BAD_AS("stack", cuFileWrite(file, stack, sizeof stack, 0, 0));
  BAD_AS("stack, unaligned", cuFileWrite(file, stack + 1, 100, 1, 1));
  BAD_AS("size 0 from pageable memory", cuFileWrite(file, kinds.pageable, 0, 0, 0));
  BAD_AS("two allocations", cuFileWrite(file, kinds.adjacent + kMemoryBytes - 4096, 8192, 0, 0));
  BAD_AS("cudaMallocHost, beyond", cuFileWrite(file, kinds.pinned, 4096, 0, kMemoryBytes));
  BAD_AS("cudaMallocManaged, beyond", cuFileWrite(file, kinds.managed, 4096, 0, kMemoryBytes));
  BAD_AS("rubbish 4096", cuFileWrite(file, Rubbish<void*>(4096), 4096, 0, 0));
  BAD_AS("rubbish -4096", cuFileWrite(file, Rubbish<void*>(-4096), 4096, 0, 0));
  BAD_AS("NULL with an offset", cuFileWrite(file, nullptr, 4096, 0, 4096));
  CHECK(cudaFree(kinds.device));
  BAD_AS("freed", cuFileWrite(file, kinds.device, 4096, 0, 0));
}

void WriteFiles() {
  Open();
  char* const memory = Device();
  static char host[4096];
  MakeFile("data");
  const std::string data = Path("data");
  const CUfileHandle_t read_only = Register(open(data.c_str(), O_RDONLY));
  BAD_AS("O_RDONLY", cuFileWrite(read_only, memory, 4096, 0, 0));
  BAD_AS("O_RDONLY from host memory", cuFileWrite(read_only, host, 4096, 0, 0));
  BAD_AS("O_RDONLY, size 0", cuFileWrite(read_only, memory, 0, 0, 0));
  const int appending = open(data.c_str(), O_RDWR | O_APPEND);
  CUfileDescr_t descriptor = DescriptorOf(appending);
  CUfileHandle_t append = nullptr;
  BAD_AS("register O_APPEND", cuFileHandleRegister(&append, &descriptor));
  if (append != nullptr) {
    BAD_AS("O_APPEND at 0", cuFileWrite(append, memory, 4096, 0, 0));
    BAD_AS("size after it", std::to_string(SizeOf(appending)));
  }
  const CUfileHandle_t full = Register(MakeFile("full"));
  CUfileDescr_t device = DescriptorOf(open("/dev/full", O_RDWR));
  CUfileHandle_t full_device = nullptr;
  BAD_AS("register /dev/full", cuFileHandleRegister(&full_device, &device));
  if (full_device != nullptr) {
    BAD_AS("/dev/full", cuFileWrite(full_device, memory, 4096, 0, 0));
  }
  BAD_AS("after it", cuFileWrite(full, memory, 4096, 0, 0));
}

void DirectFiles() {
  Open();
  char* const memory = Device();
  char* const pageable = static_cast<char*>(std::aligned_alloc(4096, 65536));
  const int descriptor = MakeFile("data", kFileBytes, O_RDWR | O_DIRECT);
  const CUfileHandle_t file = Register(descriptor);
  BAD(cuFileRead(file, memory, 4096, 0, 0));
  BAD(cuFileRead(file, memory, 4096, 1, 0));
  BAD(cuFileRead(file, memory, 4095, 0, 0));
  BAD(cuFileRead(file, memory, 4096, 0, 1));
  BAD(cuFileRead(file, memory, 1, 1, 1));
  BAD(cuFileRead(file, memory, kFileBytes, 4096, 0));
  BAD(cuFileRead(file, memory, kFileBytes, kFileBytes, 0));
  BAD(cuFileRead(file, memory, 512, 512, 512));
  BAD(cuFileWrite(file, memory, 4096, 0, 0));
  BAD(cuFileWrite(file, memory, 4096, 1, 0));
  BAD(cuFileWrite(file, memory, 4095, 0, 0));
  BAD(cuFileWrite(file, memory, 4096, 0, 1));
  BAD(cuFileWrite(file, memory, 1, kFileBytes, 0));
  BAD_AS("size after it", std::to_string(SizeOf(descriptor)));
  BAD(cuFileRead(file, pageable, 4096, 0, 0));
  BAD(cuFileRead(file, pageable, 4096, 1, 0));
  BAD(cuFileRead(file, pageable, 4095, 0, 0));
  BAD(cuFileRead(file, pageable, 4096, 0, 1));
  BAD(cuFileWrite(file, pageable, 4095, 0, 1));
  MUST(cuFileBufRegister(memory, 65536, 0));
  BAD_AS("registered, unaligned", cuFileRead(file, memory, 100, 1, 1));
  BAD_AS("registered, unaligned write", cuFileWrite(file, memory, 100, 1, 1));
}

// Host memory is a parameter of the library.
void HostMemoryOff() {
  CHECK(cudaFree(nullptr));
  static char host[4096];
  BAD(cuFileSetParameterBool(CUFILE_PARAM_PROPERTIES_ALLOW_SYSTEM_MEMORY, false));
  MUST(cuFileDriverOpen());
  const CUfileHandle_t file = Register(MakeFile("data"));
  void* pinned = nullptr;
  CHECK(cudaMallocHost(&pinned, 4096));
  BAD(cuFileRead(file, host, 4096, 0, 0));
  BAD(cuFileWrite(file, host, 4096, 0, 0));
  BAD(cuFileRead(file, pinned, 4096, 0, 0));
  BAD(cuFileBufRegister(host, 4096, 0));
  BAD(cuFileBufRegister(pinned, 4096, 0));
  BAD(cuFileRead(file, Device(), 4096, 0, 0));
}

}  // namespace cufile
