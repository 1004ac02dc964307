// NCCL for the programs of this folder: its functions by name, a communicator with a rank on each
// device, and buffers of known numbers.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "check.h"

inline long failures = 0;

// --- Declarations of nccl.h used here: toolkits do not contain this header
using Comm = struct CommOfNccl*;
struct Id {
  char bytes[128];
};
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef, version = 21800;
  int blocking = 1;
  int unset[3] = {INT32_MIN, INT32_MIN, INT32_MIN};
  const char* network = nullptr;
  int split_share = INT32_MIN;
};
enum Result { kSuccess = 0, kInvalidArgument = 4, kInvalidUsage = 5, kInProgress = 7 };
enum Type { kInt8, kUint8, kInt32, kUint32, kInt64, kUint64, kHalf, kFloat, kDouble, kBfloat16 };
enum Op { kSum, kProduct, kMaximum, kMinimum, kAverage };

inline void* Function(const char* name) {
  static void* const library = dlopen("libnccl.so.2", RTLD_NOW);
  void* const function = library != nullptr ? dlsym(library, name) : nullptr;
  if (function == nullptr) {
    std::fprintf(stderr, "no %s: %s\n", name, dlerror());
    std::exit(EXIT_FAILURE);
  }
  return function;
}

template <typename... Arguments>
int Call(const char* name, Arguments... arguments) {
  return reinterpret_cast<int (*)(Arguments...)>(Function(name))(arguments...);
}

inline const char* TextOf(int result) {
  return reinterpret_cast<const char* (*)(int)>(Function("ncclGetErrorString"))(result);
}
inline const char* LastError() {
  return reinterpret_cast<const char* (*)(Comm)>(Function("ncclGetLastError"))(nullptr);
}

#define NCCL(call)                                                                                 \
  do {                                                                                             \
    const int nccl_result = (call);                                                                \
    if (nccl_result != kSuccess) {                                                                 \
      std::fprintf(stderr, "%s:%d: %s: %s (%s)\n", __FILE__, __LINE__, #call, TextOf(nccl_result), \
                   LastError());                                                                   \
      std::exit(EXIT_FAILURE);                                                                     \
    }                                                                                              \
  } while (false)

// --- Elements: small numbers, exact in all types, also as sums over eight ranks
template <typename T>
T Number(int value) {
  return static_cast<T>(static_cast<float>(value));
}
inline int ValueAt(int rank, size_t i) {
  return static_cast<int>((i * 7 + static_cast<size_t>(rank) * 3) % 4);
}

inline int version = 0;  // NCCL's version.
inline int devices = 0;

// One rank on each device, each with a stream.
struct Ranks {
  std::vector<Comm> comms;
  std::vector<cudaStream_t> streams;
  Ranks() : comms(devices), streams(devices) {
    Id id;
    CHECK(cudaSetDevice(0));
    NCCL(Call("ncclGetUniqueId", &id));
    NCCL(Call("ncclGroupStart"));
    for (int rank = 0; rank < devices; ++rank) {
      CHECK(cudaSetDevice(rank));
      CHECK(cudaStreamCreateWithFlags(&streams[rank], cudaStreamNonBlocking));
      NCCL(Call("ncclCommInitRank", &comms[rank], devices, id, rank));
    }
    NCCL(Call("ncclGroupEnd"));
  }
  ~Ranks() {
    for (int rank = 0; rank < devices; ++rank) {
      CHECK(cudaSetDevice(rank));
      CHECK(cudaStreamSynchronize(streams[rank]));
      NCCL(Call("ncclCommDestroy", comms[rank]));
      CHECK(cudaStreamDestroy(streams[rank]));
    }
  }
  // Calls each(rank) for all ranks in one group. Each call returns a result.
  template <typename Each>
  void Group(Each&& each) const {
    NCCL(Call("ncclGroupStart"));
    for (int rank = 0; rank < devices; ++rank) {
      CHECK(cudaSetDevice(rank));
      NCCL(each(rank));
    }
    NCCL(Call("ncclGroupEnd"));
  }
  void Wait() const {
    for (int rank = 0; rank < devices; ++rank) {
      CHECK(cudaSetDevice(rank));
      CHECK(cudaStreamSynchronize(streams[rank]));
    }
  }
};

// Buffers of `count` elements per rank, for all ranks, on each device.
template <typename T>
struct Buffers {
  std::vector<T*> send, receive;
  const size_t count;
  explicit Buffers(size_t count) : send(devices), receive(devices), count(count) {
    for (int rank = 0; rank < devices; ++rank) {
      CHECK(cudaSetDevice(rank));
      const size_t elements = count * static_cast<size_t>(devices);
      CHECK(cudaMalloc(&send[rank], elements * sizeof(T)));
      CHECK(cudaMalloc(&receive[rank], elements * sizeof(T)));
      std::vector<T> values(elements);
      for (size_t i = 0; i < elements; ++i) values[i] = Number<T>(ValueAt(rank, i));
      CHECK(cudaMemcpy(send[rank], values.data(), elements * sizeof(T), cudaMemcpyHostToDevice));
      CHECK(cudaMemset(receive[rank], 0xee, elements * sizeof(T)));
      CHECK(cudaDeviceSynchronize());
    }
  }
  ~Buffers() {
    for (int rank = 0; rank < devices; ++rank) {
      CHECK(cudaSetDevice(rank));
      CHECK(cudaFree(send[rank]));
      CHECK(cudaFree(receive[rank]));
    }
  }
  // wanted(rank, i) returns the expected float, or less than -1000 for any value.
  template <typename Wanted>
  void Expect(const char* what, const std::vector<T*>& where, size_t elements, Wanted&& wanted) {
    for (int rank = 0; rank < devices; ++rank) {
      CHECK(cudaSetDevice(rank));
      std::vector<T> got(elements);
      CHECK(cudaMemcpy(got.data(), where[rank], elements * sizeof(T), cudaMemcpyDeviceToHost));
      long wrong = 0;
      size_t first = 0;
      for (size_t i = 0; i < elements; ++i) {
        const float want = wanted(rank, i);
        if (want < -1000.F || static_cast<float>(got[i]) == want) continue;
        if (wrong++ == 0) first = i;
      }
      EXPECT(wrong == 0,
             "%s, rank %d of %d: %ld of %zu elements are wrong, the first is %zu: %g, not %g", what,
             rank, devices, wrong, elements, first, static_cast<double>(got[first]),
             static_cast<double>(wanted(rank, first)));
    }
  }
};
inline constexpr float kAsItWas = -1e6F;

inline float Reduced(Op op, size_t i) {
  float result = static_cast<float>(ValueAt(0, i));
  for (int rank = 1; rank < devices; ++rank) {
    const float value = static_cast<float>(ValueAt(rank, i));
    if (op == kSum || op == kAverage) result += value;
    if (op == kProduct) result *= value;
    if (op == kMaximum) result = std::max(result, value);
    if (op == kMinimum) result = std::min(result, value);
  }
  return op == kAverage ? result / static_cast<float>(devices) : result;
}
