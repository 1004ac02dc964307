// Reads a file into device memory as commanded, and compares it with the file that this process
// sees.
//
//   follows FILE [write]
//
// It opens the file for reading, or also for writing, and answers each line of its input: "read"
// reads the open file, a number opens and reads it so many times.
#include <cstring>

#include "check.h"
#include "open_file.h"
#include "whole_files.h"

namespace {

constexpr size_t kRoom = size_t{8} << 20;

bool IsReadEqual(const char* path, cuspanFile_t file, unsigned char* device) {
  cuspanFileStatus_t status = {};
  FILE_CHECK(cuspanFileRead(file, device, kRoom, 0, nullptr, &status));
  CHECK(cudaStreamSynchronize(nullptr));
  const Contents expected = ReadWhole(path);
  Contents found(expected.size());
  CHECK(cudaMemcpy(found.data(), device, found.size(), cudaMemcpyDeviceToHost));
  return status.result == CUSPAN_FILE_SUCCESS &&
         status.bytes == static_cast<int64_t>(expected.size()) && found == expected;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: see the beginning of follows.cu\n");
    return 2;
  }
  const char* const path = argv[1];
  const int flags = argc > 2 ? O_RDWR : O_RDONLY;
  unsigned char* device = nullptr;
  CHECK(cudaMalloc(&device, kRoom));
  const File file(path, flags, 0);
  std::puts("open");
  std::fflush(stdout);
  char line[80];
  while (std::fgets(line, sizeof line, stdin) != nullptr) {
    bool equal = true;
    if (std::strcmp(line, "read\n") == 0) equal = IsReadEqual(path, file.file, device);
    for (long i = std::atol(line); i > 0; --i) {
      const File other(path, flags, 0);
      equal = IsReadEqual(path, other.file, device) && equal;
    }
    std::puts(equal ? "equal" : "different");
    std::fflush(stdout);
  }
  return 0;
}
