// Sets memory of devices to a value (cudaMemset).
#pragma once

#include <cuda.h>

#include <cstdint>

#include "interpose/client/address_space.h"
#include "interpose/client/events.h"

namespace cuspan {

// Threads: any except the receiver thread. Results are the driver's; CUDA_ERROR_INVALID_VALUE for
// memory not allocated. Never waits for a set: neither form does in CUDA.
class Sets {
 public:
  Sets(AddressSpace* addresses, Events* events) : addresses_(*addresses), events_(*events) {}
  Sets(const Sets&) = delete;

  // Sets elements of 1, 2 or 4 bytes.
  CUresult Elements(std::uint64_t address, std::uint32_t value, std::uint32_t element_bytes,
                    std::uint64_t elements, const StreamTarget& target);
  // Rows of bytes.
  struct RowsSet {
    std::uint64_t address;
    std::uint64_t pitch;
    std::uint64_t width;
    std::uint64_t rows;
    std::uint32_t value;
  };
  CUresult Rows(const RowsSet& set, const StreamTarget& target);

 private:
  AddressSpace& addresses_;
  Events& events_;
};

}  // namespace cuspan
