// The CUDA driver of this process: the node's, or the one of `cuspan run`.
#pragma once

#include <cuda.h>

#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include "common/status.h"
#include "store/engine/engine_driver.h"

namespace cuspan::store {

struct Driver {
#define CUSPAN_DRIVER_FUNCTION(name) decltype(&::name) name = nullptr;
#include "store/library/driver_functions.def"
#undef CUSPAN_DRIVER_FUNCTION

  // kUnavailable with CUDA's name of the result, after "PURPOSE: ".
  Status Failure(const char* purpose, CUresult result) const;
  EngineDriver engine() const {
    return {cuCtxSetCurrent, cuDeviceGetAttribute, cuMemHostRegister, cuMemHostUnregister,
            cuMemHostGetDevicePointer};
  }
};

// True for refusals of calls while a stream is in capture.
constexpr bool OfCapture(CUresult result) {
  return result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
         result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

// Loads it at the first call. kUnavailable if there is none. Threads: any.
Result<const Driver*> ProcessDriver();

// The primary context of a device, kept until the end.
class PrimaryContext {
 public:
  static Result<std::shared_ptr<PrimaryContext>> Of(int device);
  ~PrimaryContext();
  PrimaryContext(const PrimaryContext&) = delete;

  const Driver& driver() const { return driver_; }
  CUcontext context() const { return context_; }
  CUdevice device() const { return device_; }
  // True after a reset of the device; its primary context may be there again. The context is
  // current.
  bool ended() const;
  int ordinal() const { return ordinal_; }  // Number for the CUDA runtime.

 private:
  PrimaryContext(const Driver& driver, int ordinal, CUdevice device, CUcontext context)
      : driver_(driver), ordinal_(ordinal), device_(device), context_(context) {}

  const Driver& driver_;
  const int ordinal_;
  const CUdevice device_;
  const CUcontext context_;
  // Memory with a value that only this object has. Drivers reuse handles, numbers and addresses.
  CUdeviceptr marker_ = 0;
  std::array<std::uint64_t, 2> value_{};
};

// Makes a context current for a scope. result(): CUDA's error, for a context that has ended.
class CurrentContext {
 public:
  explicit CurrentContext(const PrimaryContext& context)
      : driver_(context.driver()), result_(Enter(context)) {}
  ~CurrentContext() {
    if (result_ == CUDA_SUCCESS) driver_.cuCtxSetCurrent(before_);
  }
  CurrentContext(const CurrentContext&) = delete;

  Status status() const {
    return result_ == CUDA_SUCCESS ? Status::Ok()
                                   : driver_.Failure("the device's context", result_);
  }

 private:
  CUresult Enter(const PrimaryContext& context) {
    CUresult result = driver_.cuCtxGetCurrent(&before_);
    if (result == CUDA_SUCCESS) result = driver_.cuCtxSetCurrent(context.context());
    if (result != CUDA_SUCCESS || !context.ended()) return result;
    driver_.cuCtxSetCurrent(before_);
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  }

  const Driver& driver_;
  CUcontext before_ = nullptr;
  const CUresult result_;
};

// Device memory of a primary context. All functions need it to be current.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  // All bytes are `value` in the end. kUnavailable names the purpose.
  static Result<DeviceMemory> Allocate(const Driver& driver, std::uint64_t bytes,
                                       unsigned char value, const char* purpose);
  DeviceMemory(DeviceMemory&& other) noexcept
      : driver_(other.driver_), address_(std::exchange(other.address_, 0)), bytes_(other.bytes_) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(driver_, other.driver_);
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~DeviceMemory() {
    if (address_ != 0) driver_->cuMemFree(address_);
  }

  // Forgets it: its context has ended.
  void Release() { address_ = 0; }

  CUdeviceptr address() const { return address_; }
  std::uint64_t bytes() const { return bytes_; }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(address_);
  }

 private:
  DeviceMemory(const Driver& driver, CUdeviceptr address, std::uint64_t bytes)
      : driver_(&driver), address_(address), bytes_(bytes) {}

  const Driver* driver_ = nullptr;
  CUdeviceptr address_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace cuspan::store
