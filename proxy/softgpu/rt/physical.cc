#include "proxy/softgpu/rt/physical.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "common/log.h"

namespace cuspan::softgpu {
namespace {

constexpr const char* kSharedName = "cuspan-softgpu-shared";
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

}  // namespace

PhysicalAllocation::~PhysicalAllocation() {
  if (!own_file_.valid()) {
    memory_->Release(extents_);
  } else if (charged_) {
    memory_->Discharge(bytes_);
  }
}
int PhysicalAllocation::device() const { return memory_->device(); }
int PhysicalAllocation::fd() const { return own_file_.valid() ? own_file_.get() : memory_->fd(); }

Result<std::shared_ptr<PhysicalMemory>> PhysicalMemory::Create(int device, std::uint64_t bytes) {
  bytes = bytes / kMemoryGranularity * kMemoryGranularity;
  UniqueFd file(memfd_create("cuspan-softgpu", MFD_CLOEXEC));
  if (file.get() < 0 || ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) {
    return Status::Exhausted(
        "software GPU {}: the host cannot provide {} bytes of memory: {}; lower CUSPAN_SOFT_MEMORY",
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
      return Status::Exhausted("software GPU {}: {} bytes requested, {} of {} free", device_, bytes,
                               free_, total_);
    }
    free_ -= bytes;
    // Charged memory uses no space of the file, so the holes have at least `bytes`. Takes one large
    // enough, else as many as needed.
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

Result<std::shared_ptr<PhysicalAllocation>> PhysicalMemory::AllocateShareable(std::uint64_t bytes) {
  if (!Charge(bytes))
    return Status::Exhausted("software GPU {}: {} bytes requested, {} of {} free", device_, bytes,
                             free(), total_);
  UniqueFd file(memfd_create(kSharedName, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  // Sealed: no other holder of the file can remove pages.
  if (!file.valid() || ftruncate(file.get(), static_cast<off_t>(bytes)) != 0 ||
      fcntl(file.get(), F_ADD_SEALS, kSeals) != 0) {
    const int reason = errno;
    Discharge(bytes);
    return Status::Exhausted("software GPU {}: the host cannot provide {} bytes of memory: {}",
                             device_, bytes, std::strerror(reason));
  }
  return std::make_shared<PhysicalAllocation>(shared_from_this(), bytes, std::move(file), true);
}

Result<std::shared_ptr<PhysicalAllocation>> PhysicalMemory::Import(int fd) {
  UniqueFd file(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  struct stat status {};
  if (!file.valid() || fstat(file.get(), &status) != 0)
    return Status::Invalid("software GPU {}: descriptor {} is not open", device_, fd);
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  if (fcntl(file.get(), F_GET_SEALS) != kSeals || bytes == 0 || bytes % kMemoryGranularity != 0)
    return Status::Invalid("software GPU {}: descriptor {} is not memory of a software GPU",
                           device_, fd);
  return std::make_shared<PhysicalAllocation>(shared_from_this(), bytes, std::move(file), false);
}

void PhysicalMemory::Release(const std::vector<PhysicalAllocation::Extent>& extents) {
  // Frees the pages first: the next owner of the extents must read zeros.
  for (const auto& extent : extents) {
    if (fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  static_cast<off_t>(extent.offset), static_cast<off_t>(extent.bytes)) != 0) {
      LogWarn("software GPU {}: freed memory is not returned to the host: {}", device_,
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
