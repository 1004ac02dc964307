// Managed buffers passed to the kernel and to the C library: files, pipes, buffered input and
// output, before and after use by kernels. Also a program with its own SIGSEGV handler.
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "check.h"

namespace {

constexpr size_t kBytes = 3 << 20;
constexpr unsigned kThreads = 256;

__global__ void Invert(unsigned char* bytes, size_t count) {
  const size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) bytes[i] = static_cast<unsigned char>(~bytes[i]);
}

unsigned char Pattern(size_t i) { return static_cast<unsigned char>(i * 31 + (i >> 9)); }

void InvertOnDevice(unsigned char* bytes, bool wait) {
  Invert<<<(kBytes + kThreads - 1) / kThreads, kThreads>>>(bytes, kBytes);
  CHECK_LAUNCH();
  if (wait) CHECK(cudaDeviceSynchronize());
}

template <typename Expected>
int Compare(const unsigned char* bytes, const char* what, Expected expected) {
  int failures = 0;
  size_t wrong = 0;
  for (size_t i = 0; i < kBytes; ++i) wrong += bytes[i] != expected(i);
  EXPECT(wrong == 0, "%zu bytes are wrong: %s", wrong, what);
  return failures;
}

unsigned char Inverted(size_t i) { return static_cast<unsigned char>(~Pattern(i)); }

int CheckFiles() {
  int failures = 0;
  unsigned char* bytes = nullptr;
  unsigned char* again = nullptr;
  CHECK(cudaMallocManaged(&bytes, kBytes));
  CHECK(cudaMallocManaged(&again, kBytes));
  std::FILE* file = std::tmpfile();
  if (file == nullptr) {
    std::perror("tmpfile");
    std::exit(EXIT_FAILURE);
  }
  const int fd = fileno(file);
  for (size_t i = 0; i < kBytes; ++i) bytes[i] = Pattern(i);
  InvertOnDevice(bytes, true);
  EXPECT(pwrite(fd, bytes, kBytes, 0) == static_cast<ssize_t>(kBytes), "pwrite: %s",
         std::strerror(errno));
  InvertOnDevice(again, true);
  EXPECT(pread(fd, again, kBytes, 0) == static_cast<ssize_t>(kBytes), "pread: %s",
         std::strerror(errno));
  failures += Compare(again, "pread what pwrite wrote", Inverted);
  InvertOnDevice(again, true);
  failures += Compare(again, "a kernel on what pread read", Pattern);

  InvertOnDevice(again, true);
  lseek(fd, 0, SEEK_SET);
  EXPECT(write(fd, again, kBytes) == static_cast<ssize_t>(kBytes), "write: %s",
         std::strerror(errno));
  InvertOnDevice(again, true);
  lseek(fd, 0, SEEK_SET);
  EXPECT(read(fd, again, kBytes) == static_cast<ssize_t>(kBytes), "read: %s", std::strerror(errno));
  failures += Compare(again, "read what write wrote", Inverted);

  InvertOnDevice(again, true);
  InvertOnDevice(bytes, true);
  std::rewind(file);
  EXPECT(std::fwrite(bytes, 1, kBytes, file) == kBytes, "fwrite: %s", std::strerror(errno));
  std::rewind(file);
  InvertOnDevice(again, true);
  EXPECT(std::fread(again, 1, kBytes, file) == kBytes, "fread: %s", std::strerror(errno));
  failures += Compare(again, "fread what fwrite wrote", Pattern);

  InvertOnDevice(bytes, true);
  const iovec parts[] = {{bytes, kBytes / 3}, {bytes + kBytes / 3, kBytes - kBytes / 3}};
  lseek(fd, 0, SEEK_SET);
  EXPECT(writev(fd, parts, 2) == static_cast<ssize_t>(kBytes), "writev: %s", std::strerror(errno));
  InvertOnDevice(bytes, true);
  lseek(fd, 0, SEEK_SET);
  EXPECT(readv(fd, parts, 2) == static_cast<ssize_t>(kBytes), "readv: %s", std::strerror(errno));
  failures += Compare(bytes, "readv what writev wrote", Inverted);
  std::fclose(file);
  CHECK(cudaFree(bytes));
  CHECK(cudaFree(again));
  return failures;
}

// Through a pipe, by two threads, both starting with data written by a kernel.
int CheckPipe() {
  int failures = 0;
  unsigned char* from = nullptr;
  unsigned char* to = nullptr;
  CHECK(cudaMallocManaged(&from, kBytes));
  CHECK(cudaMallocManaged(&to, kBytes));
  for (size_t i = 0; i < kBytes; ++i) from[i] = Pattern(i);
  InvertOnDevice(from, false);
  InvertOnDevice(to, true);
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  std::thread writer([&] {
    for (size_t done = 0; done < kBytes;) {
      const ssize_t part = write(ends[1], from + done, kBytes - done);
      if (part <= 0) break;
      done += static_cast<size_t>(part);
    }
    close(ends[1]);
  });
  size_t done = 0;
  for (ssize_t part; (part = read(ends[0], to + done, kBytes - done)) > 0;)
    done += static_cast<size_t>(part);
  writer.join();
  close(ends[0]);
  EXPECT(done == kBytes, "%zu bytes came through the pipe", done);
  failures += Compare(to, "read from the pipe", Inverted);
  CHECK(cudaFree(from));
  CHECK(cudaFree(to));
  return failures;
}

sigjmp_buf g_escape;
volatile std::sig_atomic_t g_caught = 0;
void* volatile g_where = nullptr;

void OnSegv(int, siginfo_t* info, void*) {
  g_caught = g_caught + 1;
  g_where = info->si_addr;
  siglongjmp(g_escape, 1);
}

// True if a write there ran the program's own handler with this address.
bool Faults(volatile unsigned char* where) {
  const int before = g_caught;
  if (sigsetjmp(g_escape, 1) == 0) *where = 1;
  return g_caught == before + 1 && g_where == where;
}

// The program's handler receives its own faults, and none of managed memory's.
int CheckOwnHandler(const char* when) {
  int failures = 0;
  auto* const forbidden = static_cast<unsigned char*>(
      mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  const int caught = g_caught;
  EXPECT(Faults(forbidden + 100), "%s: the program's handler for a fault of its own", when);
  unsigned char* bytes = nullptr;
  CHECK(cudaMallocManaged(&bytes, kBytes));
  for (size_t i = 0; i < kBytes; ++i) bytes[i] = Pattern(i);
  InvertOnDevice(bytes, true);
  failures += Compare(bytes, when, Inverted);
  EXPECT(g_caught == caught + 1, "%s: the handler ran %d times", when, g_caught - caught);
  EXPECT(Faults(forbidden + 200), "%s: the handler once more", when);
  CHECK(cudaFree(bytes));
  munmap(forbidden, 4096);
  return failures;
}

struct sigaction OwnAction() {
  struct sigaction action {};
  action.sa_sigaction = OnSegv;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  return action;
}

}  // namespace

int main() {
  DeviceCount();
  // Installed before the first use of CUDA …
  const struct sigaction own = OwnAction();
  struct sigaction before {};
  sigaction(SIGSEGV, &own, &before);
  int failures = CheckOwnHandler("handler before CUDA");
  failures += CheckFiles();
  failures += CheckPipe();
  // … and again later. sigaction must still return the program's handler.
  struct sigaction found {};
  sigaction(SIGSEGV, &own, &found);
  EXPECT(found.sa_sigaction == OnSegv, "sigaction does not know the program's handler");
  failures += CheckOwnHandler("handler after CUDA");
  sigaction(SIGSEGV, &before, nullptr);
  sigaction(SIGSEGV, nullptr, &found);
  EXPECT(found.sa_handler == before.sa_handler, "the first handler is not back");
  std::printf("managed_io: files, pipe and signals: %s\n", Verdict(failures));
  return ExitStatus(failures);
}
