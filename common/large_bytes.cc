#include "common/large_bytes.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

#include "common/round_up.h"

namespace cuspan {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

}  // namespace

LargeBytes::LargeBytes(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  const bool huge = bytes >= 2 * kHugePage;
  memory_.reset(static_cast<std::byte*>(
      huge ? std::aligned_alloc(kHugePage, RoundUp(bytes, kHugePage)) : std::malloc(bytes)));
  if (memory_ == nullptr) throw std::bad_alloc();
  if (huge) ::madvise(memory_.get(), RoundUp(bytes, kHugePage), MADV_HUGEPAGE);
}

LargeBytes::LargeBytes(std::span<const std::byte> copied) : LargeBytes(copied.size()) {
  std::copy(copied.begin(), copied.end(), memory_.get());
}

}  // namespace cuspan
