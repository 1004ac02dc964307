// Device addresses of all software GPUs: reserved ranges of the process's address space, memory
// mapped into them, and other device memory (module variables). A device address is the host
// address of the same bytes, so kernels use it directly.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "proxy/softgpu/rt/physical.h"

namespace cuspan::softgpu {

// Threads: any. Errors are the driver's.
class AddressSpace {
 public:
  AddressSpace() = default;
  ~AddressSpace();
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  // Reserves `bytes` (a multiple of the granularity), aligned to `alignment` (0 or a power of two).
  // If `hint` is not 0 and free, reserves there, else anywhere. The range is inaccessible until
  // memory is mapped.
  CUresult Reserve(std::uint64_t bytes, std::uint64_t alignment, std::uint64_t hint,
                   std::uint64_t* address);
  // Frees a whole reservation without mappings.
  CUresult Free(std::uint64_t address, std::uint64_t bytes);

  // Maps all of `memory` at `address`, in reserved space without mappings. No device may access it
  // before SetAccess. Parts of an allocation cannot be mapped: CUDA_ERROR_NOT_SUPPORTED, as with
  // the driver.
  CUresult Map(std::uint64_t address, std::uint64_t bytes,
               std::shared_ptr<PhysicalAllocation> memory);
  // Unmaps all of [address, address + bytes). The range must be reserved and must not cut a mapping
  // in two.
  CUresult Unmap(std::uint64_t address, std::uint64_t bytes);
  // Sets the access rights of `device` for all mappings of the range. They must be whole.
  CUresult SetAccess(std::uint64_t address, std::uint64_t bytes, int device, bool read, bool write);

  // Adds or removes device memory not mapped by Map.
  void AddFixed(std::uint64_t address, std::uint64_t bytes, int device);
  void RemoveFixed(std::uint64_t address);
  // Adds host memory readable and writable by all devices; removed by RemoveFixed.
  void AddHost(std::uint64_t address, std::uint64_t bytes);

  // True if all of [address, address + bytes) is device memory readable by `device` (or writable,
  // if `write`).
  bool Accessible(std::uint64_t address, std::uint64_t bytes, int device, bool write) const;
  // Position of `address` relative to the nearest allocation before it, for messages.
  std::string Describe(std::uint64_t address) const;
  // True if `address` is in device memory or in space reserved for it.
  bool IsDevice(std::uint64_t address) const;

 private:
  struct Mapping {
    std::uint64_t bytes;
    std::shared_ptr<PhysicalAllocation> memory;  // Null for fixed memory.
    std::uint64_t readers = 0, writers = 0;      // One bit for each device.
  };
  using Mappings = std::map<std::uint64_t, Mapping>;

  // True if the range is in one reservation.
  bool Reserved(std::uint64_t address, std::uint64_t bytes) const;

  // Finds the mappings making up [address, address + bytes) exactly; false without a match.
  bool Whole(std::uint64_t address, std::uint64_t bytes, Mappings::iterator* first,
             Mappings::iterator* last);

  mutable std::shared_mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> reservations_;  // Address to bytes.
  Mappings mappings_;
};

}  // namespace cuspan::softgpu
