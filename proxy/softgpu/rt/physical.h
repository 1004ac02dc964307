// A device's memory: one file in memory, of which allocations get pieces. The
// host provides pages when they are touched and takes them back when an
// allocation is freed.
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

// A part of a device's memory, given back when destroyed. Contents are zero at first.
class PhysicalAllocation {
 public:
  struct Extent {  // [offset, offset + bytes) of the device's file.
    std::uint64_t offset;
    std::uint64_t bytes;
  };

  PhysicalAllocation(std::shared_ptr<PhysicalMemory> memory, std::uint64_t bytes,
                     std::vector<Extent> extents)
      : memory_(std::move(memory)), bytes_(bytes), extents_(std::move(extents)) {}
  // With a file of its own, which other processes may have as well. `charged`: counts as this
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

// Any thread calls.
class PhysicalMemory : public std::enable_shared_from_this<PhysicalMemory> {
 public:
  // Memory of device `device`; `bytes` is rounded down to the granularity.
  // Fails with kExhausted when the host gives no file.
  static Result<std::shared_ptr<PhysicalMemory>> Create(int device, std::uint64_t bytes);

  // `bytes` must be a multiple of the granularity. kExhausted when so much is not free.
  Result<std::shared_ptr<PhysicalAllocation>> Allocate(std::uint64_t bytes);
  // The same, in a file of its own, which can be given to other processes.
  Result<std::shared_ptr<PhysicalAllocation>> AllocateShareable(std::uint64_t bytes);
  // What AllocateShareable made, in this process or another, by a descriptor of its file; counts
  // as its maker's memory. kInvalid when `fd` is something else.
  Result<std::shared_ptr<PhysicalAllocation>> Import(int fd);
  // Memory that does not come from the file (module variables) but counts;
  // false when so much is not free.
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
