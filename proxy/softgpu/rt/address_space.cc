#include "proxy/softgpu/rt/address_space.h"

#include <sys/mman.h>

#include <bit>
#include <iterator>
#include <utility>

#include "common/format.h"

namespace cuspan::softgpu {
namespace {

void* Pointer(std::uint64_t address) { return reinterpret_cast<void*>(address); }
std::uint64_t Address(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

constexpr int kReserved = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

// Reserves inaccessible address space. Returns 0 on failure, or if `hint` is not free.
std::uint64_t MapNothing(std::uint64_t bytes, std::uint64_t hint) {
  void* base = mmap(Pointer(hint), bytes, PROT_NONE,
                    kReserved | (hint != 0 ? MAP_FIXED_NOREPLACE : 0), -1, 0);
  if (base == MAP_FAILED) return 0;
  // Linux before 4.17 treats the address as a mere hint.
  if (hint != 0 && Address(base) != hint) {
    munmap(base, bytes);
    return 0;
  }
  return Address(base);
}

bool Multiple(std::uint64_t value) { return value % kMemoryGranularity == 0; }

std::uint64_t Bit(int device) { return std::uint64_t{1} << device; }

}  // namespace

AddressSpace::~AddressSpace() {
  for (const auto& [address, bytes] : reservations_) munmap(Pointer(address), bytes);
}

CUresult AddressSpace::Reserve(std::uint64_t bytes, std::uint64_t alignment, std::uint64_t hint,
                               std::uint64_t* address) {
  if (bytes == 0 || !Multiple(bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (alignment != 0 && !std::has_single_bit(alignment)) return CUDA_ERROR_INVALID_VALUE;
  if (alignment < kMemoryGranularity) alignment = kMemoryGranularity;
  if (!Multiple(hint)) return CUDA_ERROR_INVALID_VALUE;
  std::uint64_t base = 0;
  if (hint != 0 && hint % alignment == 0) base = MapNothing(bytes, hint);
  if (base == 0) {
    if (bytes > UINT64_MAX - alignment) return CUDA_ERROR_OUT_OF_MEMORY;
    const std::uint64_t wide = MapNothing(bytes + alignment, 0);
    if (wide == 0) return CUDA_ERROR_OUT_OF_MEMORY;
    base = (wide + alignment - 1) / alignment * alignment;
    if (base != wide) munmap(Pointer(wide), base - wide);
    munmap(Pointer(base + bytes), wide + alignment - base);
  }
  std::unique_lock lock(mutex_);
  reservations_.emplace(base, bytes);
  *address = base;
  return CUDA_SUCCESS;
}

CUresult AddressSpace::Free(std::uint64_t address, std::uint64_t bytes) {
  std::unique_lock lock(mutex_);
  const auto found = reservations_.find(address);
  if (found == reservations_.end() || found->second != bytes) return CUDA_ERROR_INVALID_VALUE;
  const auto mapped = mappings_.lower_bound(address);
  if (mapped != mappings_.end() && mapped->first < address + bytes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  reservations_.erase(found);
  munmap(Pointer(address), bytes);
  return CUDA_SUCCESS;
}

bool AddressSpace::Reserved(std::uint64_t address, std::uint64_t bytes) const {
  auto reserved = reservations_.upper_bound(address);
  if (reserved == reservations_.begin()) return false;
  --reserved;
  const std::uint64_t offset = address - reserved->first;
  return offset <= reserved->second && bytes <= reserved->second - offset;
}

CUresult AddressSpace::Map(std::uint64_t address, std::uint64_t bytes,
                           std::shared_ptr<PhysicalAllocation> memory) {
  if (bytes == 0 || !Multiple(bytes) || !Multiple(address)) return CUDA_ERROR_INVALID_VALUE;
  if (bytes != memory->bytes()) return CUDA_ERROR_NOT_SUPPORTED;
  std::unique_lock lock(mutex_);
  if (!Reserved(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  const auto next = mappings_.lower_bound(address);
  if (next != mappings_.end() && next->first < address + bytes) return CUDA_ERROR_INVALID_VALUE;
  if (next != mappings_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second.bytes > address) return CUDA_ERROR_INVALID_VALUE;
  }
  std::uint64_t at = address;
  for (const auto& extent : memory->extents()) {
    if (mmap(Pointer(at), extent.bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, memory->fd(),
             static_cast<off_t>(extent.offset)) == MAP_FAILED) {
      mmap(Pointer(address), bytes, PROT_NONE, kReserved | MAP_FIXED, -1, 0);
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    at += extent.bytes;
  }
  mappings_.emplace(address, Mapping{bytes, std::move(memory)});
  return CUDA_SUCCESS;
}

bool AddressSpace::Whole(std::uint64_t address, std::uint64_t bytes, Mappings::iterator* first,
                         Mappings::iterator* last) {
  if (bytes == 0) return false;
  *first = mappings_.find(address);
  std::uint64_t at = address;
  auto mapping = *first;
  while (mapping != mappings_.end() && mapping->first == at && at - address < bytes &&
         mapping->second.memory != nullptr) {
    at += mapping->second.bytes;
    ++mapping;
  }
  *last = mapping;
  return at - address == bytes;
}

CUresult AddressSpace::Unmap(std::uint64_t address, std::uint64_t bytes) {
  if (bytes == 0 || !Multiple(bytes) || !Multiple(address)) return CUDA_ERROR_INVALID_VALUE;
  std::vector<std::shared_ptr<PhysicalAllocation>> freed;  // Released after the lock.
  std::unique_lock lock(mutex_);
  if (!Reserved(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  const auto first = mappings_.lower_bound(address);
  if (first != mappings_.begin()) {
    const auto before = std::prev(first);
    if (before->first + before->second.bytes > address) return CUDA_ERROR_INVALID_VALUE;
  }
  auto last = first;
  for (; last != mappings_.end() && last->first < address + bytes; ++last) {
    if (last->first + last->second.bytes > address + bytes) return CUDA_ERROR_INVALID_VALUE;
  }
  if (mmap(Pointer(address), bytes, PROT_NONE, kReserved | MAP_FIXED, -1, 0) == MAP_FAILED) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  for (auto mapping = first; mapping != last; ++mapping) {
    freed.push_back(std::move(mapping->second.memory));
  }
  mappings_.erase(first, last);
  lock.unlock();
  return CUDA_SUCCESS;
}

CUresult AddressSpace::SetAccess(std::uint64_t address, std::uint64_t bytes, int device, bool read,
                                 bool write) {
  std::unique_lock lock(mutex_);
  Mappings::iterator first, last;
  if (!Whole(address, bytes, &first, &last)) return CUDA_ERROR_INVALID_VALUE;
  for (auto mapping = first; mapping != last; ++mapping) {
    Mapping& own = mapping->second;
    own.readers = read ? own.readers | Bit(device) : own.readers & ~Bit(device);
    own.writers = write ? own.writers | Bit(device) : own.writers & ~Bit(device);
    // All devices are in this process, so pages have the union of their rights.
    const int protection = (own.readers != 0 ? PROT_READ : 0) | (own.writers != 0 ? PROT_WRITE : 0);
    if (mprotect(Pointer(mapping->first), own.bytes, protection) != 0) {
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
  }
  return CUDA_SUCCESS;
}

void AddressSpace::AddFixed(std::uint64_t address, std::uint64_t bytes, int device) {
  std::unique_lock lock(mutex_);
  mappings_.emplace(address, Mapping{bytes, nullptr, Bit(device), Bit(device)});
}

void AddressSpace::AddHost(std::uint64_t address, std::uint64_t bytes) {
  constexpr std::uint64_t kAll = ~std::uint64_t{0};
  std::unique_lock lock(mutex_);
  mappings_.emplace(address, Mapping{bytes, nullptr, kAll, kAll});
}

void AddressSpace::RemoveFixed(std::uint64_t address) {
  std::unique_lock lock(mutex_);
  mappings_.erase(address);
}

bool AddressSpace::Accessible(std::uint64_t address, std::uint64_t bytes, int device,
                              bool write) const {
  std::shared_lock lock(mutex_);
  auto mapping = mappings_.upper_bound(address);
  if (mapping == mappings_.begin()) return false;
  --mapping;
  std::uint64_t at = address;
  for (std::uint64_t left = bytes;; ++mapping) {
    if (mapping == mappings_.end() || mapping->first > at) return false;
    const std::uint64_t offset = at - mapping->first;
    if (offset >= mapping->second.bytes) return false;
    const std::uint64_t allowed = write ? mapping->second.writers : mapping->second.readers;
    if ((allowed & Bit(device)) == 0) return false;
    const std::uint64_t here = mapping->second.bytes - offset;
    if (left <= here) return true;
    left -= here;
    at += here;
  }
}

std::string AddressSpace::Describe(std::uint64_t address) const {
  std::shared_lock lock(mutex_);
  auto mapping = mappings_.upper_bound(address);
  if (mapping == mappings_.begin()) return "no memory at this address";
  --mapping;
  const auto& [begin, own] = *mapping;
  if (address - begin < own.bytes)
    return Format("at byte {} of the {} bytes at {:#x}", address - begin, own.bytes, begin);
  return Format("{} bytes beyond the end of the {} bytes at {:#x}", address - begin - own.bytes,
                own.bytes, begin);
}

bool AddressSpace::IsDevice(std::uint64_t address) const {
  std::shared_lock lock(mutex_);
  const auto within = [&](const auto& map, auto size) {
    auto found = map.upper_bound(address);
    if (found == map.begin()) return false;
    --found;
    return address - found->first < size(found->second);
  };
  return within(mappings_, [](const Mapping& mapping) { return mapping.bytes; }) ||
         within(reservations_, [](std::uint64_t bytes) { return bytes; });
}

}  // namespace cuspan::softgpu
