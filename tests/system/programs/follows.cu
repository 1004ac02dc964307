// Reads a file into device memory as commanded, and compares it with a file that this process sees.
//
//   follows FILE [write|direct]     opens it for reading, also for writing, or without page cache
//   follows FILE FLAGS [EXPECTED]   opens it by its path with cuspanFileOpen, and compares it with
//                                   the file EXPECTED
//
// If the file can not be opened, it shows the result and the explanation, and ends. Otherwise it
// answers each line of its input: "read" reads the open file, "write" writes the bytes of the file
// EXPECTED to it, "host" reads it behind a host function that changes it, "cufile" opens and reads
// it by cuFile, and a number opens and reads it so many times.
#include <dlfcn.h>

#include <cstring>
#include <string>

#include "check.h"
#include "interpose/cufile/api.h"
#include "open_file.h"
#include "whole_files.h"

namespace {

constexpr size_t kRoom = size_t{8} << 20;

struct Request {
  const char* path;
  int descriptor_flags;
  unsigned flags;  // 0: by a descriptor.
  const char* expected;
};

cuspanFile_t Open(const Request& request) {
  cuspanFile_t file = nullptr;
  if (request.flags == 0) {
    const int fd = ::open(request.path, request.descriptor_flags);
    FILE_CHECK(cuspanFileOpenFd(&file, fd, 0));
    ::close(fd);
    return file;
  }
  if (const int result = cuspanFileOpen(&file, request.path, request.flags, 0)) {
    std::printf("%d %s\n", result, cuspanFileLastMessage());
    std::exit(EXIT_SUCCESS);
  }
  return file;
}

// `bytes` of device memory are the whole of the file EXPECTED.
bool IsEqual(const Request& request, const unsigned char* device, int64_t bytes) {
  const Contents expected = ReadWhole(request.expected);
  Contents found(expected.size());
  CHECK(cudaMemcpy(found.data(), device, found.size(), cudaMemcpyDeviceToHost));
  return bytes == static_cast<int64_t>(expected.size()) && found == expected;
}

bool IsReadEqual(const Request& request, cuspanFile_t file, unsigned char* device) {
  cuspanFileStatus_t status = {};
  FILE_CHECK(cuspanFileRead(file, device, kRoom, 0, nullptr, &status));
  CHECK(cudaStreamSynchronize(nullptr));
  return status.result == CUSPAN_FILE_SUCCESS && IsEqual(request, device, status.bytes);
}

bool IsReadEqualByCufile(const Request& request, unsigned char* device) {
  namespace cufile = cuspan::cufile;
  void* const library = dlopen("libcufile.so.0", RTLD_NOW);
  const auto add = reinterpret_cast<cufile::CallResult (*)(void**, cufile::Descriptor*)>(
      dlsym(library, "cuFileHandleRegister"));
  const auto read = reinterpret_cast<ssize_t (*)(void*, void*, size_t, off_t, off_t)>(
      dlsym(library, "cuFileRead"));
  const auto end = reinterpret_cast<void (*)(void*)>(dlsym(library, "cuFileHandleDeregister"));
  cufile::Descriptor descriptor{};
  descriptor.type = cufile::Descriptor::kFileDescriptor;
  descriptor.fd = ::open(request.path, request.descriptor_flags);
  void* handle = nullptr;
  const bool added = add(&handle, &descriptor).code == cufile::kSuccess;
  const ssize_t bytes = read(handle, device, kRoom, 0, 0);
  end(handle);
  ::close(descriptor.fd);
  return added && IsEqual(request, device, bytes);
}

void Change(void* path) {
  Contents contents = ReadWhole(static_cast<const char*>(path));
  for (unsigned char& byte : contents) byte ^= 0x55;
  const int fd = ::open(static_cast<const char*>(path), O_WRONLY);
  if (::pwrite(fd, contents.data(), contents.size(), 0) != static_cast<ssize_t>(contents.size()))
    std::perror("pwrite");
  ::close(fd);
}

__global__ void Wait() {
  for (int i = 0; i < 100; ++i) __nanosleep(1'000'000);
}

// The read is posted long before the function runs.
bool IsReadEqualBehindHost(const Request& request, cuspanFile_t file, unsigned char* device) {
  Wait<<<1, 1>>>();
  CHECK_LAUNCH();
  CHECK(cudaLaunchHostFunc(nullptr, Change, const_cast<char*>(request.path)));
  return IsReadEqual(request, file, device);
}

bool Write(const Request& request, cuspanFile_t file, unsigned char* device) {
  const Contents expected = ReadWhole(request.expected);
  cuspanFileStatus_t status = {};
  CHECK(cudaMemcpy(device, expected.data(), expected.size(), cudaMemcpyHostToDevice));
  FILE_CHECK(cuspanFileWrite(file, device, expected.size(), 0, nullptr, &status));
  CHECK(cudaStreamSynchronize(nullptr));
  return status.result == CUSPAN_FILE_SUCCESS;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: see the beginning of follows.cu\n");
    return 2;
  }
  const std::string how = argc > 2 ? argv[2] : "";
  const Request request{argv[1],
                        how == "write"    ? O_RDWR
                        : how == "direct" ? O_RDONLY | O_DIRECT
                                          : O_RDONLY,
                        static_cast<unsigned>(std::atoi(how.c_str())), argv[argc > 3 ? 3 : 1]};
  unsigned char* device = nullptr;
  CHECK(cudaMalloc(&device, kRoom));
  const cuspanFile_t file = Open(request);
  std::puts("open");
  std::fflush(stdout);
  char line[80];
  while (std::fgets(line, sizeof line, stdin) != nullptr) {
    bool equal = true;
    if (std::strcmp(line, "read\n") == 0) equal = IsReadEqual(request, file, device);
    if (std::strcmp(line, "write\n") == 0) equal = Write(request, file, device);
    if (std::strcmp(line, "host\n") == 0) equal = IsReadEqualBehindHost(request, file, device);
    if (std::strcmp(line, "cufile\n") == 0) equal = IsReadEqualByCufile(request, device);
    for (long i = std::atol(line); i > 0; --i) {
      const cuspanFile_t other = Open(request);
      equal = IsReadEqual(request, other, device) && equal;
      FILE_CHECK(cuspanFileClose(other));
    }
    std::puts(equal ? "equal" : "different");
    std::fflush(stdout);
  }
  FILE_CHECK(cuspanFileClose(file));
  return 0;
}
