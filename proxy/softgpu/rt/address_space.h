// Device addresses of all software GPUs: reserved ranges of the process's
// address space, memory mapped into them, and what else counts as device
// memory (module variables). A device address is the host address of the same
// bytes, so kernels use it as it is.
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

// Any thread calls. Errors are the driver's.
class AddressSpace {
 public:
  AddressSpace() = default;
  ~AddressSpace();
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  // Reserves `bytes` (a multiple of the granularity) aligned to `alignment` (0
  // or a power of two), at `hint` if it is not 0 and that range is free, else
  // anywhere. Nothing may touch the range before something is mapped there.
  CUresult Reserve(std::uint64_t bytes, std::uint64_t alignment, std::uint64_t hint,
                   std::uint64_t* address);
  // The whole of a reservation in which nothing is mapped.
  CUresult Free(std::uint64_t address, std::uint64_t bytes);

  // Maps all of `memory` at `address`, in reserved space where nothing is
  // mapped. No device may access it before SetAccess. Parts of an allocation
  // can not be mapped: CUDA_ERROR_NOT_SUPPORTED, as with the driver.
  CUresult Map(std::uint64_t address, std::uint64_t bytes,
               std::shared_ptr<PhysicalAllocation> memory);
  // Unmaps what is mapped in [address, address + bytes), which must lie in reserved
  // space and cut no mapping in two.
  CUresult Unmap(std::uint64_t address, std::uint64_t bytes);
  // What `device` may do there, for all mappings of the range, which must be whole.
  CUresult SetAccess(std::uint64_t address, std::uint64_t bytes, int device, bool read, bool write);

  // Adds or removes memory that is not mapped by Map but is device memory.
  void AddFixed(std::uint64_t address, std::uint64_t bytes, int device);
  void RemoveFixed(std::uint64_t address);
  // Memory of the host that all devices may read and write; ends with RemoveFixed.
  void AddHost(std::uint64_t address, std::uint64_t bytes);

  // Whether all of [address, address + bytes) is device memory that `device` may
  // read (and write, if `write`).
  bool Accessible(std::uint64_t address, std::uint64_t bytes, int device, bool write) const;
  // For messages: where `address` lies relative to the nearest allocation before it.
  std::string Describe(std::uint64_t address) const;
  // Whether `address` lies in device memory or in space reserved for it.
  bool IsDevice(std::uint64_t address) const;

 private:
  struct Mapping {
    std::uint64_t bytes;
    std::shared_ptr<PhysicalAllocation> memory;  // Null for fixed memory.
    std::uint64_t readers = 0, writers = 0;      // One bit for each device.
  };
  using Mappings = std::map<std::uint64_t, Mapping>;

  // Whether the range lies in one reservation.
  bool Reserved(std::uint64_t address, std::uint64_t bytes) const;

  // The mappings that make up [address, address + bytes) exactly; false if there are none such.
  bool Whole(std::uint64_t address, std::uint64_t bytes, Mappings::iterator* first,
             Mappings::iterator* last);

  mutable std::shared_mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> reservations_;  // Address, bytes.
  Mappings mappings_;
};

}  // namespace cuspan::softgpu
