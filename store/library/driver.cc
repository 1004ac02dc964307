#include "store/library/driver.h"

#include <dlfcn.h>

#include <random>

namespace cuspan::store {
namespace {

// Name of a macro's value: cuda.h defines names of versioned functions as macros.
#define CUSPAN_TEXT_OF(name) #name
#define CUSPAN_TEXT(name) CUSPAN_TEXT_OF(name)

Result<Driver> Load() {
  // Never closed: the driver starts threads.
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) return Status::Unavailable("there is no CUDA driver: {}", ::dlerror());
  Driver driver;
#define CUSPAN_DRIVER_FUNCTION(name)                                                          \
  driver.name = reinterpret_cast<decltype(driver.name)>(::dlsym(library, CUSPAN_TEXT(name))); \
  if (driver.name == nullptr)                                                                 \
    return Status::Unavailable("the CUDA driver is too old: it has no {}", CUSPAN_TEXT(name));
#include "store/library/driver_functions.def"
#undef CUSPAN_DRIVER_FUNCTION
  const CUresult result = driver.cuInit(0);
  if (result != CUDA_SUCCESS) return driver.Failure("the CUDA driver does not start", result);
  return driver;
}

}  // namespace

Status Driver::Failure(const char* purpose, CUresult result) const {
  const char* name = nullptr;
  if (cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) name = "an unknown error";
  return Status::Unavailable("{}: {}", purpose, name);
}

Result<const Driver*> ProcessDriver() {
  static const Result<Driver>* const kLoaded = new Result<Driver>(Load());
  if (!kLoaded->ok()) return kLoaded->status();
  return &kLoaded->value();
}

Result<std::shared_ptr<PrimaryContext>> PrimaryContext::Of(int device) {
  CUSPAN_ASSIGN_OR_RETURN(const Driver* const driver, ProcessDriver());
  int count = 0;
  if (const CUresult result = driver->cuDeviceGetCount(&count); result != CUDA_SUCCESS)
    return driver->Failure("the devices can not be counted", result);
  if (device < 0 || device >= count)
    return Status::Invalid("there is no device {}: there are {}", device, count);
  CUdevice number = 0;
  CUcontext context = nullptr;
  CUresult result = driver->cuDeviceGet(&number, device);
  if (result == CUDA_SUCCESS) result = driver->cuDevicePrimaryCtxRetain(&context, number);
  if (result != CUDA_SUCCESS) return driver->Failure("the device can not be used", result);
  std::shared_ptr<PrimaryContext> made(new PrimaryContext(*driver, device, number, context));
  const CurrentContext current(*made);
  CUSPAN_RETURN_IF_ERROR(current.status());
  std::random_device random;
  for (std::uint64_t& word : made->value_) word = std::uint64_t{random()} << 32 | random();
  CUdeviceptr marker = 0;
  result = driver->cuMemAlloc(&marker, sizeof made->value_);
  if (result == CUDA_SUCCESS)
    result = driver->cuMemcpyHtoD(marker, made->value_.data(), sizeof made->value_);
  if (result != CUDA_SUCCESS) return driver->Failure("the device can not be used", result);
  made->marker_ = marker;
  return made;
}

PrimaryContext::~PrimaryContext() {
  {
    const CurrentContext current(*this);
    if (!current.status().ok()) return;  // It was released by the reset.
    if (marker_ != 0) driver_.cuMemFree(marker_);
  }
  driver_.cuDevicePrimaryCtxRelease(device_);
}

bool PrimaryContext::ended() const {
  if (marker_ == 0) return false;
  std::array<std::uint64_t, 2> found{};
  switch (driver_.cuMemcpyDtoH(found.data(), marker_, sizeof found)) {
    case CUDA_SUCCESS:
      return found != value_;
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
      return true;
    default:
      return false;  // A capture or a fault: the context is there.
  }
}

Result<DeviceMemory> DeviceMemory::Allocate(const Driver& driver, std::uint64_t bytes,
                                            unsigned char value, const char* purpose) {
  CUdeviceptr address = 0;
  if (bytes == 0) return DeviceMemory();
  if (const CUresult result = driver.cuMemAlloc(&address, bytes); result != CUDA_SUCCESS)
    return driver.Failure(Format("{} bytes of device memory for {}", bytes, purpose).c_str(),
                          result);
  DeviceMemory memory(driver, address, bytes);
  if (const CUresult result = driver.cuMemsetD8(address, value, bytes); result != CUDA_SUCCESS)
    return driver.Failure(purpose, result);
  return memory;
}

}  // namespace cuspan::store
