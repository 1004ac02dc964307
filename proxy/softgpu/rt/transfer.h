// Copies and fills as tasks of the worker pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "proxy/softgpu/rt/launch.h"
#include "proxy/softgpu/rt/pool.h"

namespace cuspan::softgpu {

// Copies `bytes` from `source` to `target`, in pieces on several workers. A
// fault (memory that was unmapped meanwhile) becomes an error of `errors`.
class CopyTask : public Task {
 public:
  CopyTask(void* target, const void* source, std::size_t bytes, int priority,
           std::shared_ptr<ErrorSink> errors);
  // Copies from bytes of its own.
  CopyTask(void* target, std::vector<std::uint8_t> bytes, int priority,
           std::shared_ptr<ErrorSink> errors);

  bool Cancelled() const override { return errors_->error() != CUDA_SUCCESS; }
  Resident* Start(Worker& worker, std::uint64_t unit) override;

 private:
  void* const target_;
  const std::vector<std::uint8_t> own_;
  const void* const source_;
  const std::size_t bytes_;
  const std::shared_ptr<ErrorSink> errors_;
};

// Writes `count` elements of `width` (1, 2 or 4) bytes, each with the low bits of `value`.
class FillTask : public Task {
 public:
  FillTask(void* target, std::uint32_t value, std::uint32_t width, std::size_t count, int priority,
           std::shared_ptr<ErrorSink> errors);

  bool Cancelled() const override { return errors_->error() != CUDA_SUCCESS; }
  Resident* Start(Worker& worker, std::uint64_t unit) override;

 private:
  void* const target_;
  const std::uint32_t value_;
  const std::uint32_t width_;
  const std::size_t count_;
  const std::shared_ptr<ErrorSink> errors_;
};

}  // namespace cuspan::softgpu
