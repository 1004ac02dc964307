// A context: what a process has on one device, and the error that ended it, if any.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>

#include "proxy/softgpu/rt/heap.h"
#include "proxy/softgpu/rt/launch.h"
#include "proxy/softgpu/rt/physical.h"
#include "proxy/softgpu/rt/stream.h"

namespace cuspan::softgpu {

// Any thread calls.
class Context : public ErrorSink {
 public:
  Context(int device, std::shared_ptr<PhysicalMemory> memory, OperationQueue& queue)
      : device_(device), memory_(std::move(memory)), queue_(queue), streams_(queue) {}

  int device() const { return device_; }
  PhysicalMemory& memory() { return *memory_; }
  StreamSet& streams() { return streams_; }
  DeviceHeap& heap() { return heap_; }

  // An error of a kernel or a copy: logged, and from now on the answer to every call.
  void Raise(CUresult error, const std::string& message) override;
  CUresult error() const override { return error_.load(std::memory_order_acquire); }

  // Waits until all work is done; the context's error, if any.
  CUresult Synchronize();
  // Waits until all work is done or, when nothing gets on any more, ends it. After this the
  // context only remembers its error.
  void End();

  std::size_t stack_limit() const { return stack_limit_.load(); }
  void SetStackLimit(std::size_t bytes) { stack_limit_ = bytes; }
  std::size_t printf_limit() const { return printf_limit_.load(); }
  // As the driver, both refuse a size once a kernel was launched that may use what has it, also one
  // that it has already (measured natively, driver 580).
  CUresult SetPrintfLimit(std::size_t bytes);
  CUresult SetHeapLimit(std::size_t bytes);
  void Launched(bool prints, bool uses_heap);

 private:
  const int device_;
  const std::shared_ptr<PhysicalMemory> memory_;
  std::atomic<bool> raised_{false};  // The first has it, who then says what it is.
  std::atomic<CUresult> error_{CUDA_SUCCESS};
  OperationQueue& queue_;
  DeviceHeap heap_;
  StreamSet streams_;
  std::atomic<std::size_t> stack_limit_{1024};  // CUDA's default.
  // Only remembered: what kernels print is written at once.
  std::atomic<std::size_t> printf_limit_{std::size_t{1} << 20};
  std::atomic<bool> print_buffer_used_{false};
  std::atomic<bool> heap_used_{false};
};

// The device whose context is current in the calling thread; -1 for none.
int CurrentDevice();
void SetCurrentDevice(int device);

}  // namespace cuspan::softgpu
