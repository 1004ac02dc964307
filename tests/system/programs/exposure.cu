// Pinned memory never passed to a kernel, and pinned memory in use by one.
//
//   exposure integers   launches kernels with integers together forming its address
//   exposure calls      makes system calls into it while a kernel uses it
//   exposure registered gives kernels the host's address of registered memory
//
// "integers" checks after each launch that the host still has access to the memory.
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

namespace {

using Byte = unsigned char;

struct Mixed {
  int before;
  unsigned low;  // Not at a multiple of 8.
  unsigned high;
};
struct __attribute__((packed)) Packed {
  char before;
  uint64_t address;
};
struct Wrapped {
  int before;
  int* pointer;
};

__global__ void Put(int* to, int value) { *to = value; }
__global__ void PutPair(unsigned* to, unsigned low, unsigned high) { *to = low + high; }
__global__ void PutMixed(char c, unsigned low, unsigned high, int* to) { *to = c + low + high; }
__global__ void PutStruct(int* to, Mixed mixed) { *to = mixed.before + mixed.low + mixed.high; }
__global__ void PutPacked(int* to, Packed packed) { *to = packed.before; }
__global__ void PutShorts(short a, short b, short c, short d, int* to) { *to = a + b + c + d; }
__global__ void PutFloats(float a, float b, int* to) { *to = static_cast<int>(a + b); }
__global__ void PutWrapped(Wrapped wrapped) { *wrapped.pointer = wrapped.before; }

// Permissions of the page in /proc/self/maps: "rw-s".
std::string Permissions(const void* memory) {
  std::FILE* const maps = std::fopen("/proc/self/maps", "r");
  char line[512];
  std::string found;
  while (std::fgets(line, sizeof line, maps) != nullptr) {
    uintptr_t begin = 0, end = 0;
    char flags[8];
    if (std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &begin, &end, flags) == 3 &&
        reinterpret_cast<uintptr_t>(memory) >= begin && reinterpret_cast<uintptr_t>(memory) < end)
      found = flags;
  }
  std::fclose(maps);
  return found;
}

float AsFloat(uint32_t bits) {
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

int Integers() {
  int failures = 0;
  int* pinned = nullptr;
  int* device = nullptr;
  CHECK(cudaMallocHost(&pinned, 1 << 20));
  CHECK(cudaMalloc(&device, sizeof(int)));
  std::memset(pinned, 1, 1 << 20);
  const auto address = reinterpret_cast<uint64_t>(pinned);
  const auto low = static_cast<uint32_t>(address);
  const auto high = static_cast<uint32_t>(address >> 32);
  const auto expect_open = [&](const char* what) {
    CHECK_LAUNCH();
    CHECK(cudaDeviceSynchronize());
    const std::string now = Permissions(pinned);
    EXPECT(now.substr(0, 2) == "rw", "%s: the memory is %s", what, now.c_str());
  };
  for (int value : {0, 1, 17, 24, 255, 256, 4352, 4607, 6144, static_cast<int>(high),
                    static_cast<int>(high) + 1, static_cast<int>(address >> 40),
                    static_cast<int>(address >> 24), static_cast<int>(low)}) {
    Put<<<1, 1>>>(device, value);
    expect_open("an integer");
    PutPair<<<1, 1>>>(reinterpret_cast<unsigned*>(device), value, high);
    expect_open("two integers");
    PutMixed<<<1, 1>>>(1, value, high, device);
    expect_open("two integers before a pointer");
    PutStruct<<<1, 1>>>(device, {value, low, high});
    expect_open("two integers of a struct, not aligned as a pointer");
  }
  PutPair<<<1, 1>>>(reinterpret_cast<unsigned*>(device), low, high);
  expect_open("two integers that are the address");
  PutMixed<<<1, 1>>>(1, low, high, device);
  expect_open("two integers that are the address, before a pointer");
  PutPacked<<<1, 1>>>(device, {1, address});
  expect_open("an address that is not aligned");
  PutShorts<<<1, 1>>>(static_cast<short>(address), static_cast<short>(address >> 16),
                      static_cast<short>(address >> 32), 0, device);
  expect_open("four short integers");
  PutFloats<<<1, 1>>>(AsFloat(low), AsFloat(high), device);
  expect_open("two floats");
  // Together these form an address outside of its blocks.
  PutPair<<<1, 1>>>(reinterpret_cast<unsigned*>(device), 1, 1);
  expect_open("two small integers");
  // A real pointer inside a struct is still recognized.
  PutWrapped<<<1, 1>>>({42, pinned + 5});
  CHECK_LAUNCH();
  CHECK(cudaDeviceSynchronize());
  EXPECT(pinned[5] == 42 && pinned[4] == 0x01010101, "the kernel stored %d", pinned[5]);
  std::printf("integers: %s\n", failures == 0 ? "PASS" : "FAIL");
  return failures;
}

constexpr size_t kBytes = 300'000;
constexpr size_t kFirst = 3;  // The buffers are not aligned.

// Waits for each round, adds its bytes, and reports the round as done.
__global__ void AddUp(const volatile unsigned* round, volatile unsigned* done,
                      const volatile Byte* bytes, unsigned* sums, unsigned rounds) {
  for (unsigned now = 1; now <= rounds; ++now) {
    while (*round < now) {
    }
    __threadfence_system();
    unsigned sum = 0;
    for (size_t i = threadIdx.x; i < kBytes; i += blockDim.x) sum = sum + bytes[i] * (1 + i % 5);
    atomicAdd(sums + now, sum);
    __syncthreads();
    __threadfence_system();
    if (threadIdx.x == 0) *done = now;
  }
}

unsigned SumHere(const Byte* bytes) {
  unsigned sum = 0;
  for (size_t i = 0; i < kBytes; ++i) sum = sum + bytes[i] * static_cast<unsigned>(1 + i % 5);
  return sum;
}

// Fills the buffer by a different system call for each `way`.
bool Fill(int way, int from, int to, const std::vector<Byte>& source, Byte* bytes) {
  const auto feed = [&] {
    for (size_t sent = 0; sent < kBytes;) {
      const ssize_t part = write(to, source.data() + sent, kBytes - sent);
      if (part <= 0) return;
      sent += static_cast<size_t>(part);
    }
  };
  const auto take = [&](auto&& call) {
    std::thread feeder(feed);
    bool good = true;
    for (size_t got = 0; got < kBytes && good;) {
      const ssize_t part = call(bytes + got, kBytes - got);
      good = part > 0;
      if (good) got += static_cast<size_t>(part);
    }
    feeder.join();
    return good && std::memcmp(bytes, source.data(), kBytes) == 0;
  };
  const auto parts = [](Byte* at, size_t count, iovec* two) {
    two[0] = {at, count / 3};
    two[1] = {at + count / 3, count - count / 3};
  };
  iovec two[2];
  switch (way) {
    case 0:
      return take([&](Byte* at, size_t count) { return read(from, at, count); });
    case 1:
      return take([&](Byte* at, size_t count) { return recv(from, at, count, 0); });
    case 2:
      return take(
          [&](Byte* at, size_t count) { return recvfrom(from, at, count, 0, nullptr, nullptr); });
    case 3:
      return take([&](Byte* at, size_t count) {
        parts(at, count, two);
        return readv(from, two, 2);
      });
    case 4:
      return take([&](Byte* at, size_t count) {
        parts(at, count, two);
        msghdr message{};
        message.msg_iov = two;
        message.msg_iovlen = 2;
        return recvmsg(from, &message, 0);
      });
    case 5:
      for (size_t got = 0; got < kBytes;) {
        const ssize_t part = getrandom(bytes + got, kBytes - got, 0);
        if (part <= 0) return false;
        got += static_cast<size_t>(part);
      }
      return true;
    case 6:
      for (size_t got = 0; got < kBytes; got += 250)
        if (getentropy(bytes + got, 250) != 0) return false;
      return true;
    default: {
      std::FILE* const file = std::tmpfile();
      bool good = std::fwrite(source.data(), 1, kBytes, file) == kBytes;
      std::rewind(file);
      good = good && std::fread(bytes, 1, kBytes, file) == kBytes;
      std::fclose(file);
      return good && std::memcmp(bytes, source.data(), kBytes) == 0;
    }
  }
}

// Sends the buffer and compares the received data.
bool Send(int way, int from, int to, const Byte* bytes) {
  std::vector<Byte> arrived(kBytes);
  std::thread reader([&] {
    for (size_t got = 0; got < kBytes;) {
      const ssize_t part = read(from, arrived.data() + got, kBytes - got);
      if (part <= 0) return;
      got += static_cast<size_t>(part);
    }
  });
  bool good = true;
  for (size_t sent = 0; sent < kBytes && good;) {
    Byte* const at = const_cast<Byte*>(bytes) + sent;
    const size_t count = kBytes - sent;
    iovec two[2] = {{at, count / 2}, {at + count / 2, count - count / 2}};
    msghdr message{};
    message.msg_iov = two;
    message.msg_iovlen = 2;
    const ssize_t part = way % 4 == 0   ? write(to, at, count)
                         : way % 4 == 1 ? sendmsg(to, &message, 0)
                         : way % 4 == 2 ? writev(to, two, 2)
                                        : sendto(to, at, count, 0, nullptr, 0);
    good = part > 0;
    if (good) sent += static_cast<size_t>(part);
  }
  if (!good) {
    std::perror("send");
    std::exit(EXIT_FAILURE);
  }
  reader.join();
  return std::memcmp(arrived.data(), bytes, kBytes) == 0;
}

int Calls() {
  int failures = 0;
  constexpr unsigned kRounds = 8;
  Byte* memory = nullptr;
  unsigned* flags = nullptr;
  unsigned* sums = nullptr;
  CHECK(cudaHostAlloc(&memory, kFirst + kBytes, cudaHostAllocMapped));
  CHECK(cudaHostAlloc(&flags, 64 * sizeof(unsigned), cudaHostAllocMapped));
  CHECK(cudaMalloc(&sums, (kRounds + 1) * sizeof(unsigned)));
  CHECK(cudaMemset(sums, 0, (kRounds + 1) * sizeof(unsigned)));
  std::memset(flags, 0, 64 * sizeof(unsigned));
  Byte* const bytes = memory + kFirst;
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) std::abort();
  std::vector<unsigned> expected(kRounds + 1);
  std::vector<Byte> source(kBytes);
  volatile unsigned* const round = flags;
  volatile unsigned* const done = flags + 32;
  AddUp<<<1, 32>>>(round, done, bytes, sums, kRounds);
  CHECK_LAUNCH();
  for (unsigned now = 1; now <= kRounds; ++now) {
    for (size_t i = 0; i < kBytes; ++i) source[i] = static_cast<Byte>(i * 7 + i / 1000 + now * 31);
    EXPECT(Fill(static_cast<int>(now - 1), ends[0], ends[1], source, bytes), "round %u: %s", now,
           std::strerror(errno));
    EXPECT(Send(static_cast<int>(now), ends[0], ends[1], bytes), "round %u arrived otherwise", now);
    expected[now] = SumHere(bytes);
    __atomic_store_n(flags, now, __ATOMIC_RELEASE);
    while (*done < now) {
    }
  }
  CHECK(cudaDeviceSynchronize());
  std::vector<unsigned> got(kRounds + 1);
  CHECK(cudaMemcpy(got.data(), sums, got.size() * sizeof(unsigned), cudaMemcpyDefault));
  for (unsigned now = 1; now <= kRounds; ++now)
    EXPECT(got[now] == expected[now], "round %u: the kernel read %u, not %u", now, got[now],
           expected[now]);
  std::printf("calls: %s\n", failures == 0 ? "PASS" : "FAIL");
  return failures;
}

__device__ void AddOneHere(int* values, int count) {
  for (int i = threadIdx.x; i < count; i += blockDim.x) ++values[i];
}
__global__ void AddOne(int* values, int count) { AddOneHere(values, count); }
__global__ void AddOneTo(Wrapped wrapped) { AddOneHere(wrapped.pointer, wrapped.before); }

int Registered() {
  int failures = 0;
  constexpr int kCount = 10'000;
  std::vector<int> values(kCount + 1);
  CHECK(cudaHostRegister(values.data(), kCount * sizeof(int), cudaHostRegisterMapped));
  AddOne<<<1, 64>>>(values.data(), kCount);
  CHECK_LAUNCH();
  AddOne<<<1, 64>>>(values.data() + 100, 100);
  CHECK_LAUNCH();
  CHECK(cudaDeviceSynchronize());
  values[kCount - 1] = 10;
  AddOneTo<<<1, 64>>>({kCount, values.data()});
  CHECK_LAUNCH();
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i <= kCount; ++i) {
    const int expected = i == kCount ? 0 : i == kCount - 1 ? 11 : i >= 100 && i < 200 ? 3 : 2;
    EXPECT(values[i] == expected, "value %d is %d, not %d", i, values[i], expected);
  }
  CHECK(cudaHostUnregister(values.data()));
  std::printf("registered: %s\n", failures == 0 ? "PASS" : "FAIL");
  return failures;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return 2;
  const std::string name = arguments[1];
  return name == "integers" ? Integers() : name == "calls" ? Calls() : Registered();
}
