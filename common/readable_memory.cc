#include "common/readable_memory.h"

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <memory>

namespace cuspan {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::size_t kPagesACall = 1024;  // IOV_MAX.

}  // namespace

bool IsReadable(const void* at, std::uint64_t bytes) {
  if (bytes == 0) return true;
  const auto first = reinterpret_cast<std::uintptr_t>(at);
  const std::uint64_t last = first + (bytes - 1);
  if (first == 0 || last < first) return false;
  // One byte of each page is read.
  const pid_t self = ::getpid();
  // Heap memory: stacks may be small.
  const auto read = std::make_unique_for_overwrite<std::byte[]>(kPagesACall);
  const auto pages = std::make_unique_for_overwrite<iovec[]>(kPagesACall);
  std::uint64_t next = first;
  for (bool more = true; more;) {
    std::size_t count = 0;
    while (more && count < kPagesACall) {
      pages[count++] = {reinterpret_cast<void*>(next), 1};
      next = (next / kPage + 1) * kPage;
      more = next != 0 && next <= last;
    }
    const iovec here{read.get(), count};
    const ssize_t got = ::process_vm_readv(self, &here, 1, pages.get(), count, 0);
    if (got < 0 && errno != EFAULT) return true;
    if (got != static_cast<ssize_t>(count)) return false;
  }
  return true;
}

}  // namespace cuspan
