// Copies and fills of all kinds and sizes: pageable, pinned and registered memory, odd lengths and
// offsets, synchronous and overlapping.
//
//   memory [LARGEST_MIB]
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "check.h"

namespace {

// Byte at `index` of a buffer filled from `seed`. The period is no power of two.
__host__ __device__ uint8_t Pattern(size_t index, unsigned seed) {
  return static_cast<uint8_t>((index * 131 + index / 251 + seed * 29) & 0xff);
}

void FillHost(uint8_t* data, size_t bytes, unsigned seed) {
  for (size_t i = 0; i < bytes; ++i) data[i] = Pattern(i, seed);
}

// Returns the index of the first byte different from the pattern, or `bytes`.
size_t FirstDifference(const uint8_t* data, size_t bytes, unsigned seed) {
  for (size_t i = 0; i < bytes; ++i) {
    if (data[i] != Pattern(i, seed)) return i;
  }
  return bytes;
}

__global__ void FillDevice(uint8_t* data, size_t bytes, unsigned seed) {
  const size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
  if (i < bytes) data[i] = Pattern(i, seed);
}

__global__ void CountDifferences(const uint8_t* data, size_t bytes, unsigned seed,
                                 unsigned* differences) {
  const size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
  if (i < bytes && data[i] != Pattern(i, seed)) atomicAdd(differences, 1u);
}

__global__ void InvertBytes(uint8_t* data, size_t bytes) {
  const size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
  if (i < bytes) data[i] = ~data[i];
}

unsigned Blocks(size_t bytes) { return static_cast<unsigned>((bytes + 255) / 256); }

// One allocation on the device with guard bytes on both sides of the used part.
class Guarded {
 public:
  static constexpr size_t kGuard = 64;

  Guarded(size_t bytes, size_t offset) : bytes_(bytes), offset_(offset) {
    CHECK(cudaMalloc(&base_, offset + bytes + 2 * kGuard));
    CHECK(cudaMemset(base_, 0xa5, offset + bytes + 2 * kGuard));
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() { CHECK(cudaFree(base_)); }

  uint8_t* data() const { return base_ + kGuard + offset_; }

  bool GuardsIntact() const {
    std::vector<uint8_t> front(kGuard + offset_);
    uint8_t back[kGuard];
    CHECK(cudaMemcpy(front.data(), base_, front.size(), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(back, data() + bytes_, kGuard, cudaMemcpyDeviceToHost));
    const auto whole = [](uint8_t byte) { return byte == 0xa5; };
    return std::all_of(front.begin(), front.end(), whole) &&
           std::all_of(std::begin(back), std::end(back), whole);
  }

 private:
  size_t bytes_;
  size_t offset_;
  uint8_t* base_ = nullptr;
};

enum class HostMemory { kPageable, kPinned, kPortable, kRegistered };
const char* const kHostMemoryNames[] = {"pageable", "cudaMallocHost", "cudaHostAlloc",
                                        "cudaHostRegister"};

// Host memory of one kind, used the same way for all kinds.
class HostBuffer {
 public:
  HostBuffer(HostMemory kind, size_t bytes) : kind_(kind) {
    switch (kind) {
      case HostMemory::kPinned:
        CHECK(cudaMallocHost(&data_, bytes));
        break;
      case HostMemory::kPortable:
        CHECK(cudaHostAlloc(&data_, bytes, cudaHostAllocPortable));
        break;
      case HostMemory::kPageable:
      case HostMemory::kRegistered:
        data_ = static_cast<uint8_t*>(std::malloc(bytes));
        if (data_ == nullptr) std::exit(EXIT_FAILURE);
        break;
    }
    if (kind == HostMemory::kRegistered) {
      CHECK(cudaHostRegister(data_, bytes, cudaHostRegisterDefault));
    }
  }
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;
  ~HostBuffer() {
    if (kind_ == HostMemory::kPinned || kind_ == HostMemory::kPortable) {
      CHECK(cudaFreeHost(data_));
      return;
    }
    if (kind_ == HostMemory::kRegistered) CHECK(cudaHostUnregister(data_));
    std::free(data_);
  }

  uint8_t* data() const { return data_; }

 private:
  HostMemory kind_;
  uint8_t* data_ = nullptr;
};

// Copies to the device, within it, and back. The direction is given or left to CUDA.
int RoundTrip(HostMemory kind, size_t bytes, size_t host_offset, size_t device_offset,
              bool default_kind) {
  const unsigned seed = static_cast<unsigned>(bytes + host_offset * 3 + device_offset * 5);
  const HostBuffer host(kind, 2 * (bytes + host_offset) + 64);
  uint8_t* in = host.data() + host_offset;
  uint8_t* out = in + bytes + host_offset;
  FillHost(in, bytes, seed);
  std::memset(out, 0, bytes + 1);
  const Guarded first(bytes, device_offset);
  const Guarded second(bytes, device_offset * 2 + 1);
  CHECK(cudaMemcpy(first.data(), in, bytes,
                   default_kind ? cudaMemcpyDefault : cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(second.data(), first.data(), bytes,
                   default_kind ? cudaMemcpyDefault : cudaMemcpyDeviceToDevice));
  CHECK(cudaMemcpy(out, second.data(), bytes,
                   default_kind ? cudaMemcpyDefault : cudaMemcpyDeviceToHost));

  int failures = 0;
  const char* name = kHostMemoryNames[static_cast<int>(kind)];
  const size_t difference = FirstDifference(out, bytes, seed);
  EXPECT(difference == bytes, "%s, %zu bytes, offsets %zu and %zu: byte %zu is wrong", name, bytes,
         host_offset, device_offset, difference);
  EXPECT(out[bytes] == 0, "%s, %zu bytes: a byte after the end was written", name, bytes);
  EXPECT(first.GuardsIntact() && second.GuardsIntact(),
         "%s, %zu bytes: device memory beside the copy was written", name, bytes);
  return failures;
}

int RoundTrips(size_t largest) {
  int failures = 0;
  const size_t sizes[] = {1,     2,      3,       7,           63,           64,
                          65,    255,    4095,    4096,        4097,         65535,
                          65537, 262147, 1048575, 1048576 + 1, 3145728 + 11, largest};
  int number = 0;
  for (const size_t bytes : sizes) {
    if (bytes > largest) continue;
    for (const HostMemory kind : {HostMemory::kPageable, HostMemory::kPinned, HostMemory::kPortable,
                                  HostMemory::kRegistered}) {
      ++number;
      // Large buffers are expensive to check: one kind of memory per size is enough.
      if (bytes > (4 << 20) && kind != HostMemory::kPageable && kind != HostMemory::kPinned)
        continue;
      failures += RoundTrip(kind, bytes, number % 5, number % 7, number % 2 == 0);
    }
  }
  return failures;
}

// Device memory filled and checked by kernels, copied in pieces of odd lengths.
int Pieces() {
  constexpr size_t kBytes = 1000003;
  const Guarded device(kBytes, 3);
  FillDevice<<<Blocks(kBytes), 256>>>(device.data(), kBytes, 77);
  CHECK_LAUNCH();
  std::vector<uint8_t> host(kBytes);
  size_t at = 0;
  for (size_t piece = 1; at < kBytes; piece = piece * 3 + 1) {
    const size_t length = std::min(piece, kBytes - at);
    CHECK(cudaMemcpy(&host[at], device.data() + at, length, cudaMemcpyDeviceToHost));
    at += length;
  }
  int failures = 0;
  const size_t difference = FirstDifference(host.data(), kBytes, 77);
  EXPECT(difference == kBytes, "pieces from the device: byte %zu is wrong", difference);

  FillHost(host.data(), kBytes, 78);
  at = 0;
  for (size_t piece = 5; at < kBytes; piece = piece * 2 + 3) {
    const size_t length = std::min(piece, kBytes - at);
    CHECK(cudaMemcpy(device.data() + at, &host[at], length, cudaMemcpyHostToDevice));
    at += length;
  }
  unsigned* differences = nullptr;
  unsigned host_differences = 1;
  CHECK(cudaMalloc(&differences, sizeof(unsigned)));
  CHECK(cudaMemset(differences, 0, sizeof(unsigned)));
  CountDifferences<<<Blocks(kBytes), 256>>>(device.data(), kBytes, 78, differences);
  CHECK_LAUNCH();
  CHECK(cudaMemcpy(&host_differences, differences, sizeof(unsigned), cudaMemcpyDeviceToHost));
  EXPECT(host_differences == 0, "pieces to the device: %u bytes are wrong", host_differences);
  CHECK(cudaFree(differences));
  return failures;
}

int Fills() {
  constexpr size_t kBytes = 300007;
  int failures = 0;
  const Guarded device(kBytes, 5);
  std::vector<uint8_t> host(kBytes);
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreate(&stream));
  // Each fill covers a part of the one before it. Only the low byte of the value counts.
  CHECK(cudaMemset(device.data(), 0x111, kBytes));
  CHECK(cudaMemset(device.data() + 1, 0x22, kBytes - 2));
  CHECK(cudaMemsetAsync(device.data() + 1000, -1, 100001, stream));
  CHECK(cudaMemsetAsync(device.data() + 1003, 0, 1, stream));
  CHECK(cudaMemcpyAsync(host.data(), device.data(), kBytes, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaStreamSynchronize(stream));
  for (size_t i = 0; i < kBytes && failures < 5; ++i) {
    const uint8_t expected = i == 1003                        ? 0
                             : i >= 1000 && i < 1000 + 100001 ? 0xff
                             : i == 0 || i == kBytes - 1      ? 0x11
                                                              : 0x22;
    EXPECT(host[i] == expected, "after the fills byte %zu is %02x, not %02x", i, host[i], expected);
  }
  EXPECT(device.GuardsIntact(), "a fill wrote beside its range");
  CHECK(cudaStreamDestroy(stream));
  return failures;
}

// Copies in, kernels and copies out of neighbouring chunks overlap in several streams.
int OverlappingCopies(HostMemory kind) {
  constexpr int kStreams = 4;
  constexpr int kChunks = 11;
  constexpr size_t kChunk = 150001;
  const HostBuffer host(kind, 2 * kChunks * kChunk);
  uint8_t* in = host.data();
  uint8_t* out = host.data() + kChunks * kChunk;
  FillHost(in, kChunks * kChunk, 5);
  std::memset(out, 0, kChunks * kChunk);
  const Guarded device(kChunks * kChunk, 1);
  cudaStream_t streams[kStreams];
  for (cudaStream_t& stream : streams) {
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }
  CHECK(cudaDeviceSynchronize());  // the guards' fill ran in the default stream
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    const cudaStream_t stream = streams[chunk % kStreams];
    uint8_t* data = device.data() + chunk * kChunk;
    CHECK(cudaMemcpyAsync(data, in + chunk * kChunk, kChunk, cudaMemcpyHostToDevice, stream));
    InvertBytes<<<Blocks(kChunk), 256, 0, stream>>>(data, kChunk);
    CHECK_LAUNCH();
    CHECK(cudaMemcpyAsync(out + chunk * kChunk, data, kChunk, cudaMemcpyDeviceToHost, stream));
  }
  CHECK(cudaDeviceSynchronize());
  int failures = 0;
  for (size_t i = 0; i < kChunks * kChunk && failures < 5; ++i) {
    const auto expected = static_cast<uint8_t>(~Pattern(i, 5));
    EXPECT(out[i] == expected, "%s: overlapping copies: byte %zu is %02x, not %02x",
           kHostMemoryNames[static_cast<int>(kind)], i, out[i], expected);
  }
  for (const cudaStream_t stream : streams) CHECK(cudaStreamDestroy(stream));
  return failures;
}

// The source of an asynchronous copy from pageable memory may be reused at once.
int PageableSourceIsReusable() {
  constexpr size_t kBytes = 40001;
  constexpr int kCopies = 8;
  const Guarded device(kCopies * kBytes, 0);
  std::vector<uint8_t> host(kBytes);
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreate(&stream));
  for (int copy = 0; copy < kCopies; ++copy) {
    FillHost(host.data(), kBytes, copy);
    CHECK(cudaMemcpyAsync(device.data() + copy * kBytes, host.data(), kBytes,
                          cudaMemcpyHostToDevice, stream));
  }
  CHECK(cudaStreamSynchronize(stream));
  int failures = 0;
  for (int copy = 0; copy < kCopies; ++copy) {
    CHECK(cudaMemcpy(host.data(), device.data() + copy * kBytes, kBytes, cudaMemcpyDeviceToHost));
    const size_t difference = FirstDifference(host.data(), kBytes, copy);
    EXPECT(difference == kBytes, "copy %d from a reused buffer: byte %zu", copy, difference);
  }
  CHECK(cudaStreamDestroy(stream));
  return failures;
}

// Host-to-host copies, and many allocations and frees.
int HostCopiesAndAllocations() {
  int failures = 0;
  const HostBuffer pinned(HostMemory::kPinned, 70001);
  std::vector<uint8_t> host(70001);
  FillHost(host.data(), host.size(), 9);
  CHECK(cudaMemcpy(pinned.data(), host.data(), host.size(), cudaMemcpyHostToHost));
  EXPECT(FirstDifference(pinned.data(), host.size(), 9) == host.size(), "a copy host to host");
  std::fill(host.begin(), host.end(), uint8_t{0});
  CHECK(cudaMemcpy(host.data(), pinned.data(), host.size(), cudaMemcpyDefault));
  EXPECT(FirstDifference(host.data(), host.size(), 9) == host.size(), "a default copy on the host");

  std::vector<uint8_t*> blocks(200, nullptr);
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < blocks.size(); ++i) {
      if ((i + round) % 3 == 0 && blocks[i] != nullptr) {
        CHECK(cudaFree(blocks[i]));
        blocks[i] = nullptr;
      }
      if (blocks[i] == nullptr) {
        CHECK(cudaMalloc(&blocks[i], 1 + i * 37));
        // Every allocation is aligned at least to 256 bytes.
        EXPECT(reinterpret_cast<uintptr_t>(blocks[i]) % 256 == 0, "an allocation lies at %p",
               static_cast<void*>(blocks[i]));
        CHECK(cudaMemset(blocks[i], static_cast<int>(i), 1 + i * 37));
      }
    }
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    std::vector<uint8_t> content(1 + i * 37);
    CHECK(cudaMemcpy(content.data(), blocks[i], content.size(), cudaMemcpyDeviceToHost));
    const bool whole = std::all_of(content.begin(), content.end(),
                                   [i](uint8_t byte) { return byte == static_cast<uint8_t>(i); });
    EXPECT(whole, "block %zu was overwritten", i);
    CHECK(cudaFree(blocks[i]));
  }
  return failures;
}

// If the device can map host memory, kernels read and write it in place.
int MappedMemory() {
  int can_map = 0;
  CHECK(cudaDeviceGetAttribute(&can_map, cudaDevAttrCanMapHostMemory, 0));
  if (can_map == 0) return 0;
  constexpr size_t kBytes = 5003;
  uint8_t* host = nullptr;
  uint8_t* device = nullptr;
  CHECK(cudaHostAlloc(&host, kBytes, cudaHostAllocMapped));
  CHECK(cudaHostGetDevicePointer(&device, host, 0));
  FillHost(host, kBytes, 3);
  InvertBytes<<<Blocks(kBytes), 256>>>(device, kBytes);
  CHECK_LAUNCH();
  CHECK(cudaDeviceSynchronize());
  int failures = 0;
  for (size_t i = 0; i < kBytes && failures < 5; ++i) {
    EXPECT(host[i] == static_cast<uint8_t>(~Pattern(i, 3)), "mapped byte %zu is %02x", i, host[i]);
  }
  CHECK(cudaFreeHost(host));
  return failures;
}

}  // namespace

int main(int argc, char** argv) {
  const long largest = NumberArgument(argc, argv, 1, 64, 1, 4096) << 20;
  int failures = RoundTrips(largest);
  failures += Pieces();
  failures += Fills();
  failures += OverlappingCopies(HostMemory::kPinned);
  failures += OverlappingCopies(HostMemory::kRegistered);
  failures += PageableSourceIsReusable();
  failures += HostCopiesAndAllocations();
  failures += MappedMemory();
  std::printf("memory: copies and fills of 1 byte to %ld MiB: %s\n", largest >> 20,
              Verdict(failures));
  return ExitStatus(failures);
}
