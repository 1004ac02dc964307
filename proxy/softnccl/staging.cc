#include "proxy/softnccl/staging.h"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "common/round_up.h"

namespace cuspan::softnccl {
namespace {

constexpr std::size_t kPageBytes = 4096;

}  // namespace

Staging::Staging(const Cuda& cuda, std::vector<Movement> movements)
    : cuda_(cuda), movements_(std::move(movements)) {
  const auto place = [this](std::size_t bytes) {
    return std::exchange(bytes_, bytes_ + RoundUp(bytes, sizeof(std::max_align_t)));
  };
  for (const Movement& movement : movements_) {
    const std::size_t factor = place(sizeof(std::uint64_t)), send = place(movement.send_bytes);
    offsets_.push_back({send, place(movement.receive_bytes), factor});
  }
}

CUresult Staging::Make(const Cuda& cuda, std::vector<Movement> movements,
                       std::unique_ptr<Staging>* made) {
  std::unique_ptr<Staging> staging(new Staging(cuda, std::move(movements)));
  const std::size_t bytes = RoundUp(staging->bytes_, kPageBytes);
  staging->memory_ = static_cast<std::byte*>(std::aligned_alloc(kPageBytes, bytes));
  if (staging->memory_ == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  std::memset(staging->memory_, 0, kHeadBytes);
  CUresult result = cuda.host_register(staging->memory_, bytes, CU_MEMHOSTREGISTER_DEVICEMAP);
  if (result == CUDA_SUCCESS) result = cuda.host_address(&staging->address_, staging->memory_, 0);
  if (result == CUDA_SUCCESS) *made = std::move(staging);
  return result;
}

Staging::~Staging() {
  if (memory_ == nullptr) return;
  cuda_.host_unregister(memory_);
  std::free(memory_);
}

void Staging::Clear() {
  for (std::size_t i = 0; i < movements_.size(); ++i)
    std::memset(receive(i), 0, movements_[i].receive_bytes);
}

CUresult Staging::SetFlag(CUstream stream, std::size_t at, bool awaits) const {
  CUstreamBatchMemOpParams operations[2] = {};
  operations[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  operations[0].writeValue.address = address_ + at;
  operations[0].writeValue.value = 1;
  operations[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  operations[1].waitValue.address = address_ + kAnsweredAt;
  operations[1].waitValue.value = 1;
  operations[1].waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
  return cuda_.memory_operations(stream, awaits ? 2 : 1, operations, 0);
}

CUresult Staging::CopyIn(CUstream stream) const {
  CUresult result = CUDA_SUCCESS;
  for (std::size_t i = 0; i < movements_.size() && result == CUDA_SUCCESS; ++i) {
    const Movement& movement = movements_[i];
    if (movement.send_bytes > 0)
      result = cuda_.copy_from_device(send(i), movement.from, movement.send_bytes, stream);
    if (result == CUDA_SUCCESS && movement.factor_at != 0)
      result = cuda_.copy_from_device(factor(i), movement.factor_at, movement.factor_bytes, stream);
  }
  return result;
}

CUresult Staging::Give(CUstream stream) const {
  CUresult result = CUDA_SUCCESS;
  for (std::size_t i = 0; i < movements_.size() && result == CUDA_SUCCESS; ++i) {
    const Movement& movement = movements_[i];
    if (movement.receive_bytes > 0)
      result = cuda_.copy_to_device(movement.to, receive(i), movement.receive_bytes, stream);
  }
  return result;
}

CUresult Staging::Submit(CUstream stream) {
  CUresult result = CopyIn(stream);
  if (result == CUDA_SUCCESS) result = SetFlag(stream, kReachedAt, true);
  if (result == CUDA_SUCCESS) result = Give(stream);
  // Submitted even after an error: earlier work in the stream still uses this memory.
  const CUresult last = SetFlag(stream, kPassedAt, false);
  if (result == CUDA_SUCCESS) result = last;
  if (result != CUDA_SUCCESS) Word(kReachedAt).store(1);
  // If the stream accepts no more work, its context is lost, and its work no longer runs.
  if (last != CUDA_SUCCESS) Word(kPassedAt).store(1);
  return result;
}

}  // namespace cuspan::softnccl
