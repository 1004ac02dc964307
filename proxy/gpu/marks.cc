#include "proxy/gpu/marks.h"

namespace cuspan::proxy {
namespace {

constexpr std::size_t kPageBytes = 4096;

}  // namespace

MarkWord::~MarkWord() {
  if (word_ != nullptr) pool_->Return(*this);
}

MarkPool::~MarkPool() {
  for (Mapping& page : pages_) {
    if (abandoned_)
      page.Abandon();
    else
      driver_.cuMemHostUnregister(page.data());
  }
}

bool MarkPool::Put(CUstream stream, MarkWord& word, std::uint32_t* mark) {
  if (refused_.load(std::memory_order_relaxed) || (word.empty() && !Acquire(word))) return false;
  CUstreamBatchMemOpParams write{};
  write.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  write.writeValue.address = word.address_;
  write.writeValue.value = word.last_ + 1;
  // The default orders the write behind all earlier ones of the device.
  write.writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
  if (driver_.cuStreamBatchMemOp(stream, 1, &write, 0) != CUDA_SUCCESS) {
    refused_ = true;
    return false;
  }
  *mark = ++word.last_;
  return true;
}

bool MarkPool::Acquire(MarkWord& word) {
  const MutexLock lock(mutex_);
  if (free_.empty() && Grow() != CUDA_SUCCESS) {
    refused_ = true;
    return false;
  }
  const Free taken = free_.back();
  free_.pop_back();
  word.pool_ = this;
  word.word_ = taken.word;
  word.address_ = taken.address;
  // All marks before are reached.
  word.last_ = std::atomic_ref(*taken.word).load(std::memory_order_relaxed);
  return true;
}

CUresult MarkPool::Grow() {
  const Result<UniqueFd> memory = CreateSharedMemory("cuspan-marks", kPageBytes);
  if (!memory.ok()) return CUDA_ERROR_OUT_OF_MEMORY;
  Result<Mapping> page = Mapping::Map(memory->get(), 0, kPageBytes);
  if (!page.ok()) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = driver_.cuMemHostRegister(
      page->data(), kPageBytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
  if (result != CUDA_SUCCESS) return result;
  CUdeviceptr address = 0;
  result = driver_.cuMemHostGetDevicePointer(&address, page->data(), 0);
  if (result != CUDA_SUCCESS) {
    driver_.cuMemHostUnregister(page->data());
    return result;
  }
  auto* const words = reinterpret_cast<std::uint32_t*>(page->data());
  for (std::size_t i = 0; i < kPageBytes / sizeof *words; ++i)
    free_.push_back({words + i, address + i * sizeof *words});
  pages_.push_back(std::move(*page));
  return CUDA_SUCCESS;
}

void MarkPool::Return(MarkWord& word) {
  const MutexLock lock(mutex_);
  if (word.Reached(word.last_))
    free_.push_back({word.word_, word.address_});
  else
    abandoned_ = true;
}

}  // namespace cuspan::proxy
