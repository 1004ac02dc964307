#include "interpose/client/base/handles.h"

#include <atomic>

namespace cuspan {

std::uint64_t NextHandle() {
  // First value: above the addresses of user space (2^47). Steps of 16 keep the low bits free.
  static std::atomic<std::uint64_t> next{0x6375'0000'0000'0010};
  return next.fetch_add(0x10, std::memory_order_relaxed);
}

}  // namespace cuspan
