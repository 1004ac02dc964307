// Functions overriding the C library's own in the program. Some pass memory to the kernel, without
// a signal on its accesses. Others would replace our handler of SIGSEGV. See faults.h. For other
// memory, each costs one comparison.
//
// Only in the library loaded into programs, not in tests of its parts.
#include <signal.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "interpose/client/base/before_libc.h"
#include "interpose/client/memory/call_buffers.h"
#include "interpose/client/memory/faults.h"

// Other names of the C library's functions, usable in signal handlers from the first call on.
extern "C" {
ssize_t __read(int fd, void* buffer, size_t bytes);
ssize_t __write(int fd, const void* buffer, size_t bytes);
ssize_t __pread64(int fd, void* buffer, size_t bytes, off64_t offset);
ssize_t __pwrite64(int fd, const void* buffer, size_t bytes, off64_t offset);
int __sigaction(int number, const struct sigaction* action, struct sigaction* old);
}

namespace cuspan {
namespace {

// Types without the attributes of the C library's declarations: templates cannot carry them.
using SignalFunction = sighandler_t(int, sighandler_t);
using MaskFunction = int(int, const sigset_t*, sigset_t*);

bool OurSignal(int number) { return IsFaultSignal(number) && FaultsHandled(); }

sighandler_t SetFaultHandler(int number, sighandler_t handler, int flags) {
  struct sigaction action {};
  struct sigaction old {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  ::sigemptyset(&action.sa_mask);
  ExchangeFaultAction(number, &action, &old);
  return old.sa_handler;
}

// Returns the bytes written by a read of items: a part of an item may follow the last whole one.
size_t BytesOfItems(size_t items, size_t size, size_t count) {
  return std::min(items + 1, count) * size;
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the functions below are the C library's.

CUSPAN_BEFORE_LIBC ssize_t read(int fd, void* buffer, size_t bytes) {
  return WithBuffer(buffer, bytes, true, [&](void* there) { return __read(fd, there, bytes); });
}
CUSPAN_BEFORE_LIBC ssize_t write(int fd, const void* buffer, size_t bytes) {
  return WithBuffer(buffer, bytes, false, [&](void* there) { return __write(fd, there, bytes); });
}
CUSPAN_BEFORE_LIBC ssize_t pread64(int fd, void* buffer, size_t bytes, off64_t offset) {
  return WithBuffer(buffer, bytes, true,
                    [&](void* there) { return __pread64(fd, there, bytes, offset); });
}
CUSPAN_BEFORE_LIBC ssize_t pread(int fd, void* buffer, size_t bytes, off_t offset) {
  return WithBuffer(buffer, bytes, true,
                    [&](void* there) { return __pread64(fd, there, bytes, offset); });
}
CUSPAN_BEFORE_LIBC ssize_t pwrite64(int fd, const void* buffer, size_t bytes, off64_t offset) {
  return WithBuffer(buffer, bytes, false,
                    [&](void* there) { return __pwrite64(fd, there, bytes, offset); });
}
CUSPAN_BEFORE_LIBC ssize_t pwrite(int fd, const void* buffer, size_t bytes, off_t offset) {
  return WithBuffer(buffer, bytes, false,
                    [&](void* there) { return __pwrite64(fd, there, bytes, offset); });
}
CUSPAN_BEFORE_LIBC ssize_t recv(int fd, void* buffer, size_t bytes, int flags) {
  static constinit std::atomic<ssize_t (*)(int fd, void* buffer, size_t bytes, int flags)> next{
      nullptr};
  return WithBuffer(buffer, bytes, true,
                    [&](void* there) { return Next(next, "recv")(fd, there, bytes, flags); });
}
CUSPAN_BEFORE_LIBC ssize_t send(int fd, const void* buffer, size_t bytes, int flags) {
  static constinit std::atomic<ssize_t (*)(int fd, const void* buffer, size_t bytes, int flags)>
      next{nullptr};
  return WithBuffer(buffer, bytes, false,
                    [&](void* there) { return Next(next, "send")(fd, there, bytes, flags); });
}
CUSPAN_BEFORE_LIBC ssize_t recvfrom(int fd, void* buffer, size_t bytes, int flags,
                                    struct sockaddr* from, socklen_t* room) {
  static constinit std::atomic<ssize_t (*)(int fd, void* buffer, size_t bytes, int flags,
                                           struct sockaddr* from, socklen_t* room)>
      next{nullptr};
  return WithBuffer(buffer, bytes, true, [&](void* there) {
    return Next(next, "recvfrom")(fd, there, bytes, flags, from, room);
  });
}
CUSPAN_BEFORE_LIBC ssize_t sendto(int fd, const void* buffer, size_t bytes, int flags,
                                  const struct sockaddr* to, socklen_t room) {
  static constinit std::atomic<ssize_t (*)(int fd, const void* buffer, size_t bytes, int flags,
                                           const struct sockaddr* to, socklen_t room)>
      next{nullptr};
  return WithBuffer(buffer, bytes, false, [&](void* there) {
    return Next(next, "sendto")(fd, there, bytes, flags, to, room);
  });
}
CUSPAN_BEFORE_LIBC ssize_t getrandom(void* buffer, size_t bytes, unsigned flags) {
  static constinit std::atomic<ssize_t (*)(void* buffer, size_t bytes, unsigned flags)> next{
      nullptr};
  return WithBuffer(buffer, bytes, true,
                    [&](void* there) { return Next(next, "getrandom")(there, bytes, flags); });
}
// Variants called by programs compiled with _FORTIFY_SOURCE.
CUSPAN_BEFORE_LIBC ssize_t __read_chk(int fd, void* buffer, size_t bytes, size_t room) {
  static constinit std::atomic<ssize_t (*)(int fd, void* buffer, size_t bytes, size_t room)> next{
      nullptr};
  return WithBuffer(buffer, bytes, true,
                    [&](void* there) { return Next(next, "__read_chk")(fd, there, bytes, room); });
}
CUSPAN_BEFORE_LIBC ssize_t __pread_chk(int fd, void* buffer, size_t bytes, off_t offset,
                                       size_t room) {
  static constinit std::atomic<ssize_t (*)(int fd, void* buffer, size_t bytes, off_t offset,
                                           size_t room)>
      next{nullptr};
  return WithBuffer(buffer, bytes, true, [&](void* there) {
    return Next(next, "__pread_chk")(fd, there, bytes, offset, room);
  });
}
CUSPAN_BEFORE_LIBC ssize_t __pread64_chk(int fd, void* buffer, size_t bytes, off64_t offset,
                                         size_t room) {
  static constinit std::atomic<ssize_t (*)(int fd, void* buffer, size_t bytes, off64_t offset,
                                           size_t room)>
      next{nullptr};
  return WithBuffer(buffer, bytes, true, [&](void* there) {
    return Next(next, "__pread64_chk")(fd, there, bytes, offset, room);
  });
}
CUSPAN_BEFORE_LIBC ssize_t __recv_chk(int fd, void* buffer, size_t bytes, size_t room, int flags) {
  static constinit std::atomic<ssize_t (*)(int fd, void* buffer, size_t bytes, size_t room,
                                           int flags)>
      next{nullptr};
  return WithBuffer(buffer, bytes, true, [&](void* there) {
    return Next(next, "__recv_chk")(fd, there, bytes, room, flags);
  });
}
CUSPAN_BEFORE_LIBC ssize_t __recvfrom_chk(int fd, void* buffer, size_t bytes, size_t room,
                                          int flags, struct sockaddr* from,
                                          socklen_t* address_room) {
  static constinit std::atomic<ssize_t (*)(int fd, void* buffer, size_t bytes, size_t room,
                                           int flags, struct sockaddr* from,
                                           socklen_t* address_room)>
      next{nullptr};
  return WithBuffer(buffer, bytes, true, [&](void* there) {
    return Next(next, "__recvfrom_chk")(fd, there, bytes, room, flags, from, address_room);
  });
}

// Calls with several buffers.
CUSPAN_BEFORE_LIBC ssize_t readv(int fd, const struct iovec* vector, int count) {
  static constinit std::atomic<ssize_t (*)(int, const struct iovec*, int)> next{nullptr};
  return WithVector(vector, count, true, [&](const struct iovec* there) {
    return Next(next, "readv")(fd, there, count);
  });
}
CUSPAN_BEFORE_LIBC ssize_t writev(int fd, const struct iovec* vector, int count) {
  static constinit std::atomic<ssize_t (*)(int, const struct iovec*, int)> next{nullptr};
  return WithVector(vector, count, false, [&](const struct iovec* there) {
    return Next(next, "writev")(fd, there, count);
  });
}
CUSPAN_BEFORE_LIBC ssize_t preadv(int fd, const struct iovec* vector, int count, off_t offset) {
  static constinit std::atomic<ssize_t (*)(int, const struct iovec*, int, off_t)> next{nullptr};
  return WithVector(vector, count, true, [&](const struct iovec* there) {
    return Next(next, "preadv")(fd, there, count, offset);
  });
}
CUSPAN_BEFORE_LIBC ssize_t preadv64(int fd, const struct iovec* vector, int count, off64_t offset) {
  static constinit std::atomic<ssize_t (*)(int, const struct iovec*, int, off64_t)> next{nullptr};
  return WithVector(vector, count, true, [&](const struct iovec* there) {
    return Next(next, "preadv64")(fd, there, count, offset);
  });
}
CUSPAN_BEFORE_LIBC ssize_t pwritev(int fd, const struct iovec* vector, int count, off_t offset) {
  static constinit std::atomic<ssize_t (*)(int, const struct iovec*, int, off_t)> next{nullptr};
  return WithVector(vector, count, false, [&](const struct iovec* there) {
    return Next(next, "pwritev")(fd, there, count, offset);
  });
}
CUSPAN_BEFORE_LIBC ssize_t pwritev64(int fd, const struct iovec* vector, int count,
                                     off64_t offset) {
  static constinit std::atomic<ssize_t (*)(int, const struct iovec*, int, off64_t)> next{nullptr};
  return WithVector(vector, count, false, [&](const struct iovec* there) {
    return Next(next, "pwritev64")(fd, there, count, offset);
  });
}
CUSPAN_BEFORE_LIBC ssize_t preadv2(int fd, const struct iovec* vector, int count, off_t offset,
                                   int flags) {
  static constinit std::atomic<ssize_t (*)(int, const struct iovec*, int, off_t, int)> next{
      nullptr};
  return WithVector(vector, count, true, [&](const struct iovec* there) {
    return Next(next, "preadv2")(fd, there, count, offset, flags);
  });
}
CUSPAN_BEFORE_LIBC ssize_t preadv64v2(int fd, const struct iovec* vector, int count, off64_t offset,
                                      int flags) {
  static constinit std::atomic<ssize_t (*)(int, const struct iovec*, int, off64_t, int)> next{
      nullptr};
  return WithVector(vector, count, true, [&](const struct iovec* there) {
    return Next(next, "preadv64v2")(fd, there, count, offset, flags);
  });
}
CUSPAN_BEFORE_LIBC ssize_t pwritev2(int fd, const struct iovec* vector, int count, off_t offset,
                                    int flags) {
  static constinit std::atomic<ssize_t (*)(int, const struct iovec*, int, off_t, int)> next{
      nullptr};
  return WithVector(vector, count, false, [&](const struct iovec* there) {
    return Next(next, "pwritev2")(fd, there, count, offset, flags);
  });
}
CUSPAN_BEFORE_LIBC ssize_t pwritev64v2(int fd, const struct iovec* vector, int count,
                                       off64_t offset, int flags) {
  static constinit std::atomic<ssize_t (*)(int, const struct iovec*, int, off64_t, int)> next{
      nullptr};
  return WithVector(vector, count, false, [&](const struct iovec* there) {
    return Next(next, "pwritev64v2")(fd, there, count, offset, flags);
  });
}
CUSPAN_BEFORE_LIBC ssize_t recvmsg(int fd, struct msghdr* message, int flags) {
  static constinit std::atomic<ssize_t (*)(int, struct msghdr*, int)> next{nullptr};
  if (message == nullptr) return Next(next, "recvmsg")(fd, message, flags);
  struct iovec* const vector = message->msg_iov;
  const ssize_t result = WithVector(vector, static_cast<int>(message->msg_iovlen), true,
                                    [&](const struct iovec* there) {
                                      message->msg_iov = const_cast<struct iovec*>(there);
                                      return Next(next, "recvmsg")(fd, message, flags);
                                    });
  message->msg_iov = vector;
  return result;
}
CUSPAN_BEFORE_LIBC ssize_t sendmsg(int fd, const struct msghdr* message, int flags) {
  static constinit std::atomic<ssize_t (*)(int, const struct msghdr*, int)> next{nullptr};
  if (message == nullptr) return Next(next, "sendmsg")(fd, message, flags);
  return WithVector(message->msg_iov, static_cast<int>(message->msg_iovlen), false,
                    [&](const struct iovec* there) {
                      struct msghdr sent = *message;
                      sent.msg_iov = const_cast<struct iovec*>(there);
                      return Next(next, "sendmsg")(fd, &sent, flags);
                    });
}
CUSPAN_BEFORE_LIBC int getentropy(void* buffer, size_t bytes) {
  static constinit std::atomic<int (*)(void*, size_t)> next{nullptr};
  const struct iovec one {
    buffer, bytes
  };
  return WithBuffers(
      &one, 1, true,
      [&](const struct iovec* there) { return Next(next, "getentropy")(there->iov_base, bytes); },
      [&](int result) { return result == 0 ? bytes : 0; });
}

// The C library's buffered input and output pass large blocks directly to the kernel.
CUSPAN_BEFORE_LIBC size_t fread(void* buffer, size_t size, size_t count, FILE* file) {
  static constinit std::atomic<size_t (*)(void* buffer, size_t size, size_t count, FILE* file)>
      next{nullptr};
  const struct iovec one {
    buffer, size* count
  };
  return WithBuffers(
      &one, 1, true,
      [&](const struct iovec* there) {
        return Next(next, "fread")(there->iov_base, size, count, file);
      },
      [&](size_t items) { return BytesOfItems(items, size, count); });
}
CUSPAN_BEFORE_LIBC size_t fread_unlocked(void* buffer, size_t size, size_t count, FILE* file) {
  static constinit std::atomic<size_t (*)(void* buffer, size_t size, size_t count, FILE* file)>
      next{nullptr};
  const struct iovec one {
    buffer, size* count
  };
  return WithBuffers(
      &one, 1, true,
      [&](const struct iovec* there) {
        return Next(next, "fread_unlocked")(there->iov_base, size, count, file);
      },
      [&](size_t items) { return BytesOfItems(items, size, count); });
}
CUSPAN_BEFORE_LIBC size_t __fread_chk(void* buffer, size_t room, size_t size, size_t count,
                                      FILE* file) {
  static constinit std::atomic<size_t (*)(void* buffer, size_t room, size_t size, size_t count,
                                          FILE* file)>
      next{nullptr};
  const struct iovec one {
    buffer, size* count
  };
  return WithBuffers(
      &one, 1, true,
      [&](const struct iovec* there) {
        return Next(next, "__fread_chk")(there->iov_base, room, size, count, file);
      },
      [&](size_t items) { return BytesOfItems(items, size, count); });
}
CUSPAN_BEFORE_LIBC size_t fwrite(const void* buffer, size_t size, size_t count, FILE* file) {
  static constinit std::atomic<size_t (*)(const void* buffer, size_t size, size_t count,
                                          FILE* file)>
      next{nullptr};
  const struct iovec one {
    const_cast<void*>(buffer), size* count
  };
  return WithBuffers(
      &one, 1, false,
      [&](const struct iovec* there) {
        return Next(next, "fwrite")(there->iov_base, size, count, file);
      },
      [](size_t) { return size_t{0}; });
}
CUSPAN_BEFORE_LIBC size_t fwrite_unlocked(const void* buffer, size_t size, size_t count,
                                          FILE* file) {
  static constinit std::atomic<size_t (*)(const void* buffer, size_t size, size_t count,
                                          FILE* file)>
      next{nullptr};
  const struct iovec one {
    const_cast<void*>(buffer), size* count
  };
  return WithBuffers(
      &one, 1, false,
      [&](const struct iovec* there) {
        return Next(next, "fwrite_unlocked")(there->iov_base, size, count, file);
      },
      [](size_t) { return size_t{0}; });
}

CUSPAN_BEFORE_LIBC int sigaction(int number, const struct sigaction* action,
                                 struct sigaction* old) noexcept {
  return OurSignal(number) ? ExchangeFaultAction(number, action, old)
                           : __sigaction(number, action, old);
}
CUSPAN_BEFORE_LIBC sighandler_t signal(int number, sighandler_t handler) noexcept {
  static constinit std::atomic<SignalFunction*> next{nullptr};
  return OurSignal(number) ? SetFaultHandler(number, handler, SA_RESTART)
                           : Next(next, "signal")(number, handler);
}
// A blocked SIGSEGV or SIGTRAP would end the program at the next fault of ours.
CUSPAN_BEFORE_LIBC int pthread_sigmask(int how, const sigset_t* set, sigset_t* old) noexcept {
  static constinit std::atomic<MaskFunction*> next{nullptr};
  if (set == nullptr || how == SIG_UNBLOCK || !FaultsHandled())
    return Next(next, "pthread_sigmask")(how, set, old);
  sigset_t open = *set;
  for (const int number : {SIGSEGV, SIGTRAP}) ::sigdelset(&open, number);
  return Next(next, "pthread_sigmask")(how, &open, old);
}
CUSPAN_BEFORE_LIBC int sigprocmask(int how, const sigset_t* set, sigset_t* old) noexcept {
  static constinit std::atomic<MaskFunction*> next{nullptr};
  if (set == nullptr || how == SIG_UNBLOCK || !FaultsHandled())
    return Next(next, "sigprocmask")(how, set, old);
  sigset_t open = *set;
  for (const int number : {SIGSEGV, SIGTRAP}) ::sigdelset(&open, number);
  return Next(next, "sigprocmask")(how, &open, old);
}
