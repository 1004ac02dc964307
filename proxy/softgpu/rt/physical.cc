#include "proxy/softgpu/rt/physical.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "common/log.h"

namespace cuspan::softgpu {

PhysicalAllocation::~PhysicalAllocation() { memory_->Release(extents_); }
int PhysicalAllocation::device() const { return memory_->device(); }
int PhysicalAllocation::fd() const { return memory_->fd(); }

Result<std::shared_ptr<PhysicalMemory>> PhysicalMemory::Create(int device, std::uint64_t bytes) {
  bytes = bytes / kMemoryGranularity * kMemoryGranularity;
  UniqueFd file(memfd_create("cuspan-softgpu", MFD_CLOEXEC));
  if (file.get() < 0 || ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) {
    return Status::Exhausted(
        "software GPU {}: the host gives no file in memory of {} bytes: {}; lower "
        "CUSPAN_SOFT_MEMORY",
        device, bytes, std::strerror(errno));
  }
  return std::shared_ptr<PhysicalMemory>(new PhysicalMemory(device, bytes, std::move(file)));
}

PhysicalMemory::PhysicalMemory(int device, std::uint64_t bytes, UniqueFd file)
    : device_(device), total_(bytes), file_(std::move(file)), free_(bytes) {
  holes_.emplace(0, bytes);
}

Result<std::shared_ptr<PhysicalAllocation>> PhysicalMemory::Allocate(std::uint64_t bytes) {
  std::vector<PhysicalAllocation::Extent> extents;
  {
    std::lock_guard lock(mutex_);
    if (bytes > free_) {
      return Status::Exhausted("software GPU {}: {} bytes wanted where {} of {} are free", device_,
                               bytes, free_, total_);
    }
    free_ -= bytes;
    // Charged memory has no place in the file, so the holes hold `bytes` at least.
    // One hole that is large enough, else as many as it takes.
    auto hole = std::find_if(holes_.begin(), holes_.end(),
                             [&](const auto& candidate) { return candidate.second >= bytes; });
    if (hole == holes_.end()) hole = holes_.begin();
    for (std::uint64_t left = bytes; left != 0; hole = holes_.begin()) {
      const std::uint64_t taken = std::min(left, hole->second);
      extents.push_back({hole->first, taken});
      if (taken < hole->second) holes_.emplace(hole->first + taken, hole->second - taken);
      holes_.erase(hole);
      left -= taken;
    }
  }
  return std::make_shared<PhysicalAllocation>(shared_from_this(), bytes, std::move(extents));
}

void PhysicalMemory::Release(const std::vector<PhysicalAllocation::Extent>& extents) {
  // Pages first, so that whoever gets the extents next finds zeros.
  for (const auto& extent : extents) {
    if (fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  static_cast<off_t>(extent.offset), static_cast<off_t>(extent.bytes)) != 0) {
      LogWarn("software GPU {}: freed memory stays with the process: {}", device_,
              std::strerror(errno));
    }
  }
  std::lock_guard lock(mutex_);
  for (const auto& extent : extents) {
    free_ += extent.bytes;
    auto hole = holes_.emplace(extent.offset, extent.bytes).first;
    if (const auto next = std::next(hole);
        next != holes_.end() && hole->first + hole->second == next->first) {
      hole->second += next->second;
      holes_.erase(next);
    }
    if (hole == holes_.begin()) continue;
    const auto previous = std::prev(hole);
    if (previous->first + previous->second == hole->first) {
      previous->second += hole->second;
      holes_.erase(hole);
    }
  }
}

bool PhysicalMemory::Charge(std::uint64_t bytes) {
  std::lock_guard lock(mutex_);
  if (bytes > free_) return false;
  free_ -= bytes;
  return true;
}

void PhysicalMemory::Discharge(std::uint64_t bytes) {
  std::lock_guard lock(mutex_);
  free_ += bytes;
}

std::uint64_t PhysicalMemory::free() const {
  std::lock_guard lock(mutex_);
  return free_;
}

}  // namespace cuspan::softgpu
