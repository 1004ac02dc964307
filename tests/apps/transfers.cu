// Bytes of copies between host and devices: complete, and in the order of the streams. Sizes around
// every boundary between pieces, odd offsets, page-locked and pageable memory, both directions at
// once, many streams and threads. Also page-locked memory written by one copy and read by the next,
// and memory overwritten as soon as CUDA allows.
//
//   transfers [PIECE_KIB [PIECES]]   sizes around PIECE_KIB and PIECE_KIB × PIECES
#include <atomic>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "check.h"

namespace {

std::atomic<long> failures{0};

// Bytes depending on their position and pattern.
unsigned char ByteAt(size_t place, unsigned seed) {
  std::uint64_t x = place * 0x9e3779b97f4a7c15u + seed * 0xbf58476d1ce4e5b9u;
  x ^= x >> 29;
  return static_cast<unsigned char>((x * 0x94d049bb133111ebu) >> 56);
}

void Fill(unsigned char* bytes, size_t count, unsigned seed) {
  for (size_t i = 0; i < count; ++i) bytes[i] = ByteAt(i, seed);
}

// Expects `count` bytes of the pattern from `first` on.
void ExpectPattern(const unsigned char* bytes, size_t first, size_t count, unsigned seed,
                   const char* what) {
  for (size_t i = 0; i < count; ++i) {
    if (bytes[i] == ByteAt(first + i, seed)) continue;
    ++failures;
    std::fprintf(stderr, "%s: byte %zu of %zu is %u, not %u\n", what, i, count, bytes[i],
                 ByteAt(first + i, seed));
    return;
  }
}

__global__ void Wait(long long nanoseconds) {
  const long long start = clock64();
  // About one nanosecond per cycle: long enough for the host to continue first.
  while (clock64() - start < nanoseconds) {
  }
}

__global__ void Add(unsigned char* bytes, size_t count, unsigned char value) {
  const size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
  if (i < count) bytes[i] = static_cast<unsigned char>(bytes[i] + value);
}

struct HostBuffer {
  HostBuffer(size_t bytes, bool pinned) : pinned(pinned) {
    if (pinned)
      CHECK(cudaMallocHost(&data, bytes));
    else
      data = static_cast<unsigned char*>(std::malloc(bytes));
  }
  ~HostBuffer() {
    if (pinned)
      CHECK(cudaFreeHost(data));
    else
      std::free(data);
  }
  bool pinned;
  unsigned char* data = nullptr;
};

// To the device and back, with guards around, in every form of call.
void RoundTrips(const std::vector<size_t>& sizes, bool pinned) {
  constexpr size_t kGuard = 64;
  const size_t most = sizes.back() + 2 * kGuard;
  HostBuffer source(most, pinned);
  HostBuffer back(most, pinned);
  unsigned char* device = nullptr;
  CHECK(cudaMalloc(&device, most));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  unsigned seed = 1;
  for (const size_t size : sizes) {
    for (const size_t offset : {size_t{0}, size_t{1}, size_t{37}}) {
      const bool asynchronous = seed % 2 == 0;
      Fill(source.data, most, ++seed);
      std::memset(back.data, 0xee, most);
      CHECK(cudaMemset(device, 0xdd, most));
      CHECK(cudaDeviceSynchronize());
      if (asynchronous) {
        CHECK(cudaMemcpyAsync(device + offset, source.data + offset, size, cudaMemcpyHostToDevice,
                              stream));
        CHECK(cudaMemcpyAsync(back.data + offset, device + offset, size, cudaMemcpyDeviceToHost,
                              stream));
        CHECK(cudaStreamSynchronize(stream));
      } else {
        CHECK(cudaMemcpy(device + offset, source.data + offset, size, cudaMemcpyHostToDevice));
        // The source may be reused.
        std::memset(source.data, 0x11, most);
        CHECK(cudaMemcpy(back.data + offset, device + offset, size, cudaMemcpyDeviceToHost));
      }
      ExpectPattern(back.data + offset, offset, size, seed, pinned ? "pinned" : "pageable");
      const bool before = offset == 0 || back.data[offset - 1] == 0xee;
      EXPECT(before && back.data[offset + size] == 0xee, "nothing around %zu bytes", size);
      unsigned char edges[2] = {};
      CHECK(cudaMemcpy(&edges[1], device + offset + size, 1, cudaMemcpyDeviceToHost));
      EXPECT(edges[1] == 0xdd, "nothing on the device behind %zu bytes", size);
    }
  }
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFree(device));
}

// Page-locked memory is read when the stream reaches the copy. At this time, it holds the data of
// earlier work in this order.
void ThroughPinnedMemory(size_t bytes) {
  HostBuffer middle(bytes, true);
  HostBuffer result(bytes, true);
  HostBuffer source(bytes, false);
  unsigned char* first = nullptr;
  unsigned char* second = nullptr;
  CHECK(cudaMalloc(&first, bytes));
  CHECK(cudaMalloc(&second, bytes));
  cudaStream_t streams[2];
  for (cudaStream_t& stream : streams)
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cudaEvent_t event;
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  for (unsigned round = 0; round < 4; ++round) {
    const bool across = round % 2 == 1;
    const cudaStream_t reading = streams[across ? 1 : 0];
    Fill(source.data, bytes, 1000 + round);
    std::memset(middle.data, 0, bytes);
    CHECK(cudaMemcpy(first, source.data, bytes, cudaMemcpyHostToDevice));
    CHECK(cudaDeviceSynchronize());
    Wait<<<1, 1, 0, streams[0]>>>(2'000'000);
    CHECK_LAUNCH();
    CHECK(cudaMemcpyAsync(middle.data, first, bytes, cudaMemcpyDeviceToHost, streams[0]));
    if (across) {
      CHECK(cudaEventRecord(event, streams[0]));
      CHECK(cudaStreamWaitEvent(reading, event, 0));
    }
    CHECK(cudaMemcpyAsync(second, middle.data, bytes, cudaMemcpyHostToDevice, reading));
    CHECK(cudaMemcpyAsync(result.data, second, bytes, cudaMemcpyDeviceToHost, reading));
    CHECK(cudaStreamSynchronize(reading));
    ExpectPattern(result.data, 0, bytes, 1000 + round, "through page-locked memory");
  }
  // The same, written by a host function.
  struct Writing {
    unsigned char* bytes;
    size_t count;
  } writing{middle.data, bytes};
  Wait<<<1, 1, 0, streams[0]>>>(2'000'000);
  CHECK_LAUNCH();
  CHECK(cudaLaunchHostFunc(
      streams[0],
      [](void* data) {
        const auto* const to = static_cast<Writing*>(data);
        Fill(to->bytes, to->count, 2000);
      },
      &writing));
  CHECK(cudaMemcpyAsync(second, middle.data, bytes, cudaMemcpyHostToDevice, streams[0]));
  CHECK(cudaMemcpyAsync(result.data, second, bytes, cudaMemcpyDeviceToHost, streams[0]));
  CHECK(cudaStreamSynchronize(streams[0]));
  ExpectPattern(result.data, 0, bytes, 2000, "written by a function of the program");
  // A synchronous copy is complete when it returns, even if the device was busy before.
  Fill(middle.data, bytes, 3000);
  Wait<<<1, 1>>>(2'000'000);
  CHECK_LAUNCH();
  CHECK(cudaMemcpy(second, middle.data, bytes, cudaMemcpyHostToDevice));
  std::memset(middle.data, 0, bytes);
  CHECK(cudaMemcpy(result.data, second, bytes, cudaMemcpyDeviceToHost));
  ExpectPattern(result.data, 0, bytes, 3000, "overwritten after cudaMemcpy");
  CHECK(cudaEventDestroy(event));
  for (const cudaStream_t stream : streams) CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFree(first));
  CHECK(cudaFree(second));
}

// Every thread has its own stream on some device: to the device, a kernel, back.
void ManyStreams(int devices, size_t bytes, bool pinned) {
  constexpr int kThreads = 6;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([=] {
      CHECK(cudaSetDevice(t % devices));
      const size_t count = bytes + static_cast<size_t>(t) * 4099;
      HostBuffer there(count, pinned);
      HostBuffer back(count, pinned);
      unsigned char* device = nullptr;
      cudaStream_t stream;
      CHECK(cudaMalloc(&device, count));
      CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
      for (unsigned round = 0; round < 3; ++round) {
        const unsigned seed = 100 * static_cast<unsigned>(t) + round;
        Fill(there.data, count, seed);
        CHECK(cudaMemcpyAsync(device, there.data, count, cudaMemcpyHostToDevice, stream));
        Add<<<static_cast<unsigned>((count + 255) / 256), 256, 0, stream>>>(device, count, 7);
        CHECK_LAUNCH();
        CHECK(cudaMemcpyAsync(back.data, device, count, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        for (size_t i = 0; i < count; ++i)
          back.data[i] = static_cast<unsigned char>(back.data[i] - 7);
        ExpectPattern(back.data, 0, count, seed, "of many streams");
      }
      CHECK(cudaStreamDestroy(stream));
      CHECK(cudaFree(device));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Page-locked memory belongs to no device: copies accept it with any current device.
void WhicheverIsCurrent(int devices, size_t bytes) {
  HostBuffer host(bytes, true);
  HostBuffer back(bytes, true);
  for (int device = 0; device < devices; ++device) {
    CHECK(cudaSetDevice(device));
    unsigned char* memory = nullptr;
    CHECK(cudaMalloc(&memory, bytes));
    CHECK(cudaSetDevice((device + 1) % devices));
    Fill(host.data, bytes, static_cast<unsigned>(device));
    CHECK(cudaMemcpy(memory, host.data, bytes, cudaMemcpyHostToDevice));
    std::memset(host.data, 0, bytes);
    CHECK(cudaMemcpy(back.data, memory, bytes, cudaMemcpyDefault));
    ExpectPattern(back.data, 0, bytes, static_cast<unsigned>(device), "another device is current");
    CHECK(cudaFree(memory));
  }
  CHECK(cudaSetDevice(0));
}

}  // namespace

int main(int argc, char** argv) {
  const auto piece = static_cast<size_t>(NumberArgument(argc, argv, 1, 64, 1, 1 << 16)) * 1024;
  const auto pieces = static_cast<size_t>(NumberArgument(argc, argv, 2, 4, 1, 64));
  const int devices = DeviceCount();
  const std::vector<size_t> sizes = {1,
                                     2,
                                     piece - 1,
                                     piece,
                                     piece + 1,
                                     2 * piece,
                                     piece * pieces - 1,
                                     piece * pieces,
                                     piece * pieces + 1,
                                     3 * piece * pieces + 5};
  for (const bool pinned : {false, true}) {
    RoundTrips(sizes, pinned);
    ManyStreams(devices, piece * pieces, pinned);
  }
  ThroughPinnedMemory(1000);
  ThroughPinnedMemory(piece * pieces + 3);
  WhicheverIsCurrent(devices, piece + 1);
  std::printf("transfers: pieces of %zu bytes, %d %s: %s\n", piece, devices, Devices(devices),
              Verdict(failures));
  return ExitStatus(failures);
}
