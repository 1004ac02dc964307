// Waits for values in memory, and writes of values, as tasks of the worker pool. (CUDA Driver API,
// "Stream Memory Operations")
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

// Writes `value` to an aligned location of 4 or 8 bytes, or waits until its content satisfies
// `condition`, one of CUstreamWaitValue_flags, with `value`.
struct MemoryOperation {
  bool wait = false;
  unsigned condition = CU_STREAM_WAIT_VALUE_GEQ;
  unsigned width = 4;
  std::uint64_t address = 0;
  std::uint64_t value = 0;
};

// A waiting task stays resident on its worker, polled in rotation with all others. These tasks
// therefore have their own engine. A fault (memory unmapped meanwhile) becomes an error of
// `errors`.
class ValueTask : public Task {
 public:
  Engine engine() const override { return Engine::kMemory; }
  bool Cancelled() const override { return errors_->error() != CUDA_SUCCESS; }
  Resident* Start(Worker& worker, std::uint64_t unit) override;

 protected:
  ValueTask(std::vector<MemoryOperation> operations, int priority,
            std::shared_ptr<ErrorSink> errors);
  // Executes operations as far as possible, `next_` being the current one. True when none is left.
  virtual bool Try() = 0;

  const std::vector<MemoryOperation> operations_;
  std::size_t next_ = 0;  // Operation being tried.

 private:
  class Rest final : public Resident {
   public:
    explicit Rest(ValueTask* task) : task_(task) {}
    bool Resume(Worker& worker) override { return task_->Advance(worker); }
    void Release(Worker&) override {}

   private:
    ValueTask* const task_;
  };
  // Calls Try under the fault guard.
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

// Waits for the first of several values. *found is set to its index and must outlive the task.
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
