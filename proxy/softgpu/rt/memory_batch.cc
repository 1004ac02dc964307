#include "proxy/softgpu/rt/memory_batch.h"

#include <atomic>
#include <type_traits>
#include <utility>

#include "common/format.h"

namespace cuspan::softgpu {
namespace {

template <typename T>
bool Satisfies(T found, T value, unsigned condition) {
  switch (condition) {
    case CU_STREAM_WAIT_VALUE_EQ:
      return found == value;
    case CU_STREAM_WAIT_VALUE_AND:
      return (found & value) != 0;
    case CU_STREAM_WAIT_VALUE_NOR:
      return static_cast<T>(~(found | value)) != 0;
    default:  // CU_STREAM_WAIT_VALUE_GEQ, a cyclic comparison.
      return static_cast<std::make_signed_t<T>>(static_cast<T>(found - value)) >= 0;
  }
}

// Returns false while it must wait.
template <typename T>
bool Do(const MemoryOperation& operation) {
  const std::atomic_ref<T> place(*reinterpret_cast<T*>(operation.address));
  const T value = static_cast<T>(operation.value);
  if (operation.wait)
    return Satisfies(place.load(std::memory_order_acquire), value, operation.condition);
  // Later loads of the stream are not older than this store.
  place.store(value, std::memory_order_seq_cst);
  return true;
}

bool Do(const MemoryOperation& operation) {
  return operation.width == 8 ? Do<std::uint64_t>(operation) : Do<std::uint32_t>(operation);
}

}  // namespace

ValueTask::ValueTask(std::vector<MemoryOperation> operations, int priority,
                     std::shared_ptr<ErrorSink> errors)
    : Task(1, 1, priority, /*all_resident=*/true),
      operations_(std::move(operations)),
      errors_(std::move(errors)) {}

Resident* ValueTask::Start(Worker& worker, std::uint64_t) {
  return Advance(worker) ? nullptr : &rest_;
}

bool ValueTask::Advance(Worker& worker) {
  if (Cancelled()) return true;
  const auto run = [](void* task) {
    auto& self = *static_cast<ValueTask*>(task);
    self.done_ = self.Try();
  };
  if (worker.RunGuarded(run, this)) return done_;
  errors_->Raise(CUDA_ERROR_ILLEGAL_ADDRESS,
                 Format("stream memory operation: access to an address that is not mapped ({})",
                        reinterpret_cast<const void*>(operations_[next_].address)));
  return true;
}

bool MemoryBatchTask::Try() {
  while (next_ != operations_.size() && Do(operations_[next_])) ++next_;
  return next_ == operations_.size();
}

bool FirstValueTask::Try() {
  for (next_ = 0; next_ != operations_.size(); ++next_) {
    if (!Do(operations_[next_])) continue;
    *found_ = next_;
    return true;
  }
  return false;
}

}  // namespace cuspan::softgpu
