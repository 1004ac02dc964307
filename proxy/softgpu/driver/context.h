// Context: state of a process on one device, and the error ending it, if any.
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

// Threads: any.
class Context : public ErrorSink {
 public:
  Context(int device, std::shared_ptr<PhysicalMemory> memory, OperationQueue& queue)
      : device_(device), memory_(std::move(memory)), queue_(queue), streams_(queue) {}

  int device() const { return device_; }
  PhysicalMemory& memory() { return *memory_; }
  StreamSet& streams() { return streams_; }
  DeviceHeap& heap() { return heap_; }

  // Logs an error of a kernel or a copy, and returns it from every later call. Only the first error
  // counts.
  void Raise(CUresult error, const std::string& message) override;
  CUresult error() const override { return error_.load(std::memory_order_acquire); }

  // Waits until all work is done; returns the context's error, if any.
  CUresult Synchronize();
  // Waits until all work is done, or terminates it if there is no progress. After this, the context
  // only keeps its error.
  void End();

  std::size_t stack_limit() const { return stack_limit_.load(); }
  void SetStackLimit(std::size_t bytes) { stack_limit_ = bytes; }
  std::size_t printf_limit() const { return printf_limit_.load(); }
  // Both functions refuse any size, even the present one, after the launch of a kernel possibly
  // using the buffer or the heap. This follows NVIDIA's driver (measured natively, driver 580).
  CUresult SetPrintfLimit(std::size_t bytes);
  CUresult SetHeapLimit(std::size_t bytes);
  void Launched(bool prints, bool uses_heap);

 private:
  const int device_;
  const std::shared_ptr<PhysicalMemory> memory_;
  std::atomic<bool> raised_{false};  // Set by the first error, before error_.
  std::atomic<CUresult> error_{CUDA_SUCCESS};
  OperationQueue& queue_;
  DeviceHeap heap_;
  StreamSet streams_;
  std::atomic<std::size_t> stack_limit_{1024};  // CUDA's default.
  // Stored without effect: printf output is written at once.
  std::atomic<std::size_t> printf_limit_{std::size_t{1} << 20};
  std::atomic<bool> print_buffer_used_{false};
  std::atomic<bool> heap_used_{false};
};

// Device of the calling thread's current context; -1 without one.
int CurrentDevice();
void SetCurrentDevice(int device);

}  // namespace cuspan::softgpu
