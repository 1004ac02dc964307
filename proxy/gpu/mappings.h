// Device memory behind parts of the window.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "proxy/gpu/device.h"

namespace cuspan::proxy {

// Threads: one at a time. What is still mapped at the end is given back.
class Mappings {
 public:
  Mappings(const Driver& driver, const Device& device) : driver_(driver), device_(device) {}
  Mappings(const Mappings&) = delete;
  ~Mappings();

  // Backs [address, address + bytes) with new memory that the device may read
  // and write. CUDA_ERROR_ALREADY_MAPPED when it meets an earlier mapping; otherwise as the driver says.
  CUresult Map(std::uint64_t address, std::uint64_t bytes);
  // Undoes exactly one Map; CUDA_ERROR_INVALID_VALUE when there was none such.
  CUresult Unmap(std::uint64_t address, std::uint64_t bytes);

 private:
  bool Meets(std::uint64_t address, std::uint64_t bytes) const;

  const Driver& driver_;
  const Device& device_;
  // By address: bytes and memory.
  std::map<std::uint64_t, std::pair<std::uint64_t, CUmemGenericAllocationHandle>> mapped_;
};

}  // namespace cuspan::proxy
