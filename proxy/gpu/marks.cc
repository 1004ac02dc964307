#include "proxy/gpu/marks.h"

#include "common/log.h"

namespace cuspan::proxy {
namespace {

// Words for 16,384 streams.
constexpr std::size_t kPageBytes = 64 * 1024;

// Registers memory to be written by the device. Returns its address there; 0 if the driver refuses.
CUdeviceptr Register(const Driver& driver, std::span<std::byte> memory) {
  CUdeviceptr address = 0;
  if (memory.empty() || driver.cuMemHostRegister(memory.data(), memory.size(),
                                                 CU_MEMHOSTREGISTER_PORTABLE |
                                                     CU_MEMHOSTREGISTER_DEVICEMAP) != CUDA_SUCCESS)
    return 0;
  if (driver.cuMemHostGetDevicePointer(&address, memory.data(), 0) == CUDA_SUCCESS) return address;
  driver.cuMemHostUnregister(memory.data());
  return 0;
}

// Memory of the proxy written by the device, and its address there.
Mapping DeviceWritten(const Driver& driver, CUdeviceptr* address) {
  const Result<UniqueFd> memory = CreateSharedMemory("cuspan-marks", kPageBytes);
  if (!memory.ok()) return {};
  Result<Mapping> page = Mapping::Map(memory->get(), 0, kPageBytes);
  if (!page.ok()) return {};
  *address = Register(driver, {page->data(), kPageBytes});
  return std::move(*page);
}

}  // namespace

MarkWord::~MarkWord() {
  if (word_ != nullptr) pool_->Return(*this);
}

MarkPool::MarkPool(const Driver& driver, std::span<std::byte> client_words)
    : driver_(driver),
      page_(DeviceWritten(driver, &address_)),
      client_words_(client_words),
      client_address_(Register(driver, client_words)) {
  if (address_ == 0) {
    LogInfo("the driver provides no page-locked memory for marks; waits use events");
    return;
  }
  for (std::uint32_t i = kPageBytes / sizeof(std::uint32_t); i-- > 0;) free_.push_back(i);
}

MarkPool::~MarkPool() {
  if (client_address_ != 0) driver_.cuMemHostUnregister(client_words_.data());
  if (address_ == 0) return;
  if (abandoned_)
    page_.Abandon();
  else
    driver_.cuMemHostUnregister(page_.data());
}

bool MarkPool::Put(CUstream stream, MarkWord& word, std::uint32_t* mark) {
  if (word.empty() && !Acquire(word)) return false;
  if (!Write(stream, word.address_, word.last_ + 1)) return false;
  *mark = ++word.last_;
  return true;
}

bool MarkPool::PutForClient(CUstream stream, std::size_t offset, std::uint32_t value) {
  return client_address_ != 0 && Write(stream, client_address_ + offset, value);
}

bool MarkPool::Write(CUstream stream, CUdeviceptr address, std::uint32_t value) {
  if (refused_.load(std::memory_order_relaxed)) return false;
  CUstreamBatchMemOpParams write{};
  write.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  write.writeValue.address = address;
  write.writeValue.value = value;
  // The default orders the write behind the earlier ones of the stream.
  write.writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
  const CUresult result = driver_.cuStreamBatchMemOp(stream, 1, &write, 0);
  if (result == CUDA_SUCCESS) return true;
  LogInfo("the driver refuses marks (CUDA error {}); waits use events from now on",
          static_cast<int>(result));
  refused_ = true;
  return false;
}

bool MarkPool::Acquire(MarkWord& word) {
  const MutexLock lock(mutex_);
  if (free_.empty()) return false;
  const std::uint32_t index = free_.back();
  free_.pop_back();
  word.pool_ = this;
  word.word_ = reinterpret_cast<std::atomic<std::uint32_t>*>(page_.data()) + index;
  word.address_ = address_ + index * sizeof(std::uint32_t);
  // All marks before are reached.
  word.last_ = word.word_->load(std::memory_order_relaxed);
  return true;
}

void MarkPool::Return(MarkWord& word) {
  const MutexLock lock(mutex_);
  if (word.Reached(word.last_))
    free_.push_back(static_cast<std::uint32_t>(
        word.word_ - reinterpret_cast<std::atomic<std::uint32_t>*>(page_.data())));
  else
    abandoned_ = true;
}

}  // namespace cuspan::proxy
