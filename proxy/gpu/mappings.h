// Memory behind parts of the window and of the shared region.
#pragma once

#include <cstdint>
#include <map>

#include "common/mutex.h"
#include "proxy/gpu/device.h"

namespace cuspan::proxy {

// Threads: one at a time; Export: any. What is still mapped at the end is given back.
class Mappings {
 public:
  // Of what Export makes to try.
  static constexpr std::uint64_t kTrialBytes = 2 << 20;

  Mappings(const Driver& driver, const Device& device) : driver_(driver), device_(device) {}
  Mappings(const Mappings&) = delete;
  ~Mappings();

  // Backs [address, address + bytes) with new memory that the device may read
  // and write; in a shared region that has a file, with the file's. CUDA_ERROR_ALREADY_MAPPED when
  // it meets an earlier mapping; otherwise as the driver says.
  CUresult Map(std::uint64_t address, std::uint64_t bytes);
  // Undoes exactly one Map; CUDA_ERROR_INVALID_VALUE when there was none such.
  CUresult Unmap(std::uint64_t address, std::uint64_t bytes);
  // The file behind exactly one Map of device memory, by which another process of this node can
  // have it, too; of 0 bytes at 0: of new memory of kTrialBytes, to see whether it can.
  CUresult Export(std::uint64_t address, std::uint64_t bytes, UniqueFd* file);

 private:
  // A part of the shared region's file: mapped and pinned for the device, at the same address.
  CUresult MapFile(std::uint64_t address, std::uint64_t bytes);
  CUresult UnmapFile(std::uint64_t address, std::uint64_t bytes);
  bool IsFile(std::uint64_t address, std::uint64_t bytes) const {
    return device_.InFile(address, bytes);
  }
  bool Meets(std::uint64_t address, std::uint64_t bytes) const;

  const Driver& driver_;
  const Device& device_;
  mutable Mutex mutex_;
  struct Mapped {
    std::uint64_t bytes = 0;
    CUmemGenericAllocationHandle memory = 0;
    MemoryAccount::Taken taken;
  };
  std::map<std::uint64_t, Mapped> mapped_ CUSPAN_GUARDED_BY(mutex_);  // By address.
};

}  // namespace cuspan::proxy
