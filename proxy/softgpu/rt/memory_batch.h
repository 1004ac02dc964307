// Waits for values in memory and writes of them, as tasks of the worker pool.
// (CUDA Driver API, "Stream Memory Operations")
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
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

// While it waits, the task stays resident on its worker, which looks again in turn with all others:
// so such tasks have an engine to themselves. A fault (memory that was unmapped meanwhile) becomes
// an error of `errors`.
class ValueTask : public Task {
 public:
  Engine engine() const override { return Engine::kMemory; }
  bool Cancelled() const override { return errors_->error() != CUDA_SUCCESS; }
  Resident* Start(Worker& worker, std::uint64_t unit) override;

 protected:
  ValueTask(std::vector<MemoryOperation> operations, int priority,
            std::shared_ptr<ErrorSink> errors);
  // Tries operation `next_`, and others, as far as it can; true when nothing is left to do.
  virtual bool Try() = 0;

  const std::vector<MemoryOperation> operations_;
  std::size_t next_ = 0;  // The one that is tried.

 private:
  class Rest final : public Resident {
   public:
    explicit Rest(ValueTask* task) : task_(task) {}
    bool Resume(Worker& worker) override { return task_->Advance(worker); }
    void Release(Worker&) override {}

   private:
    ValueTask* const task_;
  };
  // Try with a guard.
  bool Advance(Worker& worker);

  const std::shared_ptr<ErrorSink> errors_;
  bool done_ = false;
  Rest rest_{this};
};

// Executes the operations one after the other.
class MemoryBatchTask final : public ValueTask {
 public:
  MemoryBatchTask(std::vector<MemoryOperation> operations, int priority,
                  std::shared_ptr<ErrorSink> errors)
      : ValueTask(std::move(operations), priority, std::move(errors)) {}

 private:
  bool Try() override;
};

// Waits for the first of several values. *found, which outlives the task, says whose it was.
class FirstValueTask final : public ValueTask {
 public:
  FirstValueTask(std::vector<MemoryOperation> waits, int priority,
                 std::shared_ptr<ErrorSink> errors, std::size_t* found)
      : ValueTask(std::move(waits), priority, std::move(errors)), found_(found) {}

 private:
  bool Try() override;

  std::size_t* const found_;
};

}  // namespace cuspan::softgpu
