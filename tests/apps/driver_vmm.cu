// Virtual memory management of the CUDA driver API: reservations larger than the device, mappings
// that come, go and change places, work across their borders, a vector that grows where it is, as
// allocators of frameworks have it; memory of one device for another, and of one process for
// another.
//
//   driver_vmm
#include <cuda.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "driver_check.h"

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

// As a pool of a framework: it reserves more than the device has, maps pieces as it needs them,
// keeps no handles, and gives back pieces in any order.
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
  // Each over a border.
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

// A vector that grows: what it has stays where it is, or moves by being mapped elsewhere.
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
    // In a larger reservation: the bytes are not copied.
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

// Memory of the second device, which the first one uses where it is.
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

void SendFile(int socket, int file) {
  char byte = 'f';
  iovec part{&byte, 1};
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = room;
  message.msg_controllen = sizeof room;
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &file, sizeof file);
  if (sendmsg(socket, &message, 0) != 1) std::exit(3);
}

// -1 when the other end has none to give.
int ReceiveFile(int socket) {
  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = room;
  message.msg_controllen = sizeof room;
  if (recvmsg(socket, &message, 0) != 1) return -1;
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  int file = -1;
  if (header != nullptr) std::memcpy(&file, CMSG_DATA(header), sizeof file);
  return file;
}

void Wait(int socket) {
  char byte = 0;
  if (read(socket, &byte, 1) != 1) std::exit(3);
}

void Tell(int socket) {
  if (write(socket, "x", 1) != 1) std::exit(3);
}

void UseDevice(int device) {
  DRIVER(cuInit(0));
  CUcontext context = nullptr;
  DRIVER(cuDevicePrimaryCtxRetain(&context, device));
  DRIVER(cuCtxSetCurrent(context));
}

// The process that has the memory of the other.
int Import(int socket) {
  const int file = ReceiveFile(socket);
  if (file < 0) return EXIT_SUCCESS;
  UseDevice(0);
  const std::size_t piece = Granularity(0);
  CUmemGenericAllocationHandle handle = 0;
  DRIVER(cuMemImportFromShareableHandle(&handle,
                                        reinterpret_cast<void*>(static_cast<std::intptr_t>(file)),
                                        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  close(file);
  const CUdeviceptr address = Reserve(piece);
  DRIVER(cuMemMap(address, piece, 0, handle, 0));
  DRIVER(cuMemRelease(handle));
  DRIVER(Allow(address, piece, 0));
  EXPECT(HasOnly(address, 100, 11), "what the other process wrote");
  DRIVER(cuMemsetD32(address, 12, 100));
  DRIVER(cuCtxSynchronize());
  Tell(socket);
  DRIVER(cuMemUnmap(address, piece));
  DRIVER(cuMemAddressFree(address, piece));
  return ExitStatus(failures);
}

void Export(int socket) {
  int able = 0;
  DRIVER(cuDeviceGetAttribute(&able,
                              CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 0));
  if (able == 0) return;
  const std::size_t piece = Granularity(0);
  CUmemAllocationProp properties = Properties(0);
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemGenericAllocationHandle handle = 0;
  DRIVER(cuMemCreate(&handle, piece, &properties, 0));
  const CUdeviceptr address = Reserve(piece);
  DRIVER(cuMemMap(address, piece, 0, handle, 0));
  DRIVER(Allow(address, piece, 0));
  DRIVER(cuMemsetD32(address, 11, 100));
  DRIVER(cuCtxSynchronize());
  unsigned long long types = 0;
  DRIVER(cuPointerGetAttribute(&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, address));
  EXPECT(types == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, "%llu", types);
  int file = -1;
  DRIVER(cuMemExportToShareableHandle(&file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  SendFile(socket, file);
  close(file);
  Wait(socket);
  EXPECT(HasOnly(address, 100, 12), "what the other process wrote");
  DRIVER(cuMemUnmap(address, piece));
  DRIVER(cuMemRelease(handle));
  DRIVER(cuMemAddressFree(address, piece));
}

}  // namespace

int main() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return 3;
  const pid_t other = fork();
  if (other == 0) {
    close(ends[0]);
    return Import(ends[1]);
  }
  close(ends[1]);
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
    Export(ends[0]);
  }
  close(ends[0]);
  int status = 0;
  EXPECT(waitpid(other, &status, 0) == other && status == 0, "the other process: %d", status);
  std::printf("driver_vmm: %s\n", Verdict(failures));
  return ExitStatus(failures);
}
