#include "proxy/gpu/device.h"

#include <sys/mman.h>

#include <algorithm>

#include "common/log.h"
#include "common/shared_memory.h"
#include "protocol/api/address_plan.h"

namespace cuspan::proxy {
namespace {

// Maximum of tried base addresses. More failures have another cause.
constexpr std::uint64_t kWindowAttempts = 8;

Result<AddressWindow> ReserveWindow(const Driver& driver, const AddressWindow& wanted) {
  if (wanted.bytes == 0) return Status::Invalid("the address window has no bytes");
  std::string reason = "every requested address is in use";
  for (std::uint64_t attempt = 0; attempt < kWindowAttempts; ++attempt) {
    const std::uint64_t base = wanted.base + attempt * wanted.stride;
    if (base < kReservationsEnd && kReservationsBase < base + wanted.bytes) break;
    CUdeviceptr got = 0;
    const CUresult result = driver.cuMemAddressReserve(&got, wanted.bytes, 0, base, 0);
    if (result != CUDA_SUCCESS) {
      reason = driver.Describe(result);
    } else if (got == base) {
      return AddressWindow{base, wanted.bytes, wanted.stride};
    } else {
      driver.cuMemAddressFree(got, wanted.bytes);
    }
    if (wanted.stride == 0) break;
  }
  return Status::Unavailable("cannot reserve {} GiB of device addresses from 0x{:x}: {}",
                             wanted.bytes >> 30, wanted.base, reason);
}

}  // namespace

Result<Device> Device::Open(const Driver& driver, std::uint32_t ordinal,
                            const AddressWindow& wanted) {
  CUdevice device = 0;
  CUcontext context = nullptr;
  if (const CUresult result = driver.cuDeviceGet(&device, static_cast<int>(ordinal));
      result != CUDA_SUCCESS)
    return Status::Unavailable("no GPU {} on this host: {}", ordinal, driver.Describe(result));
  // Only threads allowed to block make synchronising calls; they should not spin.
  driver.cuDevicePrimaryCtxSetFlags(device, CU_CTX_SCHED_BLOCKING_SYNC);
  if (const CUresult result = driver.cuDevicePrimaryCtxRetain(&context, device);
      result != CUDA_SUCCESS)
    return Status(CodeOfStart(result), Format("cannot create a context on GPU {}: {}", ordinal,
                                              driver.Describe(result)));
  Device opened(&driver, device, context, {});
  CUSPAN_RETURN_IF_ERROR(opened.MakeCurrent());
  CUSPAN_ASSIGN_OR_RETURN(opened.window_, ReserveWindow(driver, wanted));
  return opened;
}

Device::~Device() {
  if (driver_ == nullptr) return;
  if (file_bytes_ != 0) ::munmap(reinterpret_cast<void*>(shared_.base), file_bytes_);
  if (rest_.bytes != 0) driver_->cuMemAddressFree(rest_.base, rest_.bytes);
  if (window_.bytes != 0) driver_->cuMemAddressFree(window_.base, window_.bytes);
  driver_->cuDevicePrimaryCtxRelease(device_);
}

Status Device::ReserveShared(const AddressWindow& region, UniqueFd file, std::uint64_t file_bytes) {
  if (!file.valid()) file_bytes = 0;
  if (file_bytes > region.bytes)
    return Status::Invalid("a shared region of {} bytes with a file of {} bytes", region.bytes,
                           file_bytes);
  if (file_bytes != 0) {
    CUSPAN_RETURN_IF_ERROR(CheckSharedMemory(file.get(), 0, file_bytes));
    void* const wanted = reinterpret_cast<void*>(region.base);
    void* const got =
        ::mmap(wanted, file_bytes, PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (got != wanted) {
      if (got != MAP_FAILED) ::munmap(got, file_bytes);
      return Status::Unavailable("the addresses of the shared region, from 0x{:x}, are in use",
                                 region.base);
    }
    shared_ = region;
    shared_file_ = std::move(file);
    file_bytes_ = file_bytes;
  }
  if (file_bytes == region.bytes) return Status::Ok();
  // No stride: the region is useless at other addresses.
  Result<AddressWindow> reserved =
      ReserveWindow(*driver_, {region.base + file_bytes, region.bytes - file_bytes, 0});
  if (!reserved.ok()) {
    if (file_bytes == 0) return reserved.status();
    // The client handles this like a device without free memory, and uses its own.
    LogWarn("managed memory cannot be migrated to the GPU: {}", reserved.status().message());
    return Status::Ok();
  }
  shared_ = region;
  rest_ = *reserved;
  return Status::Ok();
}

Status Device::MakeCurrent() const {
  const CUresult result = driver_->cuCtxSetCurrent(context_);
  if (result == CUDA_SUCCESS) return Status::Ok();
  return Status::Unavailable("cannot make the GPU's context current: {}",
                             driver_->Describe(result));
}

void Device::Pin(std::span<std::byte> area) const {
  const CUresult result =
      driver_->cuMemHostRegister(area.data(), area.size(), CU_MEMHOSTREGISTER_PORTABLE);
  if (result != CUDA_SUCCESS)
    LogWarn(
        "cannot pin {} MiB of staging memory: {}; copies will be slower (is `ulimit -l` too "
        "small?)",
        area.size() >> 20, driver_->Describe(result));
}

CUresult CreateMemory(const Driver& driver, const Device& device, std::uint64_t bytes,
                      CUmemGenericAllocationHandle* memory) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device.handle()};
  int shareable = 0;
  if (driver.cuDeviceGetAttribute(&shareable,
                                  CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
                                  device.handle()) == CUDA_SUCCESS &&
      shareable != 0)
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return driver.cuMemCreate(memory, bytes, &properties, 0);
}

std::uint32_t AttributeOf(const Device& device, CUdevice_attribute attribute) {
  int value = 0;
  device.driver().cuDeviceGetAttribute(&value, attribute, device.handle());
  return static_cast<std::uint32_t>(std::max(value, 0));
}

std::uint32_t CapabilityOf(const Device& device) {
  return AttributeOf(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) * 10 +
         AttributeOf(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
}

CUresult MemoryInfoOf(const Device& device, std::size_t* free, std::size_t* total) {
  const CUresult result = device.driver().cuMemGetInfo(free, total);
  if (result == CUDA_SUCCESS) device.memory().Narrow(free, total);
  return result;
}

}  // namespace cuspan::proxy
