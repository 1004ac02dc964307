// A communicator's reductions made by the program (ncclRedOpCreatePreMulSum).
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "common/mutex.h"
#include "protocol/nccl/nccl.h"

namespace cuspan {

// Threads: any.
class Reductions {
 public:
  // Returns the number of a new reduction of elements of `type`, beyond NCCL's own.
  std::uint32_t Add(int type);
  // False if the program has made no such reduction, or has destroyed it.
  bool Remove(std::uint32_t number);
  // True for NCCL's own reductions, and for existing ones of the program for elements of `type`.
  bool Has(int number, int type) const;
  // Marks the reduction as used by graphs: it lives as long as the communicator.
  void Capture(std::uint32_t number);
  bool IsCaptured(std::uint32_t number) const;

 private:
  mutable Mutex mutex_;
  std::map<std::uint32_t, int> types_ CUSPAN_GUARDED_BY(mutex_);  // Keyed by number.
  std::set<std::uint32_t> captured_ CUSPAN_GUARDED_BY(mutex_);
  std::uint32_t next_ CUSPAN_GUARDED_BY(mutex_) = nccl::kReduceOps;
};

}  // namespace cuspan
