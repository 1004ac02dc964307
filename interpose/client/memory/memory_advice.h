// Advice of the program about the use of its managed memory. It has one effect only: the program
// can query it.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <set>

#include "common/mutex.h"

namespace cuspan {

// Threads: any.
class MemoryAdvice {
 public:
  struct Location {
    int type = CU_MEM_LOCATION_TYPE_INVALID;  // A CUmemLocationType.
    int id = 0;
    bool operator==(const Location&) const = default;
  };
  struct Entry {
    bool read_mostly = false;
    Location preferred;
    Location prefetched;
    std::set<int> accessed_by;  // Devices; CU_DEVICE_CPU for the host.
    bool operator==(const Entry&) const = default;
  };

  void Advise(std::uint64_t address, std::uint64_t bytes, CUmem_advise advice,
              const Location& location);
  void Prefetched(std::uint64_t address, std::uint64_t bytes, const Location& location);
  // Returns advice common to all of the range. If parts differ, the default applies.
  Entry Common(std::uint64_t address, std::uint64_t bytes) const;
  // Called when the memory is freed.
  void Forget(std::uint64_t address, std::uint64_t bytes);

 private:
  // Makes `address` the start of an entry.
  void Split(std::uint64_t address) CUSPAN_REQUIRES(mutex_);
  template <typename Use>
  void ForRange(std::uint64_t address, std::uint64_t bytes, Use&& use) CUSPAN_REQUIRES(mutex_);

  mutable Mutex mutex_;
  // Keyed by start; each extends to the next.
  std::map<std::uint64_t, Entry> entries_ CUSPAN_GUARDED_BY(mutex_){{0, {}}};
};

}  // namespace cuspan
