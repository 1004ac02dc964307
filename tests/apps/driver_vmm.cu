// Virtual memory management of the CUDA driver API: reservations larger than the device, mappings
// created, removed and moved, and work across their borders. Also a vector growing in place, as in
// allocators of frameworks, and memory of other devices and processes.
//
//   driver_vmm
#include <cuda.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "driver_check.h"
#include "two_processes.h"

namespace {

int failures = 0;

#define EXPECT_FAILURE(call)                                                     \
  do {                                                                           \
    const CUresult expect_result = (call);                                       \
    EXPECT(expect_result != CUDA_SUCCESS, "%s: %s", #call, Name(expect_result)); \
  } while (false)

__global__ void AddToAll(unsigned* words, std::size_t count, unsigned value) {
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step)
    words[i] += value;
}

unsigned* Words(CUdeviceptr address) { return reinterpret_cast<unsigned*>(address); }

CUmemAllocationProp Properties(int device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  return properties;
}

std::size_t Granularity(int device) {
  const CUmemAllocationProp properties = Properties(device);
  std::size_t least = 0;
  std::size_t best = 0;
  DRIVER(cuMemGetAllocationGranularity(&least, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  DRIVER(cuMemGetAllocationGranularity(&best, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  EXPECT(least != 0 && best % least == 0, "%zu and %zu bytes", least, best);
  return best;
}

CUmemGenericAllocationHandle Create(std::size_t bytes, int device) {
  const CUmemAllocationProp properties = Properties(device);
  CUmemGenericAllocationHandle handle = 0;
  DRIVER(cuMemCreate(&handle, bytes, &properties, 0));
  return handle;
}

CUresult Allow(CUdeviceptr address, std::size_t bytes, int device) {
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return cuMemSetAccess(address, bytes, &access, 1);
}

CUdeviceptr Reserve(std::size_t bytes, CUdeviceptr hint = 0) {
  CUdeviceptr address = 0;
  DRIVER(cuMemAddressReserve(&address, bytes, 0, hint, 0));
  return address;
}

bool HasOnly(CUdeviceptr address, std::size_t count, unsigned value) {
  std::vector<unsigned> read(count);
  CHECK(cudaMemcpy(read.data(), Words(address), count * sizeof(unsigned), cudaMemcpyDefault));
  for (const unsigned word : read)
    if (word != value) return false;
  return true;
}

// A pool like a framework's: reserves more than the device's memory, maps pieces on demand, keeps
// no handles, and returns pieces in any order.
void CheckPool(int device) {
  const std::size_t piece = Granularity(device);
  const std::size_t words = piece / sizeof(unsigned);
  std::size_t free = 0;
  std::size_t total = 0;
  DRIVER(cuMemGetInfo(&free, &total));
  const std::size_t reserved = (total + total / 8 + piece - 1) / piece * piece;
  const CUdeviceptr pool = Reserve(reserved);
  const CUdeviceptr second_pool = Reserve(reserved);
  EXPECT(pool % piece == 0 && (second_pool >= pool + reserved || pool >= second_pool + reserved),
         "pools at %llx and %llx", pool, second_pool);
  constexpr int kPieces = 6;
  const auto at = [&](int index) { return pool + static_cast<std::size_t>(index) * piece; };
  const auto map = [&](int index) {
    const CUmemGenericAllocationHandle handle = Create(piece, device);
    DRIVER(cuMemMap(at(index), piece, 0, handle, 0));
    DRIVER(cuMemRelease(handle));
    DRIVER(Allow(at(index), piece, device));
  };
  for (int i = 0; i < kPieces; ++i) map(i);
  std::vector<unsigned> data(kPieces * words);
  std::iota(data.begin(), data.end(), 0U);
  DRIVER(cuMemcpyHtoD(pool, data.data(), kPieces * piece));
  AddToAll<<<64, 128>>>(Words(pool), kPieces * words, 3);
  CHECK_LAUNCH();
  std::vector<unsigned> read(data.size());
  DRIVER(cuMemcpyDtoH(read.data(), pool, kPieces * piece));
  bool equal = true;
  for (std::size_t i = 0; i < read.size(); ++i) equal = equal && read[i] == data[i] + 3;
  EXPECT(equal, "a kernel across mappings");
  // Each across a border.
  DRIVER(cuMemsetD32(at(1) - piece / 2, 77, words));
  DRIVER(cuMemcpyDtoD(at(3) - piece / 2, at(1) - piece / 2, piece));
  EXPECT(HasOnly(at(3) - piece / 2, words, 77), "a set and a copy across mappings");

  for (const int index : {4, 1, 3}) {
    DRIVER(cuCtxSynchronize());
    DRIVER(cuMemUnmap(at(index), piece));
  }
  for (const int index : {3, 4, 1}) map(index);
  DRIVER(cuMemsetD32(pool, 5, kPieces * words));
  EXPECT(HasOnly(pool, kPieces * words, 5), "after new mappings");
  DRIVER(cuMemUnmap(pool, 2 * piece));
  for (int i = 2; i < kPieces; ++i) DRIVER(cuMemUnmap(at(i), piece));
  DRIVER(cuMemAddressFree(pool, reserved));
  DRIVER(cuMemAddressFree(second_pool, reserved));
}

// A growing vector: its contents stay, or move to another mapping.
void CheckGrowth(int device) {
  const std::size_t piece = Granularity(device);
  const std::size_t words = piece / sizeof(unsigned);
  std::vector<CUmemGenericAllocationHandle> handles = {Create(piece, device)};
  CUdeviceptr vector = Reserve(piece);
  DRIVER(cuMemMap(vector, piece, 0, handles[0], 0));
  DRIVER(Allow(vector, piece, device));
  DRIVER(cuMemsetD32(vector, 1, words));
  for (unsigned size = 2; size <= 4; ++size) {
    handles.push_back(Create(piece, device));
    // Mapped into a larger reservation: the bytes are not copied.
    const CUdeviceptr larger = Reserve(size * piece);
    DRIVER(cuMemUnmap(vector, (size - 1) * piece));
    DRIVER(cuMemAddressFree(vector, (size - 1) * piece));
    for (unsigned i = 0; i < size; ++i)
      DRIVER(cuMemMap(larger + i * piece, piece, 0, handles[i], 0));
    DRIVER(Allow(larger, size * piece, device));
    vector = larger;
    DRIVER(cuMemsetD32(vector + (size - 1) * piece, size, words));
    for (unsigned i = 0; i < size; ++i)
      EXPECT(HasOnly(vector + i * piece, words, i + 1), "piece %u of %u", i, size);
  }
  DRIVER(cuMemUnmap(vector, 4 * piece));
  for (const CUmemGenericAllocationHandle handle : handles) DRIVER(cuMemRelease(handle));
  DRIVER(cuMemAddressFree(vector, 4 * piece));
}

void CheckWhatIsTold(int device) {
  const std::size_t piece = Granularity(device);
  const CUdeviceptr address = Reserve(4 * piece);
  const CUmemGenericAllocationHandle handle = Create(piece, device);
  DRIVER(cuMemMap(address + piece, piece, 0, handle, 0));
  CUmemLocation location{};
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = device;
  unsigned long long flags = 7;
  DRIVER(cuMemGetAccess(&flags, &location, address + piece));
  EXPECT(flags == CU_MEM_ACCESS_FLAGS_PROT_NONE, "%llu", flags);
  DRIVER(Allow(address + piece, piece, device));
  DRIVER(cuMemGetAccess(&flags, &location, address + piece));
  EXPECT(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE, "%llu", flags);

  CUmemGenericAllocationHandle found = 0;
  DRIVER(cuMemRetainAllocationHandle(&found, Words(address + piece) + 5));
  EXPECT(found == handle, "%llx, not %llx", found, handle);
  DRIVER(cuMemRelease(found));
  CUmemAllocationProp properties{};
  DRIVER(cuMemGetAllocationPropertiesFromHandle(&properties, handle));
  EXPECT(properties.type == CU_MEM_ALLOCATION_TYPE_PINNED &&
             properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
             properties.location.id == device,
         "type %d, location %d of type %d", static_cast<int>(properties.type),
         properties.location.id, static_cast<int>(properties.location.type));

  const CUdeviceptr inside = address + piece + 16;
  CUdeviceptr start = 0;
  std::size_t bytes = 0;
  DRIVER(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, inside));
  DRIVER(cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, inside));
  EXPECT(start == address && bytes == 4 * piece, "%llx + %zx", start, bytes);
  DRIVER(cuMemGetAddressRange(&start, &bytes, inside));
  EXPECT(start == address + piece && bytes == piece, "%llx + %zx", start, bytes);
  unsigned type = 0;
  DRIVER(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, inside));
  EXPECT(type == CU_MEMORYTYPE_DEVICE, "%u", type);
  unsigned char mapped = 0;
  DRIVER(cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, inside));
  EXPECT(mapped == 1, "%d", mapped);
  cudaPointerAttributes attributes{};
  CHECK(cudaPointerGetAttributes(&attributes, Words(inside)));
  EXPECT(attributes.type == cudaMemoryTypeDevice && attributes.device == device, "type %d of %d",
         static_cast<int>(attributes.type), attributes.device);

  CUmemGenericAllocationHandle none = 0;
  EXPECT_FAILURE(cuMemMap(address + piece, piece, 0, handle, 0));
  EXPECT_FAILURE(Allow(address, 2 * piece, device));
  EXPECT_FAILURE(cuMemRetainAllocationHandle(&none, Words(address)));
  EXPECT_RESULT(cuMemMap(address, piece, 0, handle, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemMap(address, piece / 2, 0, handle, 0), CUDA_ERROR_NOT_SUPPORTED);
  properties = Properties(device);
  EXPECT_RESULT(cuMemCreate(&none, piece + 1, &properties, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemCreate(&none, piece, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemCreate(&none, std::size_t{1} << 50, &properties, 0), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_RESULT(cuMemAddressReserve(&start, piece + 1, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemAddressReserve(&start, piece, 3, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemAddressReserve(&start, piece, 0, 0, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemAddressFree(address, piece), CUDA_ERROR_INVALID_VALUE);

  DRIVER(cuMemUnmap(address + piece, piece));
  DRIVER(cuMemRelease(handle));
  DRIVER(cuMemAddressFree(address, 4 * piece));
}

// Memory of the second device, used by the first one in place.
void CheckPeer() {
  int count = 0;
  int can = 0;
  DRIVER(cuDeviceGetCount(&count));
  if (count >= 2) DRIVER(cuDeviceCanAccessPeer(&can, 0, 1));
  if (can == 0) return;
  const std::size_t piece = std::max(Granularity(0), Granularity(1));
  const std::size_t words = piece / sizeof(unsigned);
  const CUdeviceptr address = Reserve(2 * piece);
  for (const int device : {0, 1}) {
    const CUmemGenericAllocationHandle handle = Create(piece, device);
    DRIVER(cuMemMap(address + static_cast<unsigned>(device) * piece, piece, 0, handle, 0));
    DRIVER(cuMemRelease(handle));
  }
  for (const int device : {0, 1}) DRIVER(Allow(address, 2 * piece, device));
  CHECK(cudaSetDevice(0));
  CHECK(cudaMemset(Words(address), 0, 2 * piece));
  for (const int device : {0, 1}) {
    CHECK(cudaSetDevice(device));
    AddToAll<<<64, 128>>>(Words(address), 2 * words, 4);
    CHECK_LAUNCH();
    CHECK(cudaDeviceSynchronize());
  }
  EXPECT(HasOnly(address, 2 * words, 8), "kernels of both devices");
  DRIVER(cuMemUnmap(address, 2 * piece));
  DRIVER(cuMemAddressFree(address, 2 * piece));
  CHECK(cudaSetDevice(0));
}

// --- Two processes

// Memory belongs to the device: its contexts share it, and it outlives them.
void CheckContexts(int device) {
  const std::size_t piece = Granularity(device);
  const CUmemGenericAllocationHandle handle = Create(piece, device);
  const CUdeviceptr address = Reserve(piece);
  CUctxCreateParams parameters{};
  CUcontext first = nullptr;
  CUcontext second = nullptr;
  DRIVER(cuCtxCreate(&first, &parameters, 0, device));
  DRIVER(cuMemMap(address, piece, 0, handle, 0));
  DRIVER(Allow(address, piece, device));
  DRIVER(cuMemsetD32(address, 21, 100));
  DRIVER(cuCtxSynchronize());
  DRIVER(cuCtxCreate(&second, &parameters, 0, device));
  unsigned word = 0;
  DRIVER(cuMemcpyDtoH(&word, address, sizeof word));
  EXPECT(word == 21, "%u of the first context in the second", word);
  DRIVER(cuMemsetD32(address, 22, 100));
  DRIVER(cuCtxSynchronize());
  DRIVER(cuCtxDestroy(first));
  DRIVER(cuMemcpyDtoH(&word, address, sizeof word));
  EXPECT(word == 22, "%u after the first context", word);
  DRIVER(cuCtxDestroy(second));
  DRIVER(cuMemUnmap(address, piece));
  DRIVER(cuMemRelease(handle));
  DRIVER(cuMemAddressFree(address, piece));
}

void UseDevice(int device) {
  DRIVER(cuInit(0));
  CUcontext context = nullptr;
  DRIVER(cuDevicePrimaryCtxRetain(&context, device));
  DRIVER(cuCtxSetCurrent(context));
}

constexpr CUmemAllocationHandleType kDescriptor = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

// Maps a descriptor's memory, with access.
CUdeviceptr MapFile(int file, std::size_t bytes) {
  CUmemGenericAllocationHandle handle = 0;
  DRIVER(cuMemImportFromShareableHandle(
      &handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(file)), kDescriptor));
  close(file);
  const CUdeviceptr address = Reserve(bytes);
  DRIVER(cuMemMap(address, bytes, 0, handle, 0));
  DRIVER(cuMemRelease(handle));
  DRIVER(Allow(address, bytes, 0));
  return address;
}

void Drop(CUdeviceptr address, std::size_t bytes) {
  DRIVER(cuMemUnmap(address, bytes));
  DRIVER(cuMemAddressFree(address, bytes));
}

// The process using memory of the other.
int Import(const End& other) {
  const int file = other.ReceiveFile();
  if (file < 0) return EXIT_SUCCESS;
  UseDevice(0);
  const std::size_t piece = Granularity(0);
  const CUdeviceptr address = MapFile(file, piece);
  EXPECT(HasOnly(address, 100, 11), "what the other process wrote");
  DRIVER(cuMemsetD32(address, 12, 100));
  DRIVER(cuCtxSynchronize());
  other.Signal();
  Drop(address, piece);
  // Only the descriptor keeps this memory alive.
  const CUdeviceptr left = MapFile(other.ReceiveFile(), piece);
  EXPECT(HasOnly(left, 100, 13), "what the other process has released");
  Drop(left, piece);
  other.Signal();
  return ExitStatus(failures);
}

CUmemGenericAllocationHandle CreateExportable(std::size_t bytes, int* file) {
  CUmemAllocationProp properties = Properties(0);
  properties.requestedHandleTypes = kDescriptor;
  CUmemGenericAllocationHandle handle = 0;
  DRIVER(cuMemCreate(&handle, bytes, &properties, 0));
  DRIVER(cuMemExportToShareableHandle(file, handle, kDescriptor, 0));
  return handle;
}

// Memory lives until its last descriptor is closed.
void CheckLifeOfDescriptors() {
  const std::size_t piece = Granularity(0);
  std::size_t free = 0;
  std::size_t total = 0;
  DRIVER(cuMemGetInfo(&free, &total));
  const std::size_t most = free / 8 * 5 / piece * piece;
  int file = -1;
  DRIVER(cuMemRelease(CreateExportable(most, &file)));
  const CUmemAllocationProp properties = Properties(0);
  CUmemGenericAllocationHandle more = 0;
  EXPECT_RESULT(cuMemCreate(&more, most, &properties, 0), CUDA_ERROR_OUT_OF_MEMORY);
  const int copy = dup(file);
  close(file);
  EXPECT_RESULT(cuMemCreate(&more, most, &properties, 0), CUDA_ERROR_OUT_OF_MEMORY);
  close(copy);
  DRIVER(cuMemCreate(&more, most, &properties, 0));
  DRIVER(cuMemRelease(more));
}

void Export(const End& other) {
  int able = 0;
  DRIVER(cuDeviceGetAttribute(&able,
                              CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 0));
  if (able == 0) return;
  CheckLifeOfDescriptors();
  const std::size_t piece = Granularity(0);
  int file = -1;
  const CUmemGenericAllocationHandle handle = CreateExportable(piece, &file);
  const CUdeviceptr address = Reserve(piece);
  DRIVER(cuMemMap(address, piece, 0, handle, 0));
  DRIVER(Allow(address, piece, 0));
  DRIVER(cuMemsetD32(address, 11, 100));
  DRIVER(cuCtxSynchronize());
  unsigned long long types = 0;
  DRIVER(cuPointerGetAttribute(&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, address));
  EXPECT(types == kDescriptor, "%llu", types);
  CUcontext context = nullptr;
  DRIVER(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, address));
  EXPECT(context == nullptr, "the memory is a context's");
  other.SendFile(file);
  close(file);
  other.Await();
  EXPECT(HasOnly(address, 100, 12), "what the other process wrote");
  DRIVER(cuMemUnmap(address, piece));
  DRIVER(cuMemRelease(handle));

  const CUmemGenericAllocationHandle left = CreateExportable(piece, &file);
  DRIVER(cuMemMap(address, piece, 0, left, 0));
  DRIVER(Allow(address, piece, 0));
  DRIVER(cuMemsetD32(address, 13, 100));
  DRIVER(cuCtxSynchronize());
  Drop(address, piece);
  DRIVER(cuMemRelease(left));
  other.SendFile(file);
  close(file);
  other.Await();
}

}  // namespace

int main() {
  End other;
  const pid_t child = StartOther(&other);
  if (child == 0) return Import(other);
  UseDevice(0);
  int able = 0;
  DRIVER(cuDeviceGetAttribute(&able, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0));
  if (able != 0) {
    CheckPool(0);
    CheckGrowth(0);
    CheckWhatIsTold(0);
    CheckPeer();
    CheckContexts(0);
    UseDevice(0);
    Export(other);
  }
  close(other.socket);
  EXPECT(EndsWell(child), "the other process failed");
  std::printf("driver_vmm: %s\n", Verdict(failures));
  return ExitStatus(failures);
}
