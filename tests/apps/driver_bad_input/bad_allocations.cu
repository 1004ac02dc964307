// Managed memory, pools and virtual memory.
#include "group.h"

namespace {

constexpr std::size_t kHuge = std::size_t{1} << 60;

char pageable[4096];
CUdeviceptr AddressOf(const void* host) { return reinterpret_cast<CUdeviceptr>(host); }

CUmemLocation On(CUmemLocationType type, int id) {
  CUmemLocation location{};
  location.type = type;
  location.id = id;
  return location;
}

CUmemAllocationProp OnDevice(int device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = On(CU_MEM_LOCATION_TYPE_DEVICE, device);
  return properties;
}

}  // namespace

void Managed() {
  StartContext();
  CUdeviceptr memory = 0;
  CUdeviceptr device = 0;
  unsigned value = 0;
  const CUmemLocation here = On(CU_MEM_LOCATION_TYPE_DEVICE, 0);
  const CUmemLocation nowhere = On(CU_MEM_LOCATION_TYPE_DEVICE, 1000);
  const CUmemLocation unknown = On(Rubbish<CUmemLocationType>(99), 0);
  BAD(cuMemAllocManaged(nullptr, 16, CU_MEM_ATTACH_GLOBAL));
  BAD(cuMemAllocManaged(&memory, 0, CU_MEM_ATTACH_GLOBAL));
  BAD(cuMemAllocManaged(&memory, 16, 0));
  BAD(cuMemAllocManaged(&memory, 16, 3));
  BAD(cuMemAllocManaged(&memory, 16, CU_MEM_ATTACH_SINGLE));
  BAD(cuMemAllocManaged(&memory, 16, 0x1000));
  DRIVER(cuMemAllocManaged(&memory, 4096, CU_MEM_ATTACH_GLOBAL));
  DRIVER(cuMemAlloc(&device, 4096));
  BAD(cuMemPrefetchAsync(memory, 0, here, 0, nullptr));
  BAD(cuMemPrefetchAsync(memory, kHuge, here, 0, nullptr));
  BAD(cuMemPrefetchAsync(memory, 4096, here, 1, nullptr));
  BAD(cuMemPrefetchAsync(memory, 4096, nowhere, 0, nullptr));
  BAD(cuMemPrefetchAsync(memory, 4096, unknown, 0, nullptr));
  BAD(cuMemPrefetchAsync(device, 4096, here, 0, nullptr));
  BAD(cuMemPrefetchAsync(0, 4096, here, 0, nullptr));
  BAD(cuMemAdvise(memory, 0, CU_MEM_ADVISE_SET_READ_MOSTLY, here));
  BAD(cuMemAdvise(memory, kHuge, CU_MEM_ADVISE_SET_READ_MOSTLY, here));
  BAD(cuMemAdvise(memory, 4096, Rubbish<CUmem_advise>(99), here));
  BAD(cuMemAdvise(memory, 4096, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, nowhere));
  BAD(cuMemAdvise(device, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, here));
  BAD(cuMemRangeGetAttribute(nullptr, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, memory, 4096));
  BAD(cuMemRangeGetAttribute(&value, 0, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, memory, 4096));
  BAD(cuMemRangeGetAttribute(&value, 3, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, memory, 4096));
  BAD(cuMemRangeGetAttribute(&value, 4, Rubbish<CUmem_range_attribute>(99), memory, 4096));
  BAD(cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, memory, 0));
  BAD(cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, device, 4096));
  BAD(cuMemRangeGetAttributes(nullptr, nullptr, nullptr, 0, memory, 4096));
  BAD(cuStreamAttachMemAsync(nullptr, device, 0, CU_MEM_ATTACH_GLOBAL));
  FATAL(cuStreamAttachMemAsync(nullptr, memory, 0, 0));
  BAD(cuStreamAttachMemAsync(nullptr, memory, 0, 99));
  BAD(cuStreamAttachMemAsync(nullptr, memory, 16, CU_MEM_ATTACH_GLOBAL));
  BAD(cuStreamAttachMemAsync(nullptr, memory, 0, CU_MEM_ATTACH_SINGLE));
  BAD(cuMemFree(memory + 16));
  BAD(cuMemFree(memory));
  BAD(cuMemFree(memory));
}

void Pools() {
  StartContext();
  CUmemoryPool pool = nullptr;
  CUmemoryPool own = nullptr;
  CUdeviceptr memory = 0;
  CUdeviceptr device = 0;
  cuuint64_t value = 0;
  CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  CUmemAccessDesc access{};
  access.location = On(CU_MEM_LOCATION_TYPE_DEVICE, 1000);
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUmemLocation nowhere = On(CU_MEM_LOCATION_TYPE_DEVICE, 1000);
  CUmemPoolProps properties{};
  DRIVER(cuDeviceGetDefaultMemPool(&pool, 0));
  DRIVER(cuMemAlloc(&device, 4096));
  BAD(cuMemPoolCreate(&own, nullptr));
  BAD_AS("cuMemPoolCreate of no type", cuMemPoolCreate(&own, &properties));
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  BAD_AS("cuMemPoolCreate of no place", cuMemPoolCreate(&own, &properties));
  properties.location = nowhere;
  BAD_AS("cuMemPoolCreate on no device", cuMemPoolCreate(&own, &properties));
  properties.location = On(CU_MEM_LOCATION_TYPE_DEVICE, 0);
  BAD(cuMemPoolCreate(nullptr, &properties));
  properties.handleTypes = Rubbish<CUmemAllocationHandleType>(0x4000);
  BAD_AS("cuMemPoolCreate of unknown handles", cuMemPoolCreate(&own, &properties));
  properties.handleTypes = CU_MEM_HANDLE_TYPE_NONE;
  DRIVER(cuMemPoolCreate(&own, &properties));
  BAD(cuMemPoolDestroy(pool));
  BAD(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, nullptr));
  BAD(cuMemPoolGetAttribute(pool, Rubbish<CUmemPool_attribute>(0), &value));
  BAD(cuMemPoolGetAttribute(pool, Rubbish<CUmemPool_attribute>(99), &value));
  FATAL(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, nullptr));
  BAD(cuMemPoolSetAttribute(pool, Rubbish<CUmemPool_attribute>(99), &value));
  value = 7;
  BAD(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value));
  BAD(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value));
  BAD(cuMemPoolSetAccess(own, nullptr, 1));
  BAD(cuMemPoolSetAccess(own, &access, 0));
  BAD(cuMemPoolSetAccess(own, &access, 1));
  access.location = On(CU_MEM_LOCATION_TYPE_DEVICE, 0);
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  BAD_AS("cuMemPoolSetAccess, nothing for its own device", cuMemPoolSetAccess(own, &access, 1));
  access.flags = Rubbish<CUmemAccess_flags>(99);
  BAD_AS("cuMemPoolSetAccess, unknown flags", cuMemPoolSetAccess(own, &access, 1));
  BAD(cuMemPoolGetAccess(nullptr, pool, &access.location));
  BAD(cuMemPoolGetAccess(&flags, pool, nullptr));
  BAD(cuMemPoolGetAccess(&flags, pool, &nowhere));
  BAD(cuMemAllocAsync(nullptr, 16, nullptr));
  BAD(cuMemAllocAsync(&memory, 0, nullptr));
  BAD(cuMemAllocAsync(&memory, kHuge, nullptr));
  BAD(cuMemAllocFromPoolAsync(nullptr, 16, pool, nullptr));
  BAD(cuMemAllocFromPoolAsync(&memory, 0, pool, nullptr));
  BAD(cuMemFreeAsync(0, nullptr));
  BAD(cuMemFreeAsync(16, nullptr));
  BAD(cuMemFreeAsync(AddressOf(pageable), nullptr));
  DRIVER(cuMemAllocAsync(&memory, 4096, nullptr));
  BAD(cuMemFreeAsync(memory + 16, nullptr));
  DRIVER(cuMemFreeAsync(memory, nullptr));
  BAD(cuMemFreeAsync(memory, nullptr));
  BAD(cuMemFree(memory));
  BAD(cuStreamSynchronize(nullptr));
}

void VirtualMemory() {
  StartContext();
  constexpr std::size_t kPiece = 2 << 20;
  const CUmemAllocationProp good = OnDevice(0);
  const CUmemAllocationProp nowhere = OnDevice(1000);
  CUmemAllocationProp bad_type = good;
  bad_type.type = Rubbish<CUmemAllocationType>(99);
  CUmemAllocationProp bad_location = good;
  bad_location.location.type = CU_MEM_LOCATION_TYPE_INVALID;
  CUmemAllocationProp bad_handles = good;
  bad_handles.requestedHandleTypes = Rubbish<CUmemAllocationHandleType>(0x4000);
  CUmemGenericAllocationHandle handle = 0;
  CUmemGenericAllocationHandle other = 0;
  CUdeviceptr address = 0;
  CUdeviceptr none = 0;
  CUdeviceptr device = 0;
  std::size_t granularity = 0;
  unsigned long long flags = 0;
  int file = -1;
  CUmemAccessDesc access{};
  access.location = On(CU_MEM_LOCATION_TYPE_DEVICE, 0);
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUmemAccessDesc no_access = access;
  no_access.location.id = 1000;
  CUmemAccessDesc odd_access = access;
  odd_access.flags = Rubbish<CUmemAccess_flags>(99);
  const auto minimum = CU_MEM_ALLOC_GRANULARITY_MINIMUM;
  DRIVER(cuMemAlloc(&device, 4096));
  BAD(cuMemGetAllocationGranularity(nullptr, &good, minimum));
  BAD(cuMemGetAllocationGranularity(&granularity, nullptr, minimum));
  BAD(cuMemGetAllocationGranularity(&granularity, &nowhere, minimum));
  BAD(cuMemGetAllocationGranularity(&granularity, &bad_type, minimum));
  BAD(cuMemGetAllocationGranularity(&granularity, &bad_location, minimum));
  BAD(cuMemGetAllocationGranularity(&granularity, &good,
                                    Rubbish<CUmemAllocationGranularity_flags>(99)));
  BAD(cuMemCreate(nullptr, kPiece, &good, 0));
  BAD(cuMemCreate(&handle, kPiece, nullptr, 0));
  BAD(cuMemCreate(&handle, 0, &good, 0));
  BAD(cuMemCreate(&handle, 4096, &good, 0));
  BAD(cuMemCreate(&handle, kPiece + 1, &good, 0));
  BAD(cuMemCreate(&handle, kHuge, &good, 0));
  BAD(cuMemCreate(&handle, kPiece, &good, 1));
  BAD(cuMemCreate(&handle, kPiece, &nowhere, 0));
  BAD(cuMemCreate(&handle, kPiece, &bad_type, 0));
  BAD(cuMemCreate(&handle, kPiece, &bad_location, 0));
  BAD(cuMemCreate(&handle, kPiece, &bad_handles, 0));
  BAD(cuMemAddressReserve(nullptr, kPiece, 0, 0, 0));
  BAD(cuMemAddressReserve(&address, 0, 0, 0, 0));
  BAD(cuMemAddressReserve(&address, 4096, 0, 0, 0));
  BAD(cuMemAddressReserve(&address, kPiece + 1, 0, 0, 0));
  BAD(cuMemAddressReserve(&address, kPiece, 3, 0, 0));
  BAD(cuMemAddressReserve(&address, kPiece, 0, 0, 99));
  BAD(cuMemAddressReserve(&address, ~std::size_t{0} - kPiece + 1, 0, 0, 0));
  DRIVER(cuMemCreate(&handle, kPiece, &good, 0));
  DRIVER(cuMemAddressReserve(&address, 4 * kPiece, 0, 0, 0));
  BAD(cuMemMap(0, kPiece, 0, handle, 0));
  BAD(cuMemMap(address, 0, 0, handle, 0));
  BAD(cuMemMap(address, kPiece / 2, 0, handle, 0));
  BAD(cuMemMap(address, kPiece, kPiece, handle, 0));
  BAD(cuMemMap(address, kPiece, 1, handle, 0));
  BAD(cuMemMap(address, 2 * kPiece, 0, handle, 0));
  BAD(cuMemMap(address + 1, kPiece, 0, handle, 0));
  BAD(cuMemMap(address, kPiece, 0, handle, 1));
  BAD(cuMemMap(device, kPiece, 0, handle, 0));
  BAD(cuMemMap(address + 4 * kPiece, kPiece, 0, handle, 0));
  BAD(cuMemUnmap(0, kPiece));
  BAD(cuMemUnmap(address, kPiece));
  BAD(cuMemUnmap(address, 0));
  BAD(cuMemUnmap(address + 1, kPiece));
  BAD(cuMemUnmap(device, 4096));
  BAD(cuMemSetAccess(address, kPiece, &access, 1));
  DRIVER(cuMemMap(address, kPiece, 0, handle, 0));
  BAD(cuMemMap(address, kPiece, 0, handle, 0));
  BAD(cuMemSetAccess(address, kPiece, nullptr, 1));
  BAD(cuMemSetAccess(address, kPiece, &access, 0));
  BAD(cuMemSetAccess(address, 0, &access, 1));
  BAD(cuMemSetAccess(address, kPiece / 2, &access, 1));
  BAD(cuMemSetAccess(address, 2 * kPiece, &access, 1));
  BAD(cuMemSetAccess(address + 1, kPiece, &access, 1));
  BAD(cuMemSetAccess(address, kPiece, &no_access, 1));
  BAD(cuMemSetAccess(address, kPiece, &odd_access, 1));
  BAD(cuMemSetAccess(device, 4096, &access, 1));
  BAD(cuMemGetAccess(nullptr, &access.location, address));
  BAD(cuMemGetAccess(&flags, nullptr, address));
  BAD(cuMemGetAccess(&flags, &access.location, 0));
  BAD(cuMemGetAccess(&flags, &access.location, address + 2 * kPiece));
  BAD(cuMemGetAccess(&flags, &no_access.location, address));
  BAD(cuMemRetainAllocationHandle(nullptr, reinterpret_cast<void*>(address)));
  BAD(cuMemRetainAllocationHandle(&other, nullptr));
  BAD(cuMemRetainAllocationHandle(&other, reinterpret_cast<void*>(address + 2 * kPiece)));
  BAD(cuMemRetainAllocationHandle(&other, reinterpret_cast<void*>(device)));
  BAD(cuMemGetAllocationPropertiesFromHandle(nullptr, handle));
  BAD(cuMemExportToShareableHandle(&file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  BAD(cuMemExportToShareableHandle(nullptr, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  BAD(cuMemExportToShareableHandle(&file, handle, CU_MEM_HANDLE_TYPE_NONE, 0));
  BAD(cuMemImportFromShareableHandle(nullptr, nullptr, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  BAD(cuMemImportFromShareableHandle(&other, reinterpret_cast<void*>(1000),
                                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  BAD(cuMemImportFromShareableHandle(&other, nullptr, CU_MEM_HANDLE_TYPE_NONE));
  BAD(cuMemFree(address));
  BAD(cuMemAddressFree(address, 4 * kPiece));
  BAD(cuMemUnmap(address, kPiece / 2));
  BAD(cuMemUnmap(address, kPiece));
  BAD(cuMemUnmap(address, kPiece));
  BAD(cuMemAddressFree(0, kPiece));
  BAD(cuMemAddressFree(address, 0));
  BAD(cuMemAddressFree(address, kPiece));
  BAD(cuMemAddressFree(address + kPiece, kPiece));
  BAD(cuMemAddressFree(device, 4096));
  BAD(cuMemAddressFree(address, 4 * kPiece));
  BAD(cuMemAddressFree(address, 4 * kPiece));
  BAD(cuMemMap(address, kPiece, 0, handle, 0));
  BAD(cuMemUnmap(address, kPiece));
  BAD(cuMemMap(none, kPiece, 0, handle, 0));
  BAD(cuMemRelease(handle));
}
