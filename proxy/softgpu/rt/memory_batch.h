// Batches of waits for values in memory and writes of them, as tasks of the worker pool.
// (CUDA Driver API, "Stream Memory Operations")
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "proxy/softgpu/rt/launch.h"
#include "proxy/softgpu/rt/pool.h"

namespace cuspan::softgpu {

// Writes `value` to an aligned place of 4 or 8 bytes, or waits until what is there satisfies
// `condition`, one of CUstreamWaitValue_flags, with it.
struct MemoryOperation {
  bool wait = false;
  unsigned condition = CU_STREAM_WAIT_VALUE_GEQ;
  unsigned width = 4;
  std::uint64_t address = 0;
  std::uint64_t value = 0;
};

// Executes the operations one after the other. While one waits, the task stays resident on its
// worker, which looks again in turn with all others: so such tasks have an engine to themselves. A
// fault (memory that was unmapped meanwhile) becomes an error of `errors`.
class MemoryBatchTask final : public Task {
 public:
  MemoryBatchTask(std::vector<MemoryOperation> operations, int priority,
                  std::shared_ptr<ErrorSink> errors);

  Engine engine() const override { return Engine::kMemory; }
  bool Cancelled() const override { return errors_->error() != CUDA_SUCCESS; }
  Resident* Start(Worker& worker, std::uint64_t unit) override;

 private:
  class Rest final : public Resident {
   public:
    explicit Rest(MemoryBatchTask* task) : task_(task) {}
    bool Resume(Worker& worker) override { return task_->Advance(worker); }
    void Release(Worker&) override {}

   private:
    MemoryBatchTask* const task_;
  };
  // Goes on as far as it can; true when nothing is left to do.
  bool Advance(Worker& worker);
  // The same without a guard.
  static void Run(void* task);

  const std::vector<MemoryOperation> operations_;
  const std::shared_ptr<ErrorSink> errors_;
  std::size_t next_ = 0;
  Rest rest_{this};
};

}  // namespace cuspan::softgpu
