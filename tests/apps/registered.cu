// The program's own memory, registered and used by kernels: on all devices, and in order with
// copies by the host's address.
//
//   registered [ELEMENTS]
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include "check.h"

namespace {

constexpr unsigned kThreads = 128;

__global__ void Scale(float* values, int count, float by) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] *= by;
}

__global__ void Add(float* to, const float* from, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) to[i] += from[i];
}

unsigned Blocks(int count) { return (count + kThreads - 1) / kThreads; }

// Memory of `count` elements between others.
struct Registered {
  explicit Registered(int count, float value) : around(count + 100, value) {
    CHECK(cudaHostRegister(host(), count * sizeof(float), cudaHostRegisterPortable));
  }
  ~Registered() { CHECK(cudaHostUnregister(host())); }
  Registered(const Registered&) = delete;
  float* host() { return around.data() + 37; }

  std::vector<float> around;
};

// A stream that begins its work when the program has given all of it.
struct HeldStream {
  HeldStream() { CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)); }
  ~HeldStream() { CHECK(cudaStreamDestroy(stream)); }
  HeldStream(const HeldStream&) = delete;
  void Hold() {
    open = false;
    CHECK(cudaLaunchHostFunc(
        stream,
        [](void* gate) {
          while (!static_cast<std::atomic<bool>*>(gate)->load()) std::this_thread::yield();
        },
        &open));
  }
  void Finish() {
    open = true;
    CHECK(cudaStreamSynchronize(stream));
  }

  cudaStream_t stream = nullptr;
  std::atomic<bool> open{false};
};

int CountWrong(const float* values, int count, float expected) {
  int wrong = 0;
  for (int i = 0; i < count; ++i) wrong += values[i] != expected;
  return wrong;
}

// The program's own memory, not aligned.
int CheckRegistered(int devices, int count) {
  int failures = 0;
  std::vector<float> around(count + 100, 5);
  float* const host = around.data() + 37;
  const size_t bytes = count * sizeof(float);
  for (int i = 0; i < count; ++i) host[i] = static_cast<float>(i % 1000);
  std::vector<float> expected(host, host + count);
  CHECK(cudaHostRegister(host, bytes, cudaHostRegisterMapped | cudaHostRegisterPortable));
  for (int device = 0; device < devices; ++device) {
    CHECK(cudaSetDevice(device));
    float *mapped = nullptr, *middle = nullptr, *copy = nullptr;
    CHECK(cudaHostGetDevicePointer(&mapped, host, 0));
    CHECK(cudaHostGetDevicePointer(&middle, host + count / 2, 0));
    EXPECT(middle == mapped + count / 2, "%p and %p", static_cast<void*>(mapped),
           static_cast<void*>(middle));
    CHECK(cudaMalloc(&copy, bytes));
    Scale<<<Blocks(count), kThreads>>>(mapped, count, 2);
    CHECK_LAUNCH();
    CHECK(cudaDeviceSynchronize());
    // Writes of the host, also between launches without a wait.
    for (int i = 0; i < count; i += 3) host[i] += 1;
    Scale<<<Blocks(count / 2), kThreads>>>(mapped, count / 2, 3);
    CHECK_LAUNCH();
    for (int i = count / 2; i < count; ++i) host[i] += 7;
    Add<<<Blocks(count - count / 2), kThreads>>>(middle, middle, count - count / 2);
    CHECK_LAUNCH();
    // A copy in the same stream comes after them, and so does a wait for it.
    CHECK(cudaMemcpy(copy, mapped, bytes, cudaMemcpyDefault));
    int wrong = 0;
    for (int i = 0; i < count; ++i) {
      expected[i] = expected[i] * 2 + (i % 3 == 0 ? 1 : 0);
      expected[i] = i < count / 2 ? expected[i] * 3 : (expected[i] + 7) * 2;
      wrong += host[i] != expected[i];
    }
    EXPECT(wrong == 0, "%d values are wrong after device %d", wrong, device);
    // Copies with the program's own pointer.
    Scale<<<Blocks(count), kThreads>>>(copy, count, 0.25f);
    CHECK_LAUNCH();
    CHECK(cudaMemcpy(host, copy, bytes, cudaMemcpyDeviceToHost));
    Scale<<<Blocks(count), kThreads>>>(mapped, count, 0.5f);
    CHECK_LAUNCH();
    CHECK(cudaStreamSynchronize(nullptr));
    wrong = 0;
    for (int i = 0; i < count; ++i) {
      expected[i] *= 0.125f;
      wrong += host[i] != expected[i];
    }
    EXPECT(wrong == 0, "%d copied values are wrong after device %d", wrong, device);
    CHECK(cudaFree(copy));
  }
  CHECK(cudaSetDevice(0));
  float* mapped = nullptr;
  CHECK(cudaHostGetDevicePointer(&mapped, host, 0));
  Scale<<<Blocks(count), kThreads>>>(mapped, count, 2);
  CHECK_LAUNCH();
  CHECK(cudaHostUnregister(host));
  int wrong = 0;
  for (int i = 0; i < count; ++i) wrong += host[i] != expected[i] * 2;
  for (int i = 0; i < 37; ++i) wrong += around[i] != 5 || around[37 + count + i] != 5;
  EXPECT(wrong == 0, "%d values are wrong at the end", wrong);
  void* none = nullptr;
  EXPECT(cudaHostGetDevicePointer(&none, host, 0) == cudaErrorInvalidValue,
         "it is not registered any more");
  cudaGetLastError();
  // Once more, with other contents.
  CHECK(cudaHostRegister(host, bytes, cudaHostRegisterDefault));
  for (int i = 0; i < count; ++i) host[i] = 1;
  CHECK(cudaHostGetDevicePointer(&mapped, host, 0));
  Scale<<<Blocks(count), kThreads>>>(mapped, count, 4);
  CHECK_LAUNCH();
  CHECK(cudaDeviceSynchronize());
  EXPECT(host[0] == 4 && host[count - 1] == 4, "%g and %g", host[0], host[count - 1]);
  CHECK(cudaHostUnregister(host));
  return failures;
}

// Several pieces of the program's memory, mapped while a stream waits for the host.
int CheckSeveralRegistered(int devices) {
  constexpr int kPieces = 3, kCount = 1 << 19;
  int failures = 0;
  std::vector<std::vector<float>> pieces(kPieces, std::vector<float>(kCount, 1));
  for (auto& piece : pieces)
    CHECK(cudaHostRegister(piece.data(), kCount * sizeof(float),
                           cudaHostRegisterMapped | cudaHostRegisterPortable));
  for (int device = 0; device < devices; ++device) {
    CHECK(cudaSetDevice(device));
    for (auto& piece : pieces) {
      CHECK(cudaLaunchHostFunc(
          nullptr, [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); },
          nullptr));
      float* mapped = nullptr;
      CHECK(cudaHostGetDevicePointer(&mapped, piece.data(), 0));
      Scale<<<Blocks(kCount), kThreads>>>(mapped, kCount, 2);
      CHECK_LAUNCH();
    }
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < kPieces; ++i) {
      int wrong = 0;
      for (float value : pieces[i]) wrong += value != static_cast<float>(2 << device);
      EXPECT(wrong == 0, "%d values of piece %d after device %d", wrong, i, device);
    }
  }
  for (auto& piece : pieces) CHECK(cudaHostUnregister(piece.data()));
  CHECK(cudaSetDevice(0));
  return failures;
}

// A copy reads the values of the kernels before it in its stream, and the kernels after it read the
// copied values: runs and rows of any size, from the first use of the memory by a kernel on.
// `held`: the work begins when all of it is given, and kernels have used the memory before.
int CheckOrder(int devices, int count, bool rows, bool graph, bool held) {
  int failures = 0;
  const int width = 50, pitch = rows ? 70 : width;
  const int lines = (count + pitch - 1) / pitch;
  const int cells = lines * pitch;
  const auto copy = [&](float* to, const float* from, cudaMemcpyKind kind, cudaStream_t stream) {
    if (rows)
      CHECK(cudaMemcpy2DAsync(to, pitch * sizeof(float), from, pitch * sizeof(float),
                              width * sizeof(float), lines, kind, stream));
    else
      CHECK(cudaMemcpyAsync(to, from, cells * sizeof(float), kind, stream));
  };
  const auto count_wrong = [&](const float* values, float expected, float between) {
    int wrong = 0;
    for (int i = 0; i < cells; ++i) wrong += values[i] != (i % pitch < width ? expected : between);
    return wrong;
  };
  for (int device = 0; device < devices; ++device) {
    CHECK(cudaSetDevice(device));
    Registered registered(cells, 1);
    float* const host = registered.host();
    std::vector<float> found(cells);
    float *from = nullptr, *to = nullptr;
    CHECK(cudaMalloc(&from, cells * sizeof(float)));
    CHECK(cudaMalloc(&to, cells * sizeof(float)));
    std::vector<float> threes(cells, 3);
    CHECK(cudaMemcpy(from, threes.data(), cells * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemset(to, 0, cells * sizeof(float)));
    CHECK(cudaDeviceSynchronize());
    HeldStream of;
    float* mapped = nullptr;
    if (held) CHECK(cudaHostGetDevicePointer(&mapped, host, 0));
    const auto work = [&] {
      copy(host, from, cudaMemcpyDeviceToHost, of.stream);  // 3 in each row.
      Scale<<<Blocks(cells), kThreads, 0, of.stream>>>(host, cells, 2);
      CHECK_LAUNCH();
      copy(to, host, cudaMemcpyHostToDevice, of.stream);
      Scale<<<Blocks(cells), kThreads, 0, of.stream>>>(host, cells, 2);
      CHECK_LAUNCH();
    };
    if (graph) {
      cudaGraph_t captured = nullptr;
      cudaGraphExec_t made = nullptr;
      CHECK(cudaStreamBeginCapture(of.stream, cudaStreamCaptureModeThreadLocal));
      work();
      CHECK(cudaStreamEndCapture(of.stream, &captured));
      CHECK(cudaGraphInstantiate(&made, captured, 0));
      if (held) of.Hold();
      CHECK(cudaGraphLaunch(made, of.stream));
      of.Finish();
      CHECK(cudaGraphExecDestroy(made));
      CHECK(cudaGraphDestroy(captured));
    } else {
      if (held) of.Hold();
      work();
      of.Finish();
    }
    const char* const kind = graph ? "a graph" : "a stream";
    int wrong = count_wrong(host, 12, 4);
    EXPECT(wrong == 0, "%d of %d values of the host are wrong in %s of device %d", wrong, cells,
           kind, device);
    CHECK(cudaMemcpy(found.data(), to, cells * sizeof(float), cudaMemcpyDeviceToHost));
    wrong = count_wrong(found.data(), 6, 0);
    EXPECT(wrong == 0, "%d of %d copied values are wrong in %s of device %d", wrong, cells, kind,
           device);
    // Synchronous copies, by each address.
    CHECK(cudaHostGetDevicePointer(&mapped, host, 0));
    for (int i = 0; i < cells; ++i) host[i] = 5;
    CHECK(cudaMemcpy(to, mapped, cells * sizeof(float), cudaMemcpyDefault));
    CHECK(cudaMemcpy(found.data(), to, cells * sizeof(float), cudaMemcpyDeviceToHost));
    wrong = CountWrong(found.data(), cells, 5);
    EXPECT(wrong == 0, "%d values by the device's address are wrong", wrong);
    CHECK(cudaMemcpy(host, from, cells * sizeof(float), cudaMemcpyDeviceToHost));
    wrong = CountWrong(host, cells, 3);
    EXPECT(wrong == 0, "%d values of a synchronous copy are wrong", wrong);
    CHECK(cudaMemcpy(mapped, to, cells * sizeof(float), cudaMemcpyDefault));
    wrong = CountWrong(host, cells, 5);
    EXPECT(wrong == 0, "%d values copied to the device's address are wrong", wrong);
    CHECK(cudaMemset(host, 0, cells * sizeof(float)));
    wrong = CountWrong(host, cells, 0);
    EXPECT(wrong == 0, "%d values of a set are wrong", wrong);
    CHECK(cudaFree(from));
    CHECK(cudaFree(to));
  }
  CHECK(cudaSetDevice(0));
  return failures;
}

// The first use by a kernel does not wait for copies of other memory.
int CheckUnrelated(int count) {
  int failures = 0;
  Registered registered(count, 1);
  Registered unrelated(count, 1);
  float* from = nullptr;
  CHECK(cudaMalloc(&from, count * sizeof(float)));
  CHECK(cudaDeviceSynchronize());
  HeldStream of;
  of.Hold();
  CHECK(cudaMemcpyAsync(unrelated.host(), from, count * sizeof(float), cudaMemcpyDeviceToHost,
                        of.stream));
  HeldStream other;
  Scale<<<Blocks(count), kThreads, 0, other.stream>>>(registered.host(), count, 2);
  CHECK_LAUNCH();
  CHECK(cudaStreamSynchronize(other.stream));
  const int wrong = CountWrong(registered.host(), count, 2);
  EXPECT(wrong == 0, "%d values are wrong", wrong);
  of.Finish();
  CHECK(cudaFree(from));
  return failures;
}

// The host finds copied values without a call, as the last ones arrive.
int CheckPolled(int count) {
  int failures = 0;
  Registered registered(count, 1);
  float *mapped = nullptr, *from = nullptr;
  CHECK(cudaHostGetDevicePointer(&mapped, registered.host(), 0));
  std::vector<float> threes(count, 3);
  CHECK(cudaMalloc(&from, count * sizeof(float)));
  CHECK(cudaMemcpy(from, threes.data(), count * sizeof(float), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpyAsync(registered.host(), from, count * sizeof(float), cudaMemcpyDeviceToHost));
  const volatile float* const last = registered.host() + count - 1;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (*last != 3 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT(*last == 3, "the last value is %g", static_cast<double>(*last));
  CHECK(cudaDeviceSynchronize());
  const int wrong = CountWrong(registered.host(), count, 3);
  EXPECT(wrong == 0, "%d values are wrong", wrong);
  CHECK(cudaFree(from));
  return failures;
}

}  // namespace

int main(int argc, char** argv) {
  const int count = static_cast<int>(NumberArgument(argc, argv, 1, 100000, 100, 1 << 26));
  const int devices = DeviceCount();
  int failures = CheckRegistered(devices, count);
  failures += CheckSeveralRegistered(devices);
  for (const int size : {50, 1000, count, 5 * count}) {
    for (const bool rows : {false, true}) {
      for (const bool graph : {false, true}) {
        for (const bool held : {false, true})
          failures += CheckOrder(devices, size, rows, graph, held);
      }
    }
  }
  for (const int size : {count, 5 * count, 2 << 20}) {
    failures += CheckUnrelated(size);
    failures += CheckPolled(size);
  }
  std::printf("registered: %d elements on %d %s: %s\n", count, devices, Devices(devices),
              Verdict(failures));
  return ExitStatus(failures);
}
