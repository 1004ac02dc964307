#include "interpose/client/memory/host_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <limits>
#include <vector>

#include "interpose/client/memory/shared_region.h"

namespace cuspan {
namespace {

std::size_t PageBytes() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

// True if every page of the range is mapped in this process.
bool IsMapped(const std::byte* base, std::size_t bytes) {
  const std::size_t page = PageBytes();
  const auto first = reinterpret_cast<std::uintptr_t>(base) / page * page;
  const auto last = reinterpret_cast<std::uintptr_t>(base) + bytes - 1;
  // mincore fills one byte per page, so it is called in pieces.
  constexpr std::size_t kPages = 4096;
  std::vector<unsigned char> resident(kPages);
  for (std::uintptr_t at = first; at <= last; at += kPages * page) {
    const std::size_t piece = std::min<std::size_t>(kPages * page, last - at + 1);
    if (::mincore(reinterpret_cast<void*>(at), piece, resident.data()) != 0 && errno == ENOMEM) {
      return false;
    }
  }
  return true;
}

// True if the driver could pin all pages of the range: each is mapped, and writable, or readable if
// devices only read it. Missing pages are created, as by pinning. Linux before 5.14 cannot report
// permissions.
bool CanBePinned(const std::byte* base, std::size_t bytes, bool read_only) {
  const std::size_t page = PageBytes();
  const auto start = reinterpret_cast<std::uintptr_t>(base);
  const std::uintptr_t first = start / page * page;
  auto* const pages = reinterpret_cast<void*>(first);
  const int advice = read_only ? MADV_POPULATE_READ : MADV_POPULATE_WRITE;
  int error = 0;
  do {
    error = ::madvise(pages, start + bytes - first, advice) == 0 ? 0 : errno;
  } while (error == EINTR || error == EAGAIN);
  const bool unknown = error == EINVAL && ::madvise(pages, 0, advice) != 0;
  return unknown ? IsMapped(base, bytes) : error == 0;
}

}  // namespace

CUresult HostMemory::Allocate(std::size_t bytes, unsigned flags, int device, void** memory) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  void* base = nullptr;
  if (shared_ != nullptr && shared_->available()) {
    std::uint64_t address = 0;
    if (const CUresult result = shared_->Allocate(SharedRegion::Kind::kHost, bytes, &address);
        result != CUDA_SUCCESS) {
      return result;
    }
    base = reinterpret_cast<void*>(address);
  } else {
    base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const WriterLock lock(mutex_);
  const auto* const key = static_cast<const std::byte*>(base);
  ranges_[key] = {static_cast<std::byte*>(base), bytes, flags, true, device};
  *memory = base;
  return CUDA_SUCCESS;
}

CUresult HostMemory::Free(void* memory) {
  HostRange range{};
  {
    const WriterLock lock(mutex_);
    const auto known = ranges_.find(static_cast<const std::byte*>(memory));
    if (known == ranges_.end() || !known->second.allocated) return CUDA_ERROR_INVALID_VALUE;
    range = known->second;
    ranges_.erase(known);
  }
  if (shared_ != nullptr && shared_->available()) {
    return shared_->Free(reinterpret_cast<std::uint64_t>(range.base));
  }
  ::munmap(range.base, range.bytes);
  return CUDA_SUCCESS;
}

CUresult HostMemory::Register(void* memory, std::size_t bytes, unsigned flags, int device) {
  auto* const base = static_cast<std::byte*>(memory);
  if (base == nullptr || bytes == 0 ||
      bytes > std::numeric_limits<std::uintptr_t>::max() - reinterpret_cast<std::uintptr_t>(base) ||
      !CanBePinned(base, bytes, (flags & CU_MEMHOSTREGISTER_READ_ONLY) != 0)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const WriterLock lock(mutex_);
  if (const HostRange* other = FindOverlap(base, bytes)) {
    return other->allocated ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  }
  ranges_[base] = {base, bytes, flags, false, device};
  ++registered_;
  return CUDA_SUCCESS;
}

CUresult HostMemory::Unregister(void* memory) {
  const auto* const base = static_cast<const std::byte*>(memory);
  if (base == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const WriterLock lock(mutex_);
  const HostRange* const range = FindOverlap(base, 1);
  if (range == nullptr) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  if (range->allocated || range->base != base) return CUDA_ERROR_INVALID_VALUE;
  ranges_.erase(base);
  --registered_;
  return CUDA_SUCCESS;
}

std::optional<HostRange> HostMemory::Find(const void* address, std::size_t bytes) const {
  const auto* const at = static_cast<const std::byte*>(address);
  const ReaderLock lock(mutex_);
  const auto after = ranges_.upper_bound(at);
  if (after == ranges_.begin()) return std::nullopt;
  const HostRange& range = std::prev(after)->second;
  const auto offset = static_cast<std::size_t>(at - range.base);
  if (offset >= range.bytes || bytes > range.bytes - offset) return std::nullopt;
  return range;
}

const HostRange* HostMemory::FindOverlap(const std::byte* base, std::size_t bytes) const {
  const auto after = ranges_.lower_bound(base + bytes);
  if (after == ranges_.begin()) return nullptr;
  const HostRange& before = std::prev(after)->second;
  return before.base + before.bytes > base ? &before : nullptr;
}

}  // namespace cuspan
