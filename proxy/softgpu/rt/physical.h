// Memory of a device: an in-memory file divided into allocations. The host provides pages on first
// access, and gets them back when an allocation is freed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "common/status.h"
#include "common/unique_fd.h"

namespace cuspan::softgpu {

inline constexpr std::uint64_t kMemoryGranularity = std::uint64_t{2} << 20;

class PhysicalMemory;

// A part of a device's memory, freed when destroyed. Initially zero.
class PhysicalAllocation {
 public:
  struct Extent {  // [offset, offset + bytes) of the device's file.
    std::uint64_t offset;
    std::uint64_t bytes;
  };

  PhysicalAllocation(std::shared_ptr<PhysicalMemory> memory, std::uint64_t bytes,
                     std::vector<Extent> extents)
      : memory_(std::move(memory)), bytes_(bytes), extents_(std::move(extents)) {}
  // Allocation with its own file, shareable with other processes. `charged`: counted as this
  // device's memory.
  PhysicalAllocation(std::shared_ptr<PhysicalMemory> memory, std::uint64_t bytes, UniqueFd own_file,
                     bool charged)
      : memory_(std::move(memory)),
        bytes_(bytes),
        extents_{{0, bytes}},
        own_file_(std::move(own_file)),
        charged_(charged) {}
  ~PhysicalAllocation();
  PhysicalAllocation(const PhysicalAllocation&) = delete;
  PhysicalAllocation& operator=(const PhysicalAllocation&) = delete;

  std::uint64_t bytes() const { return bytes_; }
  const std::vector<Extent>& extents() const { return extents_; }
  int device() const;
  int fd() const;
  bool shareable() const { return own_file_.valid(); }

 private:
  const std::shared_ptr<PhysicalMemory> memory_;
  const std::uint64_t bytes_;
  const std::vector<Extent> extents_;
  const UniqueFd own_file_;
  const bool charged_ = false;
};

// Threads: any.
class PhysicalMemory : public std::enable_shared_from_this<PhysicalMemory> {
 public:
  // Creates the memory of `device`; `bytes` is rounded down to the granularity. kExhausted if the
  // host provides no file.
  static Result<std::shared_ptr<PhysicalMemory>> Create(int device, std::uint64_t bytes);

  // `bytes` must be a multiple of the granularity. kExhausted if less is free.
  Result<std::shared_ptr<PhysicalAllocation>> Allocate(std::uint64_t bytes);
  // Same, in a file of its own, for sharing with other processes.
  Result<std::shared_ptr<PhysicalAllocation>> AllocateShareable(std::uint64_t bytes);
  // Imports memory of AllocateShareable, from this process or another, by its file descriptor. It
  // counts as memory of its creator. kInvalid for any other `fd`.
  Result<std::shared_ptr<PhysicalAllocation>> Import(int fd);
  // Counts memory outside the file (module variables); false if less is free.
  bool Charge(std::uint64_t bytes);
  void Discharge(std::uint64_t bytes);

  std::uint64_t total() const { return total_; }
  std::uint64_t free() const;
  int device() const { return device_; }
  int fd() const { return file_.get(); }

 private:
  friend class PhysicalAllocation;
  PhysicalMemory(int device, std::uint64_t bytes, UniqueFd file);
  void Release(const std::vector<PhysicalAllocation::Extent>& extents);

  const int device_;
  const std::uint64_t total_;
  const UniqueFd file_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> holes_;  // Unused parts of the file: offset, bytes.
  std::uint64_t free_;
};

}  // namespace cuspan::softgpu
