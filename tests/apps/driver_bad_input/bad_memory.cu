// Memory of devices and of the host, copies, sets, pools, virtual memory, pointers and IPC.
#include <sys/mman.h>

#include <cstring>

#include "group.h"

namespace {

constexpr std::size_t kBytes = 4096;
constexpr std::size_t kHuge = std::size_t{1} << 60;

CUdeviceptr Allocate() {
  CUdeviceptr memory = 0;
  DRIVER(cuMemAlloc(&memory, kBytes));
  return memory;
}

CUdeviceptr Freed() {
  // Large, so no other allocation shares a block with it.
  CUdeviceptr memory = 0;
  DRIVER(cuMemAlloc(&memory, 64 << 20));
  DRIVER(cuMemFree(memory));
  return memory;
}

char pageable[kBytes];
CUdeviceptr AddressOf(const void* host) { return reinterpret_cast<CUdeviceptr>(host); }

}  // namespace

void Memory() {
  StartContext();
  CUdeviceptr memory = 0;
  std::size_t pitch = 0;
  std::size_t bytes = 0;
  const CUdeviceptr live = Allocate();
  const CUdeviceptr freed = Freed();
  BAD(cuMemAlloc(nullptr, 16));
  BAD(cuMemAlloc(&memory, 0));
  BAD(cuMemAlloc(&memory, kHuge));
  BAD(cuMemAlloc(&memory, ~std::size_t{0}));
  BAD(cuMemAllocPitch(nullptr, &pitch, 16, 16, 4));
  BAD(cuMemAllocPitch(&memory, nullptr, 16, 16, 4));
  BAD(cuMemAllocPitch(&memory, &pitch, 0, 16, 4));
  BAD(cuMemAllocPitch(&memory, &pitch, 16, 0, 4));
  BAD(cuMemAllocPitch(&memory, &pitch, 16, 16, 0));
  BAD(cuMemAllocPitch(&memory, &pitch, 16, 16, 3));
  BAD(cuMemAllocPitch(&memory, &pitch, 16, 16, 32));
  BAD(cuMemAllocPitch(&memory, &pitch, kHuge, 16, 4));
  BAD(cuMemAllocPitch(&memory, &pitch, 16, kHuge, 4));
  BAD(cuMemFree(0));
  BAD(cuMemFree(freed));
  BAD(cuMemFree(live + 256));
  BAD(cuMemFree(16));
  BAD(cuMemFree(AddressOf(pageable)));
  BAD(cuMemGetAddressRange(&memory, &bytes, 0));
  BAD(cuMemGetAddressRange(&memory, &bytes, freed));
  BAD(cuMemGetAddressRange(&memory, &bytes, AddressOf(pageable)));
  BAD(cuMemGetAddressRange(nullptr, nullptr, live));
  BAD(cuMemFree(live));
  BAD(cuMemFree(live));
}

void HostMemory() {
  StartContext();
  void* host = nullptr;
  void* pinned = nullptr;
  unsigned flags = 0;
  CUdeviceptr device = 0;
  const CUdeviceptr live = Allocate();
  BAD(cuMemAllocHost(nullptr, 16));
  BAD(cuMemAllocHost(&host, 0));
  BAD(cuMemAllocHost(&host, kHuge));
  BAD(cuMemHostAlloc(nullptr, 16, 0));
  BAD(cuMemHostAlloc(&host, 0, 0));
  BAD(cuMemHostAlloc(&host, 16, 0x1000));
  BAD(cuMemHostAlloc(&host, 16, 0xFFFFFFFF));
  BAD(cuMemHostAlloc(&host, kHuge, 0));
  BAD(cuMemFreeHost(nullptr));
  BAD(cuMemFreeHost(pageable));
  BAD(cuMemFreeHost(reinterpret_cast<void*>(live)));
  DRIVER(cuMemAllocHost(&pinned, kBytes));
  BAD(cuMemFreeHost(static_cast<char*>(pinned) + 16));
  BAD(cuMemFree(AddressOf(pinned)));
  BAD(cuMemHostRegister(pinned, 16, 0));
  BAD(cuMemHostUnregister(pinned));
  DRIVER(cuMemFreeHost(pinned));
  BAD(cuMemFreeHost(pinned));
  BAD(cuMemHostRegister(nullptr, 16, 0));
  BAD(cuMemHostRegister(pageable, 0, 0));
  BAD(cuMemHostRegister(pageable, 16, 0x1000));
  void* const closed = mmap(nullptr, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void* const readable = mmap(nullptr, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void* const shared = mmap(nullptr, 8192, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  BAD(cuMemHostRegister(closed, 8192, 0));
  BAD(cuMemHostRegister(closed, 8192, CU_MEMHOSTREGISTER_READ_ONLY));
  BAD(cuMemHostRegister(readable, 8192, CU_MEMHOSTREGISTER_PORTABLE));
  BAD(cuMemHostRegister(shared, 8192, CU_MEMHOSTREGISTER_DEVICEMAP));
  DRIVER(cuMemHostRegister(pageable, sizeof pageable, 0));
  BAD(cuMemHostRegister(pageable, sizeof pageable, 0));
  BAD(cuMemHostRegister(pageable + 16, 16, 0));
  BAD(cuMemHostUnregister(pageable + 16));
  BAD(cuMemFreeHost(pageable));
  DRIVER(cuMemHostUnregister(pageable));
  BAD(cuMemHostUnregister(pageable));
  BAD(cuMemHostUnregister(nullptr));
  BAD(cuMemHostGetDevicePointer(nullptr, pageable, 0));
  BAD(cuMemHostGetDevicePointer(&device, nullptr, 0));
  BAD(cuMemHostGetDevicePointer(&device, pageable, 0));
  DRIVER(cuMemAllocHost(&pinned, kBytes));
  BAD(cuMemHostGetDevicePointer(&device, pinned, 1));
  BAD(cuMemHostGetDevicePointer(nullptr, pinned, 0));
  BAD(cuMemHostGetFlags(nullptr, pinned));
  BAD(cuMemHostGetFlags(&flags, pageable));
  BAD(cuMemHostGetFlags(&flags, nullptr));
}

void Copies() {
  StartContext();
  const CUdeviceptr live = Allocate();
  const CUdeviceptr freed = Freed();
  char* const host = pageable;
  BAD(cuMemcpyHtoD(0, host, 16));
  BAD(cuMemcpyHtoD(16, host, 16));
  BAD(cuMemcpyHtoD(freed, host, 16));
  BAD(cuMemcpyHtoD(live, nullptr, 16));
  BAD(cuMemcpyHtoD(live, host, 0));
  BAD(cuMemcpyHtoD(0, host, 0));
  BAD(cuMemcpyDtoH(host, 0, 16));
  BAD(cuMemcpyDtoH(host, 16, 16));
  BAD(cuMemcpyDtoH(host, freed, 16));
  BAD(cuMemcpyDtoH(nullptr, live, 16));
  BAD(cuMemcpyDtoH(nullptr, live, 0));
  BAD(cuMemcpyDtoH(nullptr, 0, 0));
  BAD(cuMemcpyDtoD(live, 0, 16));
  BAD(cuMemcpyDtoD(0, live, 16));
  BAD(cuMemcpyDtoD(live, freed, 16));
  BAD(cuMemcpyDtoD(freed, live, 16));
  BAD(cuMemcpyDtoD(0, 0, 0));
  BAD(cuMemcpy(live, 0, 16));
  BAD(cuMemcpy(0, live, 16));
  FATAL(cuMemcpy(live, freed, 16));
  BAD(cuMemcpy(0, 0, 0));
  BAD(cuMemcpyHtoDAsync(0, host, 16, nullptr));
  BAD(cuMemcpyHtoDAsync(freed, host, 16, nullptr));
  BAD(cuMemcpyHtoDAsync(live, nullptr, 16, nullptr));
  BAD(cuMemcpyDtoHAsync(host, 0, 16, nullptr));
  BAD(cuMemcpyDtoHAsync(nullptr, live, 16, nullptr));
  BAD(cuMemcpyDtoDAsync(live, freed, 16, nullptr));
  FATAL(cuMemcpyAsync(live, freed, 16, nullptr));
  BAD(cuStreamSynchronize(nullptr));
  BAD(cuMemcpyDtoD(live, live + 16, kHuge));
  BAD(cuMemcpyDtoH(host, live, kHuge));
  BAD(cuMemcpyHtoD(live, host, kHuge));
}

void BoxCopies() {
  const CUcontext context = StartContext();
  const CUdeviceptr live = Allocate();
  const CUdeviceptr freed = Freed();
  CUarray array = nullptr;
  const CUDA_ARRAY_DESCRIPTOR shape{16, 16, CU_AD_FORMAT_FLOAT, 1};
  DRIVER(cuArrayCreate(&array, &shape));
  CUDA_MEMCPY2D good{};
  good.srcMemoryType = CU_MEMORYTYPE_HOST;
  good.srcHost = pageable;
  good.srcPitch = 64;
  good.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  good.dstDevice = live;
  good.dstPitch = 64;
  good.WidthInBytes = 64;
  good.Height = 16;
  BAD(cuMemcpy2D(&good));
  BAD(cuMemcpy2D(nullptr));
  BAD(cuMemcpy2DUnaligned(nullptr));
  BAD(cuMemcpy2DAsync(nullptr, nullptr));
  const auto with = [&](auto&& change) {
    CUDA_MEMCPY2D copy = good;
    change(copy);
    return copy;
  };
  const auto bad = [&](const char* name, const CUDA_MEMCPY2D& copy) {
    BAD_AS(name, cuMemcpy2D(&copy));
  };
  bad("cuMemcpy2D, no bytes", with([](CUDA_MEMCPY2D& copy) { copy.WidthInBytes = 0; }));
  bad("cuMemcpy2D, no rows", with([](CUDA_MEMCPY2D& copy) { copy.Height = 0; }));
  bad("cuMemcpy2D, source pitch", with([](CUDA_MEMCPY2D& copy) { copy.srcPitch = 32; }));
  bad("cuMemcpy2D, target pitch", with([](CUDA_MEMCPY2D& copy) { copy.dstPitch = 32; }));
  bad("cuMemcpy2D, huge pitch", with([](CUDA_MEMCPY2D& copy) { copy.dstPitch = kHuge; }));
  bad("cuMemcpy2D, source kind",
      with([](CUDA_MEMCPY2D& copy) { copy.srcMemoryType = Rubbish<CUmemorytype>(99); }));
  bad("cuMemcpy2D, target kind",
      with([](CUDA_MEMCPY2D& copy) { copy.dstMemoryType = Rubbish<CUmemorytype>(0); }));
  bad("cuMemcpy2D, null host", with([](CUDA_MEMCPY2D& copy) { copy.srcHost = nullptr; }));
  bad("cuMemcpy2D, null device", with([](CUDA_MEMCPY2D& copy) { copy.dstDevice = 0; }));
  bad("cuMemcpy2D, freed device", with([&](CUDA_MEMCPY2D& copy) { copy.dstDevice = freed; }));
  bad("cuMemcpy2D, null array",
      with([](CUDA_MEMCPY2D& copy) { copy.dstMemoryType = CU_MEMORYTYPE_ARRAY; }));
  const auto to_array = [&](CUDA_MEMCPY2D& copy) {
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.dstArray = array;
  };
  bad("cuMemcpy2D, past the array's row", with([&](CUDA_MEMCPY2D& copy) {
        to_array(copy);
        copy.dstXInBytes = 4;
      }));
  bad("cuMemcpy2D, past the array's end", with([&](CUDA_MEMCPY2D& copy) {
        to_array(copy);
        copy.dstY = 1;
      }));
  bad("cuMemcpy2D, within an element", with([&](CUDA_MEMCPY2D& copy) {
        to_array(copy);
        copy.dstXInBytes = 2;
        copy.WidthInBytes = 8;
      }));
  CUDA_MEMCPY3D box{};
  BAD(cuMemcpy3D(nullptr));
  BAD(cuMemcpy3DAsync(nullptr, nullptr));
  BAD_AS("cuMemcpy3D of nothing", cuMemcpy3D(&box));
  box.srcMemoryType = CU_MEMORYTYPE_HOST;
  box.srcHost = pageable;
  box.srcPitch = 64;
  box.srcHeight = 4;
  box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  box.dstDevice = live;
  box.dstPitch = 64;
  box.dstHeight = 4;
  box.WidthInBytes = 64;
  box.Height = 4;
  box.Depth = 4;
  BAD_AS("cuMemcpy3D", cuMemcpy3D(&box));
  box.srcHeight = 2;
  BAD_AS("cuMemcpy3D, source height", cuMemcpy3D(&box));
  box.srcHeight = 4;
  box.dstHeight = 2;
  BAD_AS("cuMemcpy3D, target height", cuMemcpy3D(&box));
  box.dstHeight = 4;
  box.srcLOD = 1;
  BAD_AS("cuMemcpy3D, level", cuMemcpy3D(&box));
  box.srcLOD = 0;
  box.Depth = kHuge;
  BAD_AS("cuMemcpy3D, huge", cuMemcpy3D(&box));
  BAD(cuMemcpyHtoA(array, 0, nullptr, 16));
  BAD(cuMemcpyHtoA(array, kBytes, pageable, 16));
  BAD(cuMemcpyHtoA(array, 0, pageable, kBytes));
  BAD(cuMemcpyAtoH(pageable, array, kBytes, 16));
  BAD(cuMemcpyAtoH(nullptr, array, 0, 16));
  BAD(cuMemcpyDtoA(array, 0, 0, 16));
  BAD(cuMemcpyAtoD(0, array, 0, 16));
  BAD(cuMemcpyAtoA(array, kBytes, array, 0, 16));
  CUDA_MEMCPY3D_PEER peer{};
  peer.srcContext = peer.dstContext = context;
  BAD_AS("cuMemcpy3DPeer of no kind", cuMemcpy3DPeer(&peer));
  FATAL(cuMemcpy3DPeer(nullptr));
}

void Sets() {
  StartContext();
  const CUdeviceptr live = Allocate();
  const CUdeviceptr freed = Freed();
  BAD(cuMemsetD8(0, 1, 16));
  BAD(cuMemsetD8(0, 1, 0));
  BAD(cuMemsetD8(live, 1, 0));
  BAD(cuMemsetD8(16, 1, 16));
  BAD(cuMemsetD8(freed, 1, 16));
  BAD(cuMemsetD8(live, 1, kHuge));
  BAD(cuMemsetD16(0, 1, 16));
  BAD(cuMemsetD16(live + 1, 1, 16));
  BAD(cuMemsetD16(live, 1, kHuge));
  BAD(cuMemsetD32(0, 1, 16));
  BAD(cuMemsetD32(live + 1, 1, 16));
  BAD(cuMemsetD32(live + 2, 1, 16));
  BAD(cuMemsetD32(live, 1, ~std::size_t{0} / 4 + 2));
  BAD(cuMemsetD2D8(0, 64, 1, 16, 4));
  BAD(cuMemsetD2D8(live, 8, 1, 16, 4));
  BAD(cuMemsetD2D8(live, 64, 1, 0, 4));
  BAD(cuMemsetD2D8(live, 64, 1, 16, 0));
  FATAL(cuMemsetD2D8(live, 64, 1, 16, kHuge));
  BAD(cuMemsetD2D16(live, 63, 1, 16, 4));
  BAD(cuMemsetD2D16(live + 1, 64, 1, 16, 4));
  BAD(cuMemsetD2D32(live, 62, 1, 8, 4));
  BAD(cuMemsetD2D32(live + 2, 64, 1, 8, 4));
  BAD(cuMemsetD2D32(live, 16, 1, 16, 4));
  BAD(cuMemsetD8Async(0, 1, 16, nullptr));
  BAD(cuMemsetD8Async(freed, 1, 16, nullptr));
  BAD(cuMemsetD32Async(live + 1, 1, 16, nullptr));
  BAD(cuMemsetD2D8Async(live, 8, 1, 16, 4, nullptr));
  BAD(cuStreamSynchronize(nullptr));
}

void Pointers() {
  StartContext();
  const CUdeviceptr live = Allocate();
  const CUdeviceptr freed = Freed();
  unsigned long long value = 0;
  CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
  auto unknown = Rubbish<CUpointer_attribute>(99);
  void* out = &value;
  void* nowhere = nullptr;
  BAD(cuPointerGetAttribute(nullptr, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, live));
  BAD(cuPointerGetAttribute(&value, Rubbish<CUpointer_attribute>(0), live));
  BAD(cuPointerGetAttribute(&value, Rubbish<CUpointer_attribute>(-1), live));
  BAD(cuPointerGetAttribute(&value, Rubbish<CUpointer_attribute>(99), live));
  BAD(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 0));
  BAD(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, freed));
  BAD(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, AddressOf(pageable)));
  BAD(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_CONTEXT, AddressOf(pageable)));
  BAD(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_IS_MANAGED, AddressOf(pageable)));
  BAD(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, AddressOf(pageable)));
  BAD(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_HOST_POINTER, live));
  BAD(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_MAPPED, AddressOf(pageable)));
  BAD(cuPointerGetAttributes(0, &attribute, &out, live));
  BAD(cuPointerGetAttributes(1, nullptr, &out, live));
  BAD(cuPointerGetAttributes(1, &attribute, nullptr, live));
  BAD(cuPointerGetAttributes(1, &attribute, &nowhere, live));
  BAD(cuPointerGetAttributes(1, &unknown, &out, live));
  BAD(cuPointerGetAttributes(1, &attribute, &out, 0));
  BAD(cuPointerGetAttributes(1, &attribute, &out, freed));
  BAD(cuPointerSetAttribute(nullptr, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, live));
  BAD(cuPointerSetAttribute(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, live));
  BAD(cuPointerSetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, AddressOf(pageable)));
}

void Ipc() {
  StartContext();
  const CUdeviceptr live = Allocate();
  const CUdeviceptr freed = Freed();
  CUipcMemHandle handle;
  CUipcEventHandle event_handle;
  std::memset(&handle, 0, sizeof handle);
  std::memset(&event_handle, 0, sizeof event_handle);
  CUdeviceptr opened = 0;
  CUevent event = nullptr;
  DRIVER(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  BAD(cuIpcGetMemHandle(nullptr, live));
  BAD(cuIpcGetMemHandle(&handle, 0));
  BAD(cuIpcGetMemHandle(&handle, freed));
  BAD(cuIpcGetMemHandle(&handle, AddressOf(pageable)));
  BAD(cuIpcOpenMemHandle(nullptr, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  BAD(cuIpcOpenMemHandle(&opened, handle, 0));
  BAD(cuIpcOpenMemHandle(&opened, handle, 99));
  BAD(cuIpcOpenMemHandle(&opened, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  BAD(cuIpcCloseMemHandle(0));
  BAD(cuIpcCloseMemHandle(live));
  BAD(cuIpcCloseMemHandle(AddressOf(pageable)));
  BAD(cuIpcGetEventHandle(nullptr, event));
  BAD(cuIpcGetEventHandle(&event_handle, event));
  BAD(cuIpcOpenEventHandle(nullptr, event_handle));
  BAD(cuIpcOpenEventHandle(&event, event_handle));
  BAD(cuIpcGetMemHandle(&handle, live));
  BAD(cuIpcOpenMemHandle(&opened, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
}
