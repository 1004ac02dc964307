// System calls of the early code, without the C library, because it is not yet set up. So there is
// no errno and no cancellation point, and interposers of the C library do not see the calls.
// Results are the kernel's: a negative errno on failure. x86-64 Linux only.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cstddef>
#include <cstdint>

#if !defined(__x86_64__) || !defined(__linux__)
#error "cuspan enters processes on x86-64 Linux only"
#endif

namespace cuspan::load {

inline long SystemCall(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0,
                       long f = 0) {
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  register long r9 asm("r9") = f;
  long result;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
}

inline long SysOpenForReading(const char* path) {
  return SystemCall(SYS_openat, AT_FDCWD, reinterpret_cast<long>(path), O_RDONLY | O_CLOEXEC);
}
inline void SysClose(int fd) { SystemCall(SYS_close, fd); }
inline long SysStatus(int fd, struct stat* out) {
  return SystemCall(SYS_fstat, fd, reinterpret_cast<long>(out));
}
inline long SysStatusOf(const char* path, struct stat* out) {
  return SystemCall(SYS_newfstatat, AT_FDCWD, reinterpret_cast<long>(path),
                    reinterpret_cast<long>(out), 0);
}
inline long SysMap(void* at, std::size_t size, int protection, int flags, int fd,
                   std::uint64_t offset) {
  return SystemCall(SYS_mmap, reinterpret_cast<long>(at), static_cast<long>(size), protection,
                    flags, fd, static_cast<long>(offset));
}
inline void SysUnmap(const void* at, std::size_t size) {
  SystemCall(SYS_munmap, reinterpret_cast<long>(at), static_cast<long>(size));
}
inline long SysProtect(std::uint64_t at, std::size_t size, int protection) {
  return SystemCall(SYS_mprotect, static_cast<long>(at), static_cast<long>(size), protection);
}
inline void SysWrite(int fd, const char* text, std::size_t size) {
  SystemCall(SYS_write, fd, reinterpret_cast<long>(text), static_cast<long>(size));
}
[[noreturn]] inline void SysExit(int status) {
  for (;;) SystemCall(SYS_exit_group, status);
}
// True if the 8 bytes at `address` are readable. The kernel copies the signal set before it checks
// the invalid `how`. If the copy fails, it returns EFAULT.
inline bool SysReadable(std::uint64_t address) {
  constexpr long kFault = -14;
  return SystemCall(SYS_rt_sigprocmask, -1, static_cast<long>(address), 0, 8) != kFault;
}

// True if a system call's result is an error.
inline bool Failed(long result) { return result < 0 && result > -4096; }

}  // namespace cuspan::load
