/* Preloaded: reads of a file called `damaged` behind its first MiB fail with EIO. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#pragma GCC visibility push(default)

static int fails(int fd, off_t offset, size_t bytes) {
  char link[64];
  char path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = '\0';
  const char* const name = strrchr(path, '/');
  return name != NULL && strcmp(name, "/damaged") == 0 && offset + (off_t)bytes > 1 << 20;
}

ssize_t pread(int fd, void* to, size_t bytes, off_t offset) {
  static ssize_t (*real)(int, void*, size_t, off_t);
  if (fails(fd, offset, bytes)) {
    errno = EIO;
    return -1;
  }
  if (real == NULL) real = (ssize_t(*)(int, void*, size_t, off_t))dlsym(RTLD_NEXT, "pread");
  return real(fd, to, bytes, offset);
}
ssize_t pread64(int fd, void* to, size_t bytes, off_t offset) {
  return pread(fd, to, bytes, offset);
}

ssize_t preadv2(int fd, const struct iovec* parts, int count, off_t offset, int flags) {
  static ssize_t (*real)(int, const struct iovec*, int, off_t, int);
  if (count > 0 && fails(fd, offset, parts[0].iov_len)) {
    errno = EIO;
    return -1;
  }
  if (real == NULL)
    real = (ssize_t(*)(int, const struct iovec*, int, off_t, int))dlsym(RTLD_NEXT, "preadv2");
  return real(fd, parts, count, offset, flags);
}
ssize_t preadv64v2(int fd, const struct iovec* parts, int count, off_t offset, int flags) {
  return preadv2(fd, parts, count, offset, flags);
}
