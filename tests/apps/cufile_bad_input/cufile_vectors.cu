// Reads and writes of several buffers.
#include <fcntl.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "group.h"

namespace cufile {

void Vectors() {
  Open();
  char* const memory = Device();
  const CUfileHandle_t file = Register(MakeFile("data"));
  static char zeros[4096];
  const std::vector<CUfileIOVec_t> many(2048, {memory, 16});
  const CUfileIOVec_t one{memory, 4096};
  BAD(cuFileReadv(nullptr, &one, 1, 0, 0));
  BAD(cuFileReadv(zeros, &one, 1, 0, 0));
  BAD(cuFileReadv(Rubbish<CUfileHandle_t>(1), &one, 1, 0, 0));
  BAD(cuFileReadv(file, nullptr, 0, 0, 0));
  BAD(cuFileReadv(file, nullptr, 1, 0, 0));
  BAD(cuFileReadv(file, &one, 0, 0, 0));
  BAD(cuFileReadv(file, &one, 1, 0, 0));
  BAD(cuFileReadv(file, many.data(), 1023, 0, 0));
  BAD(cuFileReadv(file, many.data(), 1024, 0, 0));
  BAD(cuFileReadv(file, many.data(), 1025, 0, 0));
  BAD(cuFileReadv(file, many.data(), 2048, 0, 0));
  BAD(cuFileReadv(file, many.data(), std::size_t{1} << 32, 0, 0));
  BAD(cuFileReadv(file, many.data(), std::size_t{1} << 62, 0, 0));
  BAD(cuFileReadv(file, many.data(), SIZE_MAX, 0, 0));
  BAD(cuFileReadv(file, &one, 1, -1, 0));
  BAD(cuFileReadv(file, &one, 1, INT64_MIN, 0));
  BAD(cuFileReadv(file, &one, 1, INT64_MAX, 0));
  BAD(cuFileReadv(file, &one, 1, kFileBytes, 0));
  BAD(cuFileReadv(file, &one, 1, kFileBytes - 1, 0));
  BAD(cuFileReadv(file, &one, 1, 0, 1));
  BAD(cuFileReadv(file, &one, 1, 0, 2));
  BAD(cuFileReadv(file, &one, 1, 0, 0x80000000));
  BAD(cuFileReadv(file, &one, 1, 0, ~0u));
}

void VectorEntries() {
  Open();
  char* const memory = Device();
  const CUfileHandle_t file = Register(MakeFile("data"));
  static char host[8192];
  void* managed = nullptr;
  CHECK(cudaMallocManaged(&managed, 4096));
  const auto read = [&](const std::vector<CUfileIOVec_t>& parts, off_t offset = 0) {
    return cuFileReadv(file, parts.data(), parts.size(), offset, 0);
  };
  BAD(read({{memory, 0}}));
  BAD(read({{nullptr, 0}}));
  BAD(read({{nullptr, 4096}}));
  FATAL(read({{memory, 4096}, {nullptr, 0}}));
  FATAL(read({{memory, 4096}, {nullptr, 4096}}));
  FATAL(read({{memory, 0}, {memory, 4096}}));
  FATAL(read({{memory, 4096}, {memory, 0}}));
  BAD(read({{memory, 4096}, {memory, 4096}}));
  BAD(read({{memory, 1}, {memory + 1, 3}, {memory + 4, 4092}}));
  BAD(read({{host, 4096}}));
  BAD(read({{host, 1}, {host + 1, 4095}}));
  BAD(read({{managed, 4096}}));
  BAD(read({{memory, 4096}, {host, 4096}}));
  BAD(read({{host, 4096}, {memory, 4096}}));
  BAD(read({{memory, 4096}, {managed, 4096}}));
  FATAL(read({{memory, 4096}, {host, 0}}));
  BAD(read({{memory, kMemoryBytes + 1}}));
  BAD(read({{memory + kMemoryBytes - 1, 2}}));
  FATAL(read({{memory, 4096}, {memory, SIZE_MAX}}));
  BAD(read({{memory, SIZE_MAX}, {memory, SIZE_MAX}}));
  BAD(read({{memory, std::size_t{1} << 62}, {memory, std::size_t{1} << 62}}));
  BAD(read({{Rubbish<void*>(1), 4096}}));
  BAD(read({{memory, 4096}, {Rubbish<void*>(1), 4096}}));
  BAD(read({{memory, kFileBytes}, {memory, kFileBytes}}));
  BAD(read({{memory, 4096}, {memory, 4096}}, kFileBytes - 6000));
  BAD(read({{memory, 4096}, {memory, 4096}}, kFileBytes));
  BAD_AS("thread without context", InThread([&] { return read({{memory, 4096}, {host, 4096}}); }));
  BAD_AS("cuFileBufRegister after all", cuFileBufRegister(memory, 65536, 0));
}

void VectorBuffers() {
  Open();
  char* const memory = Device();
  const CUfileHandle_t file = Register(MakeFile("data"));
  const auto read = [&](const std::vector<CUfileIOVec_t>& parts) {
    return cuFileReadv(file, parts.data(), parts.size(), 0, 0);
  };
  MUST(cuFileBufRegister(memory, 65536, 0));
  BAD_AS("registered", read({{memory, 4096}, {memory + 4096, 4096}}));
  BAD_AS("registered and not", read({{memory, 4096}, {memory + 65536, 4096}}));
  BAD_AS("over the end of a registered buffer", read({{memory + 61440, 8192}}));
  char* const freed = Device();
  CHECK(cudaFree(freed));
  FATAL_AS("freed", read({{memory, 4096}, {freed, 4096}}));
}

void VectorWrites() {
  Open();
  char* const memory = Device();
  const int descriptor = MakeFile("data");
  const CUfileHandle_t file = Register(descriptor);
  const CUfileHandle_t read_only = Register(open(Path("data").c_str(), O_RDONLY));
  const CUfileHandle_t write_only = Register(open(Path("data").c_str(), O_WRONLY));
  static char host[8192];
  const std::vector<CUfileIOVec_t> many(1025, {memory, 16});
  const CUfileIOVec_t one{memory, 4096};
  const CUfileIOVec_t mixed[2] = {{memory, 4096}, {host, 4096}};
  const CUfileIOVec_t with_null[2] = {{memory, 4096}, {nullptr, 4096}};
  const CUfileIOVec_t too_long{memory, kMemoryBytes + 1};
  const CUfileIOVec_t none{memory, 0};
  BAD(cuFileWritev(nullptr, &one, 1, 0, 0));
  BAD(cuFileWritev(file, nullptr, 0, 0, 0));
  BAD(cuFileWritev(file, nullptr, 1, 0, 0));
  BAD(cuFileWritev(file, &one, 0, 0, 0));
  BAD(cuFileWritev(file, &one, 1, 0, 0));
  BAD(cuFileWritev(file, &none, 1, 0, 0));
  BAD(cuFileWritev(file, many.data(), 1024, 0, 0));
  BAD(cuFileWritev(file, many.data(), 1025, 0, 0));
  BAD(cuFileWritev(file, many.data(), SIZE_MAX, 0, 0));
  BAD(cuFileWritev(file, mixed, 2, 0, 0));
  FATAL(cuFileWritev(file, with_null, 2, 0, 0));
  BAD(cuFileWritev(file, &too_long, 1, 0, 0));
  BAD(cuFileWritev(file, &one, 1, -1, 0));
  BAD(cuFileWritev(file, &one, 1, INT64_MAX, 0));
  BAD(cuFileWritev(file, &one, 1, 0, 1));
  BAD(cuFileWritev(file, &one, 1, 0, ~0u));
  BAD(cuFileWritev(read_only, &one, 1, 0, 0));
  BAD(cuFileReadv(write_only, &one, 1, 0, 0));
  BAD(cuFileWritev(file, &one, 1, kFileBytes, 0));
  BAD_AS("size after it", std::to_string(SizeOf(descriptor)));
}

}  // namespace cufile
