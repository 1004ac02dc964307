#include "proxy/files/file_buffers.h"

#include <sys/mman.h>

#include "common/log.h"

namespace cuspan::proxy {

FileBuffers::~FileBuffers() {
  // Still registered: this would wait for running kernels, and the process ends.
  if (memory_ != nullptr) ::munmap(memory_, kCount * kBytes);
}

bool FileBuffers::Allocate(const Driver& driver) {
  if (memory_ != nullptr) return true;
  void* const memory =
      ::mmap(nullptr, kCount * kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  if (const CUresult result =
          driver.cuMemHostRegister(memory, kCount * kBytes, CU_MEMHOSTREGISTER_PORTABLE);
      result != CUDA_SUCCESS) {
    LogInfo("files are read by the program's node, since no buffers can be page-locked: {}",
            driver.Describe(result));
    ::munmap(memory, kCount * kBytes);
    return false;
  }
  memory_ = static_cast<std::byte*>(memory);
  const MutexLock lock(mutex_);
  for (std::size_t i = kCount; i-- > 0;) free_.push_back(memory_ + i * kBytes);
  return true;
}

std::byte* FileBuffers::Acquire() {
  const MutexLock lock(mutex_);
  if (free_.empty()) return nullptr;
  std::byte* const buffer = free_.back();
  free_.pop_back();
  return buffer;
}

void FileBuffers::Return(std::byte* buffer) {
  const MutexLock lock(mutex_);
  free_.push_back(buffer);
}

}  // namespace cuspan::proxy
