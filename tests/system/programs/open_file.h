// Files that are open for a device.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "include/cuspan/file.h"

#define FILE_CHECK(call)                                                                   \
  do {                                                                                     \
    const int file_result = (call);                                                        \
    if (file_result != CUSPAN_FILE_SUCCESS) {                                              \
      std::fprintf(stderr, "%s:%d: %s: %d (%s)\n", __FILE__, __LINE__, #call, file_result, \
                   cuspanFileLastMessage());                                               \
      std::exit(EXIT_FAILURE);                                                             \
    }                                                                                      \
  } while (false)

// A file opened by its descriptor.
struct File {
  File(const char* path, int flags, int device) : fd(::open(path, flags, 0600)) {
    if (fd < 0) {
      std::perror(path);
      std::exit(EXIT_FAILURE);
    }
    FILE_CHECK(cuspanFileOpenFd(&file, fd, device));
  }
  ~File() {
    FILE_CHECK(cuspanFileClose(file));
    ::close(fd);
  }
  File(const File&) = delete;

  int fd;
  cuspanFile_t file = nullptr;
};
