// Memory managed by the program: cuMemAddressReserve, cuMemCreate, cuMemMap.
#include <cuda.h>

#include <algorithm>
#include <thread>

#include "tests/unit/interpose/loopback/loopback.h"

namespace cuspan {
namespace {

constexpr std::size_t kPiece = 2 << 20;
constexpr std::size_t kWordsOfPiece = kPiece / sizeof(std::uint32_t);

class VirtualMemoryTest : public LoopbackTest {
 protected:
  VirtualMemoryTest() {
    EXPECT_EQ(cuInit(0), CUDA_SUCCESS);
    // Enough free memory to create allocations without a request.
    gpu().HaveFree(std::uint64_t{1} << 30);
  }
  ~VirtualMemoryTest() override {
    // Reservations belong to no device.
    for (const auto& [address, bytes] : reserved_) cuMemAddressFree(address, bytes);
  }

  CUdeviceptr Reserve(std::size_t bytes, std::size_t alignment = 0, CUdeviceptr hint = 0) {
    CUdeviceptr address = 0;
    EXPECT_EQ(cuMemAddressReserve(&address, bytes, alignment, hint, 0), CUDA_SUCCESS);
    reserved_.push_back({address, bytes});
    return address;
  }
  static CUmemAllocationProp Properties(int device = 0) {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    return properties;
  }
  static CUresult TryCreate(std::size_t bytes, CUmemGenericAllocationHandle* handle,
                            int device = 0) {
    const CUmemAllocationProp properties = Properties(device);
    return cuMemCreate(handle, bytes, &properties, 0);
  }
  static CUmemGenericAllocationHandle Create(std::size_t bytes = kPiece, int device = 0) {
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(TryCreate(bytes, &handle, device), CUDA_SUCCESS);
    return handle;
  }
  static CUresult Allow(CUdeviceptr address, std::size_t bytes, int device = 0,
                        CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
    const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, device}, flags};
    return cuMemSetAccess(address, bytes, &access, 1);
  }
  // Returns memory of `count` pieces, each of an allocation with its handle released.
  CUdeviceptr Pieces(std::size_t count) {
    const CUdeviceptr address = Reserve(count * kPiece);
    for (std::size_t i = 0; i < count; ++i) {
      const auto handle = Create();
      EXPECT_EQ(cuMemMap(address + i * kPiece, kPiece, 0, handle, 0), CUDA_SUCCESS);
      EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
    }
    EXPECT_EQ(Allow(address, count * kPiece), CUDA_SUCCESS);
    return address;
  }
  static std::uint32_t* WordsAt(CUdeviceptr address) {
    return reinterpret_cast<std::uint32_t*>(address);
  }
  std::size_t Logged(const std::string& entry) {
    const std::vector<std::string> log = gpu().Log();
    return static_cast<std::size_t>(std::count(log.begin(), log.end(), entry));
  }

 private:
  std::vector<std::pair<CUdeviceptr, std::size_t>> reserved_;
};

TEST_F(VirtualMemoryTest, WorkSpansMappings) {
  const CUdeviceptr address = Pieces(3);
  const std::size_t words = 3 * kWordsOfPiece;
  std::vector<std::uint32_t> data = Count(words);
  EXPECT_EQ(cuMemcpyHtoD(address, data.data(), 3 * kPiece), CUDA_SUCCESS);
  EXPECT_CUDA(Add(WordsAt(address), static_cast<std::uint32_t>(words), 1, nullptr));
  for (std::uint32_t& word : data) ++word;
  EXPECT_EQ(Read(WordsAt(address), words), data);
  // Operations across one border each: a set, a copy on the device, rows, a few bytes.
  EXPECT_EQ(cuMemsetD32(address + kPiece - 8, 77, 4), CUDA_SUCCESS);
  EXPECT_CUDA(cudaMemcpy(WordsAt(address) + 2 * kWordsOfPiece - 2,
                         WordsAt(address) + kWordsOfPiece - 2, 16, cudaMemcpyDeviceToDevice));
  EXPECT_EQ(Read(WordsAt(address) + 2 * kWordsOfPiece - 2, 4), std::vector<std::uint32_t>(4, 77));
  EXPECT_CUDA(cudaMemset2D(WordsAt(address) + kWordsOfPiece - 4, 16, 0, 8, 2));
  EXPECT_EQ(Read(WordsAt(address) + kWordsOfPiece - 4, 6),
            (std::vector<std::uint32_t>{0, 0, 77, 77, 0, 0}));
  EXPECT_CUDA(cudaMemcpy2D(WordsAt(address) + 2 * kWordsOfPiece - 4, 16,
                           WordsAt(address) + kWordsOfPiece - 4, 16, 8, 2, cudaMemcpyDefault));
  EXPECT_EQ(cuMemcpyHtoD(address + kPiece, data.data(), 2 * kPiece + 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemUnmap(address, 3 * kPiece), CUDA_SUCCESS);
}

TEST_F(VirtualMemoryTest, AnAllocationKeepsItsBytesWhereverItIsMapped) {
  const CUdeviceptr address = Reserve(4 * kPiece);
  const auto handle = Create();
  EXPECT_EQ(cuMemMap(address, kPiece, 0, handle, 0), CUDA_SUCCESS);
  EXPECT_EQ(Allow(address, kPiece), CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD32(address, 5, kWordsOfPiece), CUDA_SUCCESS);
  EXPECT_EQ(cuMemMap(address + 2 * kPiece, kPiece, 0, handle, 0), CUDA_SUCCESS) << "a second place";
  EXPECT_EQ(cuMemUnmap(address, kPiece), CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD32(address, 5, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemsetD32(address + 2 * kPiece, 5, 1), CUDA_ERROR_INVALID_VALUE) << "no access yet";
  EXPECT_EQ(Allow(address + 2 * kPiece, kPiece), CUDA_SUCCESS);
  EXPECT_EQ(Read(WordsAt(address + 2 * kPiece), kWordsOfPiece),
            std::vector<std::uint32_t>(kWordsOfPiece, 5));
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(cuMemMap(address, kPiece, 0, handle, 0), CUDA_ERROR_INVALID_VALUE) << "released";
  EXPECT_EQ(Logged("release"), 0U);
  EXPECT_EQ(cuMemUnmap(address + 2 * kPiece, kPiece), CUDA_SUCCESS);
  EXPECT_CUDA(cudaDeviceSynchronize());
  EXPECT_EQ(cuMemGetInfo(nullptr, nullptr), CUDA_SUCCESS);  // Waits for the worker.
  EXPECT_EQ(Logged("release"), 1U);
}

TEST_F(VirtualMemoryTest, AHandleIsFoundByAnAddress) {
  const CUdeviceptr address = Pieces(2);
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(cuMemRetainAllocationHandle(&handle, WordsAt(address) + 1), CUDA_SUCCESS);
  CUmemGenericAllocationHandle other = 0;
  EXPECT_EQ(cuMemRetainAllocationHandle(&other, WordsAt(address + kPiece)), CUDA_SUCCESS);
  EXPECT_NE(handle, other);
  CUmemAllocationProp properties{};
  EXPECT_EQ(cuMemGetAllocationPropertiesFromHandle(&properties, handle), CUDA_SUCCESS);
  EXPECT_EQ(properties.type, CU_MEM_ALLOCATION_TYPE_PINNED);
  EXPECT_EQ(properties.location.type, CU_MEM_LOCATION_TYPE_DEVICE);
  EXPECT_EQ(properties.location.id, 0);
  EXPECT_EQ(cuMemUnmap(address, kPiece), CUDA_SUCCESS);
  EXPECT_EQ(cuMemMap(address, kPiece, 0, handle, 0), CUDA_SUCCESS);
  for (const auto released : {handle, other}) {
    EXPECT_EQ(cuMemRelease(released), CUDA_SUCCESS);
    EXPECT_EQ(cuMemRelease(released), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemGetAllocationPropertiesFromHandle(&properties, released),
              CUDA_ERROR_INVALID_VALUE);
  }
  EXPECT_EQ(cuMemUnmap(address, 2 * kPiece), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRetainAllocationHandle(&handle, WordsAt(address)), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(VirtualMemoryTest, PointersTellWhatTheyPointTo) {
  const CUdeviceptr address = Pieces(2);
  const CUdeviceptr inside = address + kPiece + 12;
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  EXPECT_EQ(cuMemGetAddressRange(&base, &bytes, inside), CUDA_SUCCESS);
  EXPECT_EQ(base, address + kPiece);
  EXPECT_EQ(bytes, kPiece);
  EXPECT_EQ(cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, inside),
            CUDA_SUCCESS);
  EXPECT_EQ(base, address);
  EXPECT_EQ(cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, inside), CUDA_SUCCESS);
  EXPECT_EQ(bytes, 2 * kPiece);
  CUcontext context = reinterpret_cast<CUcontext>(1);
  EXPECT_EQ(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, inside), CUDA_SUCCESS);
  EXPECT_EQ(context, nullptr) << "it belongs to its device";
  unsigned char capable = 1;
  EXPECT_EQ(
      cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, inside),
      CUDA_SUCCESS);
  EXPECT_EQ(capable, 0);
  cudaPointerAttributes attributes{};
  EXPECT_CUDA(cudaPointerGetAttributes(&attributes, WordsAt(inside)));
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  EXPECT_EQ(attributes.device, 0);
  EXPECT_CUDA_ERROR(cudaFree(WordsAt(address)), cudaErrorInvalidValue);
  EXPECT_EQ(cuMemUnmap(address, 2 * kPiece), CUDA_SUCCESS);
  EXPECT_EQ(cuMemGetAddressRange(&base, &bytes, inside), CUDA_ERROR_NOT_FOUND);
  EXPECT_CUDA(cudaPointerGetAttributes(&attributes, WordsAt(inside)));
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
}

TEST_F(VirtualMemoryTest, AccessIsToldAsItWasSet) {
  const CUdeviceptr address = Pieces(1);
  const CUmemLocation location{CU_MEM_LOCATION_TYPE_DEVICE, 0};
  const CUmemLocation other{CU_MEM_LOCATION_TYPE_DEVICE, 1};
  unsigned long long flags = 0;
  EXPECT_EQ(cuMemGetAccess(&flags, &location, address + 1), CUDA_SUCCESS);
  EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  EXPECT_EQ(cuMemGetAccess(&flags, &other, address), CUDA_SUCCESS);
  EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  EXPECT_EQ(Allow(address, kPiece, 0, CU_MEM_ACCESS_FLAGS_PROT_READ), CUDA_SUCCESS);
  EXPECT_EQ(cuMemGetAccess(&flags, &location, address), CUDA_SUCCESS);
  EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_READ);
  EXPECT_EQ(Allow(address, kPiece, 1), CUDA_ERROR_NOT_SUPPORTED) << "not of one node";
  EXPECT_EQ(Allow(address, kPiece, kDevices), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemUnmap(address, kPiece), CUDA_SUCCESS);
  EXPECT_EQ(cuMemGetAccess(&flags, &location, address), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(VirtualMemoryTest, ReservationsArePlacedAsAsked) {
  const std::size_t large = std::size_t{160} << 30;
  const CUdeviceptr first = Reserve(large);
  const CUdeviceptr second = Reserve(large, std::size_t{1} << 30);
  EXPECT_GE(second, first + large);
  EXPECT_EQ(second % (std::size_t{1} << 30), 0U);
  const CUdeviceptr wish = second + large + (std::size_t{4} << 30);
  EXPECT_EQ(Reserve(kPiece, 0, wish), wish);
  EXPECT_NE(Reserve(kPiece, 0, wish), wish);
  CUdeviceptr none = 0;
  EXPECT_EQ(cuMemAddressReserve(&none, std::size_t{1} << 60, 0, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
  for (const std::size_t bytes : {0, 1, 4096, (2 << 20) + 4096})
    EXPECT_EQ(cuMemAddressReserve(&none, bytes, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressReserve(&none, kPiece, 3, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressReserve(&none, kPiece, 0, 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressReserve(&none, kPiece, 0, 0, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressReserve(nullptr, kPiece, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressFree(first, kPiece), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressFree(first + kPiece, large), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressFree(first, large), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(first, large), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressFree(0x1234, 4096), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(VirtualMemoryTest, WhatMakesNoSenseIsRefused) {
  const CUdeviceptr address = Reserve(4 * kPiece);
  const auto handle = Create();
  CUmemGenericAllocationHandle none = 0;
  EXPECT_EQ(TryCreate(0, &none), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(TryCreate(kPiece + 1, &none), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(TryCreate(kPiece, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(TryCreate(kPiece, &none, kDevices), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(TryCreate(std::size_t{1} << 62, &none), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemCreate(&none, kPiece, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  CUmemAllocationProp fabric = Properties();
  fabric.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
  EXPECT_EQ(cuMemCreate(&none, kPiece, &fabric, 0), CUDA_ERROR_NOT_SUPPORTED);
  CUmemAllocationProp host = Properties();
  host.location.type = CU_MEM_LOCATION_TYPE_HOST;
  EXPECT_EQ(cuMemCreate(&none, kPiece, &host, 0), CUDA_ERROR_NOT_SUPPORTED);

  EXPECT_EQ(cuMemMap(address, kPiece, 0, handle, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemMap(address, kPiece, kPiece, handle, 0), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuMemMap(address + 1, kPiece, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemMap(address, kPiece - 1, 0, handle, 0), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuMemMap(address, 2 * kPiece, 0, handle, 0), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuMemMap(address, kPiece, 0, handle + 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemMap(address + 4 * kPiece, kPiece, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemMap(0, kPiece, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemMap(address + kPiece, kPiece, 0, handle, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemMap(address + kPiece, kPiece, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  const auto large = Create(2 * kPiece);
  EXPECT_EQ(cuMemMap(address, 2 * kPiece, 0, large, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemMap(address + 2 * kPiece, 2 * kPiece, 0, large, 0), CUDA_SUCCESS);

  EXPECT_EQ(Allow(address, 2 * kPiece), CUDA_ERROR_INVALID_VALUE) << "mapped in part";
  EXPECT_EQ(Allow(address + kPiece, 2 * kPiece), CUDA_ERROR_INVALID_VALUE) << "half of one";
  EXPECT_EQ(Allow(address + kPiece, kPiece, 0, static_cast<CUmemAccess_flags>(2)),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemSetAccess(address + kPiece, kPiece, nullptr, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Allow(address + kPiece, 3 * kPiece), CUDA_SUCCESS);

  EXPECT_EQ(cuMemAddressFree(address, 4 * kPiece), CUDA_ERROR_INVALID_VALUE) << "still mapped";
  EXPECT_EQ(cuMemUnmap(address, kPiece), CUDA_SUCCESS) << "nothing is mapped there";
  EXPECT_EQ(cuMemUnmap(address + 1, kPiece - 1), CUDA_SUCCESS);
  EXPECT_EQ(cuMemUnmap(address, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemUnmap(address + 3 * kPiece, 2 * kPiece), CUDA_ERROR_INVALID_VALUE) << "not all";
  EXPECT_EQ(cuMemUnmap(address + 2 * kPiece, kPiece), CUDA_ERROR_INVALID_VALUE) << "half of one";
  EXPECT_EQ(cuMemUnmap(address + kPiece, 3 * kPiece), CUDA_SUCCESS);
  for (const auto released : {handle, large}) EXPECT_EQ(cuMemRelease(released), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(0), CUDA_ERROR_INVALID_VALUE);

  std::size_t granularity = 0;
  const CUmemAllocationProp properties = Properties();
  EXPECT_EQ(
      cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
      CUDA_SUCCESS);
  EXPECT_EQ(granularity, kPiece);
  EXPECT_EQ(cuMemGetAllocationGranularity(nullptr, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CUDA(cudaDeviceSynchronize()) << "nothing of this reached the device";
}

TEST_F(VirtualMemoryTest, WhatTheDeviceDoesNotHaveIsRefusedAtOnce) {
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(TryCreate(100 << 20, &handle), CUDA_ERROR_OUT_OF_MEMORY) << "more than it gives";
  gpu().Refuse("cuMemCreate", CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(TryCreate(kPiece, &handle), CUDA_ERROR_OUT_OF_MEMORY);
  gpu().Refuse("cuMemCreate", CUDA_SUCCESS);
  // If little memory is left, each creation is a request to the device.
  gpu().HaveFree(4 * kPiece);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(cuMemRelease(Create()), CUDA_SUCCESS);
  gpu().Refuse("cuMemCreate", CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(TryCreate(kPiece, &handle), CUDA_ERROR_OUT_OF_MEMORY);
  gpu().Refuse("cuMemCreate", CUDA_SUCCESS);
  EXPECT_CUDA(cudaDeviceSynchronize());
}

// Freed memory cached for the program is available too.
TEST_F(VirtualMemoryTest, IdleMemoryIsGivenBackForIt) {
  void* memory = nullptr;
  EXPECT_CUDA(cudaMalloc(&memory, 4096));
  EXPECT_CUDA(cudaFree(memory));
  EXPECT_EQ(Logged("unmap"), 0U);
  gpu().Refuse("cuMemCreate", CUDA_ERROR_OUT_OF_MEMORY);
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(TryCreate(kPiece, &handle), CUDA_ERROR_OUT_OF_MEMORY);
  gpu().Refuse("cuMemCreate", CUDA_SUCCESS);
  EXPECT_EQ(Logged("unmap"), 1U);
}

TEST_F(VirtualMemoryTest, UnmappingWaitsForTheDevice) {
  const CUdeviceptr address = Pieces(2);
  const cudaStream_t stream = NewStream();
  Hold(stream);
  EXPECT_CUDA(Add(WordsAt(address), 2 * kWordsOfPiece, 1, stream));
  ASSERT_TRUE(WaitForWork(stream, "add"));
  std::thread unmapping([&] { EXPECT_EQ(cuMemUnmap(address, 2 * kPiece), CUDA_SUCCESS); });
  ASSERT_TRUE(WaitForWork(stream, "asked"));
  EXPECT_EQ(Logged("unmap"), 0U);
  Let(stream);
  unmapping.join();
  EXPECT_CUDA(cudaStreamSynchronize(stream)) << "no fault";
}

TEST_F(VirtualMemoryTest, HandlesAndMappingsOutliveTheContext) {
  const CUdeviceptr address = Pieces(2);
  const auto handle = Create();
  EXPECT_CUDA(cudaDeviceReset());
  unsigned type = 0;
  EXPECT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address + 4),
            CUDA_SUCCESS);
  EXPECT_EQ(type, unsigned{CU_MEMORYTYPE_DEVICE});
  int device = -1;
  EXPECT_EQ(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address + 4),
            CUDA_SUCCESS);
  EXPECT_EQ(device, 0);
  CUmemAllocationProp properties{};
  EXPECT_EQ(cuMemGetAllocationPropertiesFromHandle(&properties, handle), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(cuMemUnmap(address, kPiece), CUDA_SUCCESS);
  EXPECT_CUDA(cudaFree(nullptr));
  EXPECT_EQ(cuMemUnmap(address + kPiece, kPiece), CUDA_SUCCESS);
  const auto another = Create();
  EXPECT_EQ(cuMemMap(address, kPiece, 0, another, 0), CUDA_SUCCESS);
  EXPECT_EQ(Allow(address, kPiece), CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD32(address, 9, kWordsOfPiece), CUDA_SUCCESS);
  EXPECT_EQ(Read(WordsAt(address), kWordsOfPiece), std::vector<std::uint32_t>(kWordsOfPiece, 9));
}

// Contexts share mapped memory. A context with both ends of a copy executes it alone.
TEST_F(VirtualMemoryTest, ACopyIsMadeByTheContextThatHasBothSides) {
  const CUdeviceptr address = Pieces(1);
  CUcontext other = nullptr;
  ASSERT_EQ(cuCtxCreate(&other, nullptr, 0, 0), CUDA_SUCCESS);
  CUdeviceptr theirs = 0;
  ASSERT_EQ(cuMemAlloc(&theirs, kPiece), CUDA_SUCCESS);
  CUcontext popped = nullptr;
  ASSERT_EQ(cuCtxPopCurrent(&popped), CUDA_SUCCESS);
  const auto connection = session().addresses().ConnectionOf(WordsAt(theirs));
  // The proxies of these tests do not share memory. This registers the mapping as if they did.
  connection->memory().AddMapped({address, kPiece}, true);
  connection->memory().SetMappedAccess(address, true);
  for (const bool to_mapped : {true, false}) {
    const CopyEnds ends = session().addresses().EndsOf(WordsAt(to_mapped ? address : theirs),
                                                       WordsAt(to_mapped ? theirs : address));
    EXPECT_EQ(ends.to, connection);
    EXPECT_EQ(ends.from, connection);
  }
  connection->memory().RemoveMapped(address);
  EXPECT_EQ(cuCtxDestroy(other), CUDA_SUCCESS);
}

TEST_F(VirtualMemoryTest, PartsOfOneReservationBelongToDifferentDevices) {
  const CUdeviceptr address = Reserve(2 * kPiece);
  for (const int device : {0, 1}) {
    const CUdeviceptr piece = address + static_cast<unsigned>(device) * kPiece;
    const auto handle = Create(kPiece, device);
    EXPECT_EQ(cuMemMap(piece, kPiece, 0, handle, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
    EXPECT_EQ(Allow(piece, kPiece, device), CUDA_SUCCESS);
    EXPECT_EQ(cuMemsetD32(piece, 1 + static_cast<unsigned>(device), kWordsOfPiece), CUDA_SUCCESS);
    cudaPointerAttributes attributes{};
    EXPECT_CUDA(cudaPointerGetAttributes(&attributes, WordsAt(piece)));
    EXPECT_EQ(attributes.device, device);
  }
  EXPECT_CUDA(cudaMemcpyPeer(WordsAt(address) + 4, 0, WordsAt(address + kPiece), 1, 16));
  EXPECT_EQ(Read(WordsAt(address) + 3, 6), (std::vector<std::uint32_t>{1, 2, 2, 2, 2, 1}));
  // A copy across the border between two devices.
  EXPECT_EQ(cuMemcpyHtoD(address + kPiece - 4, "1234567", 8), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemUnmap(address, 2 * kPiece), CUDA_SUCCESS);
}

TEST_F(VirtualMemoryTest, ALostDeviceSaysSo) {
  const CUdeviceptr address = Pieces(1);
  EXPECT_CUDA(cudaDeviceSynchronize());
  LoseProxy(0);
  while (cudaDeviceSynchronize() == cudaSuccess) std::this_thread::yield();
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(TryCreate(kPiece, &handle), CUDA_ERROR_DEVICE_UNAVAILABLE);
  EXPECT_EQ(cuMemUnmap(address, kPiece), CUDA_SUCCESS) << "nobody has it";
}

}  // namespace
}  // namespace cuspan
