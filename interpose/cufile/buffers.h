// Memory registered with cuFile. Registering has no effect on reads and writes.
#pragma once

#include <cstdint>
#include <map>

#include "common/mutex.h"
#include "interpose/client/base/context.h"
#include "interpose/cufile/results.h"

namespace cuspan::cufile {

// Threads: any. A table of the session.
class Buffers final : public ContextTable {
 public:
  struct Range {
    std::uint64_t bytes = 0;
    int device = -1;               // -1: memory of the program.
    std::uint64_t connection = 0;  // ContextConnection::number() of a device's memory.
  };
  // False if the address is registered already.
  bool Add(std::uint64_t base, const Range& range);
  // False if it is not registered.
  bool Remove(std::uint64_t base, Range* range);
  void Clear();
  // False if a range is registered at this address, and [offset, offset + bytes) leaves it.
  bool Allows(std::uint64_t base, std::int64_t offset, std::uint64_t bytes) const;

  void Forget(const ContextConnection& ended) override;

 private:
  mutable Mutex mutex_;
  std::map<std::uint64_t, Range> ranges_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan::cufile
