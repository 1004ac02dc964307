// Copies and fills as tasks of the worker pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "proxy/softgpu/rt/launch.h"
#include "proxy/softgpu/rt/pace.h"
#include "proxy/softgpu/rt/pool.h"

namespace cuspan::softgpu {

// Copies `bytes` from `source` to `target`, in pieces on several workers. A fault (memory unmapped
// meanwhile) becomes an error of `errors`.
class CopyTask : public Task {
 public:
  // `pace` may be null, and must outlive the task.
  CopyTask(void* target, const void* source, std::size_t bytes, int priority,
           std::shared_ptr<ErrorSink> errors, Pace* pace = nullptr);
  // Copies from its own bytes.
  CopyTask(void* target, std::vector<std::uint8_t> bytes, int priority,
           std::shared_ptr<ErrorSink> errors, Pace* pace = nullptr);

  Engine engine() const override { return Engine::kCopy; }
  bool Cancelled() const override { return errors_->error() != CUDA_SUCCESS; }
  Resident* Start(Worker& worker, std::uint64_t unit) override;

 private:
  void* const target_;
  const std::vector<std::uint8_t> own_;
  const void* const source_;
  const std::size_t bytes_;
  const std::shared_ptr<ErrorSink> errors_;
  Pace* const pace_;
};

// A box of bytes in memory: its start, and the distances between rows and slices.
struct BoxSide {
  std::uint8_t* base = nullptr;
  std::size_t row_bytes = 0;
  std::size_t slice_bytes = 0;
};

// Copies `depth` slices of `height` rows of `width` bytes, each at least 1; in
// pieces of whole rows on several workers. `keep` lives until the copy is done.
class BoxCopyTask : public Task {
 public:
  BoxCopyTask(const BoxSide& target, const BoxSide& source, std::size_t width, std::size_t height,
              std::size_t depth, int priority, std::shared_ptr<ErrorSink> errors,
              std::shared_ptr<const void> keep);

  Engine engine() const override { return Engine::kCopy; }
  bool Cancelled() const override { return errors_->error() != CUDA_SUCCESS; }
  Resident* Start(Worker& worker, std::uint64_t unit) override;

 private:
  const BoxSide target_;
  const BoxSide source_;
  const std::size_t width_;
  const std::size_t height_;
  const std::size_t rows_;  // Rows of all slices.
  const std::shared_ptr<ErrorSink> errors_;
  const std::shared_ptr<const void> keep_;
};

// A fill of `rows` rows, `pitch` bytes apart (unused for one row). Each has `count` elements of
// `width` (1, 2 or 4) bytes, set to the low bits of `value`.
struct Fill {
  std::uint64_t target = 0;
  std::size_t pitch = 0;
  std::uint32_t value = 0;
  std::uint32_t width = 1;
  std::size_t count = 0;
  std::size_t rows = 1;
};

// Fills in pieces on several workers. No size of the fill may be 0.
class FillTask : public Task {
 public:
  FillTask(const Fill& fill, int priority, std::shared_ptr<ErrorSink> errors);

  bool Cancelled() const override { return errors_->error() != CUDA_SUCCESS; }
  Resident* Start(Worker& worker, std::uint64_t unit) override;

 private:
  const Fill fill_;
  const std::shared_ptr<ErrorSink> errors_;
};

}  // namespace cuspan::softgpu
