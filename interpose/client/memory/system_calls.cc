// Functions of the C library that come before its own in the program: those that hand memory
// to the kernel, whose accesses raise no signal, and those that would replace our
// handler of SIGSEGV. See faults.h. For memory that is not ours each costs one comparison.
//
// Only in the library that is loaded into programs, not in tests of its parts.
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "interpose/client/before_libc.h"
#include "interpose/client/memory/addresses.h"
#include "interpose/client/memory/faults.h"

// Other names of the C library's functions: usable in signal handlers from the first call on.
extern "C" {
ssize_t __read(int fd, void* buffer, size_t bytes);
ssize_t __write(int fd, const void* buffer, size_t bytes);
ssize_t __pread64(int fd, void* buffer, size_t bytes, off64_t offset);
ssize_t __pwrite64(int fd, const void* buffer, size_t bytes, off64_t offset);
int __sigaction(int number, const struct sigaction* action, struct sigaction* old);
}

namespace cuspan {
namespace {

// Without the attributes of the C library's declarations, which templates can not carry.
using VectorFunction = ssize_t(int, const struct iovec*, int);
using ReceiveFunction = ssize_t(int, void*, size_t, int);
using SendFunction = ssize_t(int, const void*, size_t, int);
using ReadFunction = size_t(void*, size_t, size_t, FILE*);
using WriteFunction = size_t(const void*, size_t, size_t, FILE*);
using CheckedReadFunction = ssize_t(int, void*, size_t, size_t);
using CheckedPreadFunction = ssize_t(int, void*, size_t, off64_t, size_t);
using CheckedReceiveFunction = ssize_t(int, void*, size_t, size_t, int);
using CheckedFreadFunction = size_t(void*, size_t, size_t, size_t, FILE*);
using SignalFunction = sighandler_t(int, sighandler_t);
using MaskFunction = int(int, const sigset_t*, sigset_t*);

// Makes the buffer ready and calls. A launch in another thread may take the buffer away in
// between: then once more, a few times.
template <typename Call>
auto WithBuffer(std::uintptr_t buffer, std::size_t bytes, bool write, Call&& call) {
  if (!AdmitSystemCall(buffer, bytes, write)) [[likely]]
    return call();
  for (int attempt = 0;; ++attempt) {
    const auto done = call();
    if (done != -1 || errno != EFAULT || attempt == 8) return done;
    AdmitSystemCall(buffer, bytes, write);
  }
}

template <typename Call>
ssize_t WithBuffers(const struct iovec* vector, int count, bool write, Call&& call) {
  bool ours = false;
  for (int i = 0; vector != nullptr && i < count; ++i)
    ours = AdmitSystemCall(AddressOf(vector[i].iov_base), vector[i].iov_len, write) || ours;
  for (int attempt = 0;; ++attempt) {
    const ssize_t done = call();
    if (!ours || done != -1 || errno != EFAULT || attempt == 8) return done;
    for (int i = 0; i < count; ++i)
      AdmitSystemCall(AddressOf(vector[i].iov_base), vector[i].iov_len, write);
  }
}

bool OurSignal(int number) { return number == SIGSEGV && FaultsHandled(); }

sighandler_t SetSegvHandler(sighandler_t handler, int flags) {
  struct sigaction action {};
  struct sigaction old {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  ::sigemptyset(&action.sa_mask);
  ExchangeSegvAction(&action, &old);
  return old.sa_handler;
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the functions below are the C library's.

CUSPAN_BEFORE_LIBC ssize_t read(int fd, void* buffer, size_t bytes) {
  return WithBuffer(AddressOf(buffer), bytes, true, [&] { return __read(fd, buffer, bytes); });
}
CUSPAN_BEFORE_LIBC ssize_t write(int fd, const void* buffer, size_t bytes) {
  return WithBuffer(AddressOf(buffer), bytes, false, [&] { return __write(fd, buffer, bytes); });
}
CUSPAN_BEFORE_LIBC ssize_t pread64(int fd, void* buffer, size_t bytes, off64_t offset) {
  return WithBuffer(AddressOf(buffer), bytes, true,
                    [&] { return __pread64(fd, buffer, bytes, offset); });
}
CUSPAN_BEFORE_LIBC ssize_t pread(int fd, void* buffer, size_t bytes, off_t offset) {
  return WithBuffer(AddressOf(buffer), bytes, true,
                    [&] { return __pread64(fd, buffer, bytes, offset); });
}
CUSPAN_BEFORE_LIBC ssize_t pwrite64(int fd, const void* buffer, size_t bytes, off64_t offset) {
  return WithBuffer(AddressOf(buffer), bytes, false,
                    [&] { return __pwrite64(fd, buffer, bytes, offset); });
}
CUSPAN_BEFORE_LIBC ssize_t pwrite(int fd, const void* buffer, size_t bytes, off_t offset) {
  return WithBuffer(AddressOf(buffer), bytes, false,
                    [&] { return __pwrite64(fd, buffer, bytes, offset); });
}
CUSPAN_BEFORE_LIBC ssize_t readv(int fd, const struct iovec* vector, int count) {
  static constinit std::atomic<VectorFunction*> next{nullptr};
  return WithBuffers(vector, count, true, [&] { return Next(next, "readv")(fd, vector, count); });
}
CUSPAN_BEFORE_LIBC ssize_t writev(int fd, const struct iovec* vector, int count) {
  static constinit std::atomic<VectorFunction*> next{nullptr};
  return WithBuffers(vector, count, false, [&] { return Next(next, "writev")(fd, vector, count); });
}
CUSPAN_BEFORE_LIBC ssize_t recv(int fd, void* buffer, size_t bytes, int flags) {
  static constinit std::atomic<ReceiveFunction*> next{nullptr};
  return WithBuffer(AddressOf(buffer), bytes, true,
                    [&] { return Next(next, "recv")(fd, buffer, bytes, flags); });
}
CUSPAN_BEFORE_LIBC ssize_t send(int fd, const void* buffer, size_t bytes, int flags) {
  static constinit std::atomic<SendFunction*> next{nullptr};
  return WithBuffer(AddressOf(buffer), bytes, false,
                    [&] { return Next(next, "send")(fd, buffer, bytes, flags); });
}
// What programs call instead that were compiled with _FORTIFY_SOURCE.
CUSPAN_BEFORE_LIBC ssize_t __read_chk(int fd, void* buffer, size_t bytes, size_t room) {
  static constinit std::atomic<CheckedReadFunction*> next{nullptr};
  return WithBuffer(AddressOf(buffer), bytes, true,
                    [&] { return Next(next, "__read_chk")(fd, buffer, bytes, room); });
}
CUSPAN_BEFORE_LIBC ssize_t __pread_chk(int fd, void* buffer, size_t bytes, off_t offset,
                                       size_t room) {
  static constinit std::atomic<CheckedPreadFunction*> next{nullptr};
  return WithBuffer(AddressOf(buffer), bytes, true,
                    [&] { return Next(next, "__pread_chk")(fd, buffer, bytes, offset, room); });
}
CUSPAN_BEFORE_LIBC ssize_t __pread64_chk(int fd, void* buffer, size_t bytes, off64_t offset,
                                         size_t room) {
  static constinit std::atomic<CheckedPreadFunction*> next{nullptr};
  return WithBuffer(AddressOf(buffer), bytes, true,
                    [&] { return Next(next, "__pread64_chk")(fd, buffer, bytes, offset, room); });
}
CUSPAN_BEFORE_LIBC ssize_t __recv_chk(int fd, void* buffer, size_t bytes, size_t room, int flags) {
  static constinit std::atomic<CheckedReceiveFunction*> next{nullptr};
  return WithBuffer(AddressOf(buffer), bytes, true,
                    [&] { return Next(next, "__recv_chk")(fd, buffer, bytes, room, flags); });
}
CUSPAN_BEFORE_LIBC size_t __fread_chk(void* buffer, size_t room, size_t size, size_t count,
                                      FILE* file) {
  static constinit std::atomic<CheckedFreadFunction*> next{nullptr};
  AdmitSystemCall(AddressOf(buffer), size * count, true);
  return Next(next, "__fread_chk")(buffer, room, size, count, file);
}
// The C library's buffered input and output pass large blocks straight to the kernel.
CUSPAN_BEFORE_LIBC size_t fread(void* buffer, size_t size, size_t count, FILE* file) {
  static constinit std::atomic<ReadFunction*> next{nullptr};
  AdmitSystemCall(AddressOf(buffer), size * count, true);
  return Next(next, "fread")(buffer, size, count, file);
}
CUSPAN_BEFORE_LIBC size_t fwrite(const void* buffer, size_t size, size_t count, FILE* file) {
  static constinit std::atomic<WriteFunction*> next{nullptr};
  AdmitSystemCall(AddressOf(buffer), size * count, false);
  return Next(next, "fwrite")(buffer, size, count, file);
}

CUSPAN_BEFORE_LIBC int sigaction(int number, const struct sigaction* action,
                                 struct sigaction* old) noexcept {
  return OurSignal(number) ? ExchangeSegvAction(action, old) : __sigaction(number, action, old);
}
CUSPAN_BEFORE_LIBC sighandler_t signal(int number, sighandler_t handler) noexcept {
  static constinit std::atomic<SignalFunction*> next{nullptr};
  return OurSignal(number) ? SetSegvHandler(handler, SA_RESTART)
                           : Next(next, "signal")(number, handler);
}
// A blocked SIGSEGV would end the program at the next fault of ours.
CUSPAN_BEFORE_LIBC int pthread_sigmask(int how, const sigset_t* set, sigset_t* old) noexcept {
  static constinit std::atomic<MaskFunction*> next{nullptr};
  if (set == nullptr || how == SIG_UNBLOCK || !FaultsHandled())
    return Next(next, "pthread_sigmask")(how, set, old);
  sigset_t open = *set;
  ::sigdelset(&open, SIGSEGV);
  return Next(next, "pthread_sigmask")(how, &open, old);
}
CUSPAN_BEFORE_LIBC int sigprocmask(int how, const sigset_t* set, sigset_t* old) noexcept {
  static constinit std::atomic<MaskFunction*> next{nullptr};
  if (set == nullptr || how == SIG_UNBLOCK || !FaultsHandled())
    return Next(next, "sigprocmask")(how, set, old);
  sigset_t open = *set;
  ::sigdelset(&open, SIGSEGV);
  return Next(next, "sigprocmask")(how, &open, old);
}
