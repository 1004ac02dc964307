// Variables of modules in device memory.
#pragma once

#include <cstdint>
#include <map>

#include "common/mutex.h"

namespace cuspan::proxy {

// Variables found by the client and accessible to its copies. Threads: any.
class VariableRanges {
 public:
  void Add(std::uint64_t module, std::uint64_t address, std::uint64_t bytes);
  void RemoveModule(std::uint64_t module);
  bool Contains(std::uint64_t address, std::uint64_t bytes) const;

 private:
  struct Range {
    std::uint64_t bytes;
    std::uint64_t module;
  };
  mutable Mutex mutex_;
  std::map<std::uint64_t, Range> ranges_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan::proxy
