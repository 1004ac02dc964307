// A filter: writes its input with the letters a-z in upper case, and prints the number of lines and
// bytes to standard error. Input is written out immediately, for use at a terminal.
//
//   filter < INPUT > OUTPUT
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "check.h"

namespace {

constexpr size_t kCapacity = 1 << 16;
constexpr unsigned kBlock = 256;

__global__ void ToUpper(char* text, int length, unsigned* lines) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const char c = i < length ? text[i] : ' ';
  if (c >= 'a' && c <= 'z') text[i] = static_cast<char>(c - 'a' + 'A');
  const int ends = __syncthreads_count(c == '\n');
  if (threadIdx.x == 0 && ends > 0) atomicAdd(lines, static_cast<unsigned>(ends));
}

// Reads the available input, at most `capacity` bytes. Returns 0 at the end of the input.
size_t Read(char* buffer, size_t capacity) {
  for (;;) {
    const ssize_t length = read(STDIN_FILENO, buffer, capacity);
    if (length >= 0) return static_cast<size_t>(length);
    if (errno == EINTR) continue;
    std::perror("filter: can not read");
    std::exit(EXIT_FAILURE);
  }
}

void Write(const char* text, size_t length) {
  if (std::fwrite(text, 1, length, stdout) != length || std::fflush(stdout) != 0) {
    std::perror("filter: can not write");
    std::exit(EXIT_FAILURE);
  }
}

}  // namespace

int main() {
  char* device_text = nullptr;
  unsigned* device_lines = nullptr;
  CHECK(cudaMalloc(&device_text, kCapacity));
  CHECK(cudaMalloc(&device_lines, sizeof(unsigned)));
  CHECK(cudaMemset(device_lines, 0, sizeof(unsigned)));

  int failures = 0;
  size_t bytes = 0;
  unsigned expected_lines = 0;
  std::vector<char> text(kCapacity);
  std::vector<char> upper(kCapacity);
  while (const size_t length = Read(text.data(), kCapacity)) {
    CHECK(cudaMemcpy(device_text, text.data(), length, cudaMemcpyHostToDevice));
    const auto blocks = static_cast<unsigned>((length + kBlock - 1) / kBlock);
    ToUpper<<<blocks, kBlock>>>(device_text, static_cast<int>(length), device_lines);
    CHECK_LAUNCH();
    CHECK(cudaMemcpy(upper.data(), device_text, length, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < length; ++i) {
      const char c = text[i];
      const char expected = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
      if (upper[i] != expected) ++failures;
      if (c == '\n') ++expected_lines;
    }
    Write(upper.data(), length);
    bytes += length;
  }

  unsigned lines = 0;
  CHECK(cudaMemcpy(&lines, device_lines, sizeof(unsigned), cudaMemcpyDeviceToHost));
  CHECK(cudaFree(device_lines));
  CHECK(cudaFree(device_text));
  EXPECT(lines == expected_lines, "the device counted %u lines, not %u", lines, expected_lines);
  std::fprintf(stderr, "filter: %u lines, %zu bytes: %s\n", lines, bytes, Verdict(failures));
  return ExitStatus(failures);
}
