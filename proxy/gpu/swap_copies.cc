#include "proxy/gpu/swap_copies.h"

#include <sys/mman.h>

#include "common/available_memory.h"
#include "common/log.h"

namespace cuspan::proxy {
namespace {

// Host memory left free for other processes.
constexpr std::uint64_t kLeftToHost = std::uint64_t{1} << 30;

}  // namespace

SwapCopies::~SwapCopies() {
  for (const auto& [address, copy] : copies_) Free(copy);
  if (stream_ != nullptr) driver_.cuStreamDestroy(stream_);
}

CUresult SwapCopies::MakeStream() {
  if (stream_ != nullptr) return CUDA_SUCCESS;
  return driver_.cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0);
}

CUresult SwapCopies::Allocate(std::uint64_t bytes, Copy* copy) const {
  const std::uint64_t available = AvailableMemory();
  if (available < kLeftToHost || available - kLeftToHost < bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  void* const at =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  // Only a hint: without huge pages it is slower.
  ::madvise(at, bytes, MADV_HUGEPAGE);
  *copy = {static_cast<std::byte*>(at), bytes, false};
  const CUresult pinned = driver_.cuMemHostRegister(at, bytes, CU_MEMHOSTREGISTER_PORTABLE);
  copy->pinned = pinned == CUDA_SUCCESS;
  if (!copy->pinned)
    LogInfo("{} bytes of host memory for swapped device memory are not pinned: {}", bytes,
            driver_.Describe(pinned));
  return CUDA_SUCCESS;
}

void SwapCopies::Free(const Copy& copy) const {
  if (copy.pinned) driver_.cuMemHostUnregister(copy.at);
  ::munmap(copy.at, copy.bytes);
}

CUresult SwapCopies::Save(std::uint64_t address, std::uint64_t bytes) {
  if (const CUresult result = MakeStream(); result != CUDA_SUCCESS) return result;
  if (const auto known = copies_.find(address);
      known != copies_.end() && known->second.bytes != bytes)
    Forget(address);
  auto found = copies_.find(address);
  if (found == copies_.end()) {
    Copy made;
    if (const CUresult result = Allocate(bytes, &made); result != CUDA_SUCCESS) return result;
    found = copies_.emplace(address, made).first;
  }
  return driver_.cuMemcpyDtoHAsync(found->second.at, address, bytes, stream_);
}

CUresult SwapCopies::Restore(std::uint64_t address) {
  const auto found = copies_.find(address);
  if (found == copies_.end()) return CUDA_ERROR_INVALID_VALUE;
  return driver_.cuMemcpyHtoDAsync(address, found->second.at, found->second.bytes, stream_);
}

CUresult SwapCopies::Wait() {
  return stream_ == nullptr ? CUDA_SUCCESS : driver_.cuStreamSynchronize(stream_);
}

void SwapCopies::Forget(std::uint64_t address) {
  const auto found = copies_.find(address);
  if (found == copies_.end()) return;
  Free(found->second);
  copies_.erase(found);
}

}  // namespace cuspan::proxy
