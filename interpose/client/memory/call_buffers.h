// Buffers of the program's system calls. The kernel's accesses raise no signal. Our memory is
// therefore prepared before the call, and passed to the kernel by another address if needed
// (faults.h).
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <vector>

#include "interpose/client/memory/addresses.h"
#include "interpose/client/memory/faults.h"

namespace cuspan {

// Calls call(buffers) with the addresses for the kernel. written(result) returns the number of
// bytes written, from the first buffer on; 0 for calls only reading memory. If a launch in another
// thread takes a buffer away meanwhile, the call is repeated a few times.
template <typename Call, typename Written>
auto WithBuffers(const struct iovec* buffers, std::size_t count, bool write, Call&& call,
                 Written&& written) {
  const auto ours = [](const struct iovec& buffer) {
    return IsFaultMemory(AddressOf(buffer.iov_base));
  };
  if (buffers == nullptr || std::none_of(buffers, buffers + count, ours)) [[likely]]
    return call(buffers);
  constexpr int kMaxAttempts = 8;
  for (int attempt = 0;; ++attempt) {
    std::vector<struct iovec> there(buffers, buffers + count);
    for (struct iovec& buffer : there) {
      const std::uint64_t address = BeginCall(AddressOf(buffer.iov_base), buffer.iov_len, write);
      if (address != 0) buffer.iov_base = PointerTo(address);
    }
    const auto result = call(static_cast<const struct iovec*>(there.data()));
    const int error = errno;
    std::size_t left = write ? written(result) : 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t bytes = std::min(left, buffers[i].iov_len);
      left -= bytes;
      if (there[i].iov_base != buffers[i].iov_base) EndCall(AddressOf(buffers[i].iov_base), bytes);
    }
    errno = error;
    if (result != static_cast<decltype(result)>(-1) || error != EFAULT || attempt == kMaxAttempts)
      return result;
  }
}

// Same for a call returning the number of bytes read or written.
template <typename Call>
ssize_t WithVector(const struct iovec* buffers, int count, bool write, Call&& call) {
  return WithBuffers(
      buffers, static_cast<std::size_t>(std::max(count, 0)), write, call,
      [](ssize_t result) { return static_cast<std::size_t>(std::max<ssize_t>(result, 0)); });
}

// Same for one buffer.
template <typename Call>
ssize_t WithBuffer(const void* buffer, std::size_t bytes, bool write, Call&& call) {
  const struct iovec one {
    const_cast<void*>(buffer), bytes
  };
  return WithVector(&one, 1, write,
                    [&](const struct iovec* there) { return call(there->iov_base); });
}

}  // namespace cuspan
