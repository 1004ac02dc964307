// Memory of one device used by others: copies of all sizes in all directions, many at once, ordered
// only by their streams. Also kernels reading and writing it, if the devices allow it.
//
//   peers [KIB]
#include <cstdint>
#include <vector>

#include "check.h"

namespace {

long failures = 0;

__device__ __host__ unsigned ValueAt(size_t i, unsigned seed) {
  return static_cast<unsigned>(i * 2654435761u) ^ (seed * 40503u);
}

__global__ void Fill(unsigned* values, size_t count, unsigned seed) {
  const size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
  if (i < count) values[i] = ValueAt(i, seed);
}

__global__ void AddFrom(unsigned* to, const unsigned* from, size_t count) {
  const size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
  if (i < count) to[i] += from[i];
}

unsigned Blocks(size_t count) { return static_cast<unsigned>((count + 255) / 256); }

void ExpectValues(int device, const unsigned* memory, size_t count, unsigned seed,
                  const char* what) {
  CHECK(cudaSetDevice(device));
  std::vector<unsigned> values(count);
  CHECK(cudaMemcpy(values.data(), memory, count * sizeof(unsigned), cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < count; ++i) {
    if (values[i] == ValueAt(i, seed)) continue;
    ++failures;
    std::fprintf(stderr, "%s: value %zu of %zu on device %d is wrong\n", what, i, count, device);
    return;
  }
}

// Copies from every device to every other at once. Each has a source, and a target for each of the
// others.
void AllToAll(int devices, size_t count, bool together) {
  struct Node {
    unsigned* source;
    std::vector<unsigned*> received;
    std::vector<cudaStream_t> streams;
  };
  std::vector<Node> nodes(devices);
  const size_t bytes = count * sizeof(unsigned);
  for (int device = 0; device < devices; ++device) {
    Node& node = nodes[device];
    CHECK(cudaSetDevice(device));
    CHECK(cudaMalloc(&node.source, bytes));
    Fill<<<Blocks(count), 256>>>(node.source, count, device + 1);
    CHECK_LAUNCH();
    node.received.resize(devices);
    node.streams.resize(devices);
    for (int from = 0; from < devices; ++from) {
      CHECK(cudaMalloc(&node.received[from], bytes));
      CHECK(cudaMemset(node.received[from], 0, bytes));
      CHECK(cudaStreamCreateWithFlags(&node.streams[from], cudaStreamNonBlocking));
    }
    CHECK(cudaDeviceSynchronize());
  }
  for (int to = 0; to < devices; ++to) {
    for (int from = 0; from < devices; ++from) {
      // A stream of one of the two devices.
      const int stream_of = (to + from) % 2 == 0 ? to : from;
      CHECK(cudaSetDevice(stream_of));
      CHECK(cudaMemcpyPeerAsync(nodes[to].received[from], to, nodes[from].source, from, bytes,
                                nodes[stream_of].streams[stream_of == to ? from : to]));
      if (!together)
        CHECK(cudaStreamSynchronize(nodes[stream_of].streams[stream_of == to ? from : to]));
    }
  }
  for (int device = 0; device < devices; ++device) {
    CHECK(cudaSetDevice(device));
    CHECK(cudaDeviceSynchronize());
  }
  for (int to = 0; to < devices; ++to)
    for (int from = 0; from < devices; ++from)
      ExpectValues(to, nodes[to].received[from], count, from + 1, "copied");
  for (int device = 0; device < devices; ++device) {
    CHECK(cudaSetDevice(device));
    CHECK(cudaFree(nodes[device].source));
    for (unsigned* memory : nodes[device].received) CHECK(cudaFree(memory));
    for (const cudaStream_t stream : nodes[device].streams) CHECK(cudaStreamDestroy(stream));
  }
}

// A kernel of device `user` reads and writes memory of `owner`, even if allocated after access was
// enabled. False if the devices do not allow it.
bool KernelsReach(int user, int owner, size_t count) {
  int can = 0;
  CHECK(cudaDeviceCanAccessPeer(&can, user, owner));
  if (can == 0) {
    CHECK(cudaSetDevice(user));
    const cudaError_t refused = cudaDeviceEnablePeerAccess(owner, 0);
    EXPECT(refused == cudaErrorPeerAccessUnsupported, "enabling: %s", cudaGetErrorName(refused));
    cudaGetLastError();
    return false;
  }
  const size_t bytes = count * sizeof(unsigned);
  unsigned* before = nullptr;
  CHECK(cudaSetDevice(owner));
  CHECK(cudaMalloc(&before, bytes));
  Fill<<<Blocks(count), 256>>>(before, count, 9);
  CHECK_LAUNCH();
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaSetDevice(user));
  CHECK(cudaDeviceEnablePeerAccess(owner, 0));
  EXPECT(cudaDeviceEnablePeerAccess(owner, 0) == cudaErrorPeerAccessAlreadyEnabled, "twice");
  cudaGetLastError();
  CHECK(cudaSetDevice(owner));
  unsigned* after = nullptr;
  CHECK(cudaMalloc(&after, bytes + (48 << 20)));
  CHECK(cudaMemset(after, 0, bytes));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaSetDevice(user));
  AddFrom<<<Blocks(count), 256>>>(after, before, count);
  CHECK_LAUNCH();
  CHECK(cudaDeviceSynchronize());
  ExpectValues(owner, after, count, 9, "written by another device's kernel");
  CHECK(cudaFree(after));
  CHECK(cudaFree(before));
  CHECK(cudaSetDevice(user));
  CHECK(cudaDeviceDisablePeerAccess(owner));
  EXPECT(cudaDeviceDisablePeerAccess(owner) == cudaErrorPeerAccessNotEnabled, "twice");
  cudaGetLastError();
  return true;
}

// The same with memory of a pool, after granting the user access.
void KernelsReachPools(int user, int owner, size_t count) {
  const size_t bytes = count * sizeof(unsigned);
  cudaMemPool_t pool = nullptr;
  CHECK(cudaSetDevice(owner));
  CHECK(cudaDeviceGetDefaultMemPool(&pool, owner));
  cudaMemAccessDesc access{};
  access.location.type = cudaMemLocationTypeDevice;
  access.location.id = user;
  const auto expect = [&](cudaMemAccessFlags expected) {
    cudaMemAccessFlags flags{};
    CHECK(cudaMemPoolGetAccess(&flags, pool, &access.location));
    EXPECT(flags == expected, "access %d", flags);
  };
  expect(cudaMemAccessFlagsProtNone);
  unsigned* before = nullptr;
  CHECK(cudaMallocAsync(&before, bytes, cudaStreamPerThread));
  Fill<<<Blocks(count), 256, 0, cudaStreamPerThread>>>(before, count, 5);
  CHECK_LAUNCH();
  access.flags = cudaMemAccessFlagsProtReadWrite;
  CHECK(cudaMemPoolSetAccess(pool, &access, 1));
  expect(cudaMemAccessFlagsProtReadWrite);
  unsigned* after = nullptr;
  CHECK(cudaMallocAsync(&after, bytes + (48 << 20), cudaStreamPerThread));
  CHECK(cudaMemsetAsync(after, 0, bytes, cudaStreamPerThread));
  CHECK(cudaStreamSynchronize(cudaStreamPerThread));
  CHECK(cudaSetDevice(user));
  // This access is independent of peer access to the device's other memory.
  CHECK(cudaDeviceEnablePeerAccess(owner, 0));
  CHECK(cudaDeviceDisablePeerAccess(owner));
  AddFrom<<<Blocks(count), 256>>>(after, before, count);
  CHECK_LAUNCH();
  CHECK(cudaDeviceSynchronize());
  ExpectValues(owner, after, count, 5, "written by another device's kernel in a pool");
  CHECK(cudaFreeAsync(after, cudaStreamPerThread));
  CHECK(cudaFreeAsync(before, cudaStreamPerThread));
  CHECK(cudaStreamSynchronize(cudaStreamPerThread));
  access.flags = cudaMemAccessFlagsProtNone;
  CHECK(cudaMemPoolSetAccess(pool, &access, 1));
  expect(cudaMemAccessFlagsProtNone);
}

}  // namespace

int main(int argc, char** argv) {
  const auto kib = static_cast<size_t>(NumberArgument(argc, argv, 1, 700, 1, 1 << 20));
  const int devices = DeviceCount();
  for (const bool together : {false, true}) {
    AllToAll(devices, 1, together);
    AllToAll(devices, kib * 256 + 3, together);
  }
  int reached = 0;
  for (int user = 0; user < devices; ++user)
    for (int owner = 0; owner < devices; ++owner)
      if (user != owner && KernelsReach(user, owner, kib * 256)) {
        KernelsReachPools(user, owner, kib * 256);
        ++reached;
      }
  // After kernels' accesses, copies still work.
  AllToAll(devices, kib * 256, true);
  std::printf("peers: %d %s, %d pairs with access: %s\n", devices, Devices(devices), reached,
              Verdict(failures));
  return ExitStatus(failures);
}
