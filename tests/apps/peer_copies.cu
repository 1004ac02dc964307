// Copies between devices, with contents written and checked by kernels: sizes around those of any
// chunk, odd addresses, boxes, and order in streams of both devices and of a third one. Also chains
// over all devices, and many copies in all directions, from several threads, and after a reset.
//
//   peer_copies [CHUNK_KIB [CHUNKS [SEED]]]    sizes around one chunk, and around CHUNKS chunks
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include "check.h"

namespace {

long failures = 0;

__device__ unsigned char ByteAt(size_t i, unsigned seed) {
  unsigned x = static_cast<unsigned>(i) * 2654435761u + static_cast<unsigned>(i >> 32) + seed;
  x ^= x >> 15;
  x *= 2246822519u;
  return static_cast<unsigned char>(x >> 13);
}

__global__ void Fill(unsigned char* bytes, size_t count, unsigned seed) {
  const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < count; i += step)
    bytes[i] = ByteAt(i, seed);
}

__global__ void CountWrong(const unsigned char* bytes, size_t count, unsigned seed,
                           unsigned* wrong) {
  const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < count; i += step)
    if (bytes[i] != ByteAt(i, seed)) atomicAdd(wrong, 1);
}

__global__ void CountOthers(const unsigned char* bytes, size_t count, unsigned char value,
                            unsigned* wrong) {
  const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < count; i += step)
    if (bytes[i] != value) atomicAdd(wrong, 1);
}

// Counts bytes in rows of a pitched box different from those of a packed one.
__global__ void CountWrongRows(const unsigned char* bytes, size_t pitch, size_t width, size_t rows,
                               size_t source_pitch, unsigned seed, unsigned* wrong) {
  const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < width * rows;
       i += step) {
    const size_t row = i / width;
    const size_t column = i % width;
    if (bytes[row * pitch + column] != ByteAt(row * source_pitch + column, seed))
      atomicAdd(wrong, 1);
  }
}

__global__ void Add(unsigned* values, size_t count, unsigned what) {
  const size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
  if (i < count) values[i] += what;
}

constexpr int kBlocks = 64;
constexpr int kThreads = 256;
constexpr size_t kMargin = 64;  // Bytes around the target, left unchanged.
constexpr unsigned char kUntouched = 0xa5;

// Counts wrong bytes on one device.
class Counter {
 public:
  explicit Counter(int device) : device_(device) {
    CHECK(cudaSetDevice(device_));
    CHECK(cudaMalloc(&wrong_, sizeof(unsigned)));
    CHECK(cudaMemset(wrong_, 0, sizeof(unsigned)));
    CHECK(cudaDeviceSynchronize());
  }
  unsigned* get() const { return wrong_; }
  // Expects none, after all work submitted to `stream`.
  void Expect(cudaStream_t stream, const char* what, size_t bytes) {
    unsigned wrong = 0;
    CHECK(cudaSetDevice(device_));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(&wrong, wrong_, sizeof wrong, cudaMemcpyDeviceToHost));
    EXPECT(wrong == 0, "%u of %zu bytes on device %d: %s", wrong, bytes, device_, what);
    CHECK(cudaMemset(wrong_, 0, sizeof(unsigned)));
    CHECK(cudaDeviceSynchronize());
  }
  void Free() {
    CHECK(cudaSetDevice(device_));
    CHECK(cudaFree(wrong_));
  }

 private:
  int device_;
  unsigned* wrong_ = nullptr;
};

struct Node {
  unsigned char* memory = nullptr;
  cudaStream_t stream = nullptr;
};

Node MakeNode(int device, size_t bytes) {
  Node node;
  CHECK(cudaSetDevice(device));
  CHECK(cudaMalloc(&node.memory, bytes));
  CHECK(cudaStreamCreateWithFlags(&node.stream, cudaStreamNonBlocking));
  return node;
}

void FreeNode(int device, const Node& node) {
  CHECK(cudaSetDevice(device));
  CHECK(cudaStreamDestroy(node.stream));
  CHECK(cudaFree(node.memory));
}

// Copies one size from `from` to `to`, in the order of a stream of `stream_of`.
void OneSize(int from, int to, int stream_of, size_t bytes, size_t offset, unsigned seed) {
  const Node source = MakeNode(from, bytes + offset + 1);
  const Node target = MakeNode(to, bytes + 2 * kMargin);
  Node ordering = stream_of == from ? source : target;
  if (stream_of != from && stream_of != to) ordering = MakeNode(stream_of, 1);
  Counter counter(to);
  CHECK(cudaSetDevice(to));
  CHECK(cudaMemsetAsync(target.memory, kUntouched, bytes + 2 * kMargin, target.stream));
  CHECK(cudaStreamSynchronize(target.stream));
  CHECK(cudaSetDevice(from));
  Fill<<<kBlocks, kThreads, 0, source.stream>>>(source.memory + offset, bytes, seed);
  CHECK_LAUNCH();
  // The copy follows the kernel by its stream's order, or by this wait.
  if (stream_of != from) CHECK(cudaStreamSynchronize(source.stream));
  CHECK(cudaSetDevice(stream_of));
  CHECK(cudaMemcpyPeerAsync(target.memory + kMargin, to, source.memory + offset, from, bytes,
                            ordering.stream));
  // Work after the copy in its stream follows it too: here it overwrites the source.
  CHECK(cudaSetDevice(from));
  if (stream_of == from) {
    if (bytes != 0) CHECK(cudaMemsetAsync(source.memory + offset, 0, bytes, source.stream));
    CHECK(cudaStreamSynchronize(source.stream));
  } else if (stream_of != to) {
    CHECK(cudaSetDevice(stream_of));
    CHECK(cudaStreamSynchronize(ordering.stream));
  }
  CHECK(cudaSetDevice(to));
  CountWrong<<<kBlocks, kThreads, 0, target.stream>>>(target.memory + kMargin, bytes, seed,
                                                      counter.get());
  CountOthers<<<1, kThreads, 0, target.stream>>>(target.memory, kMargin, kUntouched, counter.get());
  CountOthers<<<1, kThreads, 0, target.stream>>>(target.memory + kMargin + bytes, kMargin,
                                                 kUntouched, counter.get());
  CHECK_LAUNCH();
  counter.Expect(target.stream, "one copy", bytes);
  counter.Free();
  if (stream_of != from && stream_of != to) FreeNode(stream_of, ordering);
  FreeNode(from, source);
  FreeNode(to, target);
}

// Every pair of neighbours, both ways, all sizes.
void Sizes(int devices, size_t chunk, size_t chunks, unsigned seed) {
  const size_t sizes[] = {0,         1,         chunk - 1,          chunk,
                          chunk + 1, 3 * chunk, chunks * chunk - 1, chunks * chunk + 1};
  for (int from = 0; from < devices; ++from) {
    const int to = (from + 1) % devices;
    for (const size_t bytes : sizes) {
      OneSize(from, to, to, bytes, 3, ++seed);
      OneSize(from, to, from, bytes, 0, ++seed);
    }
    OneSize(from, to, (from + 2) % devices, chunk + 5, 1, ++seed);
  }
}

void SynchronizeBoth(int from, int to) {
  for (const int device : {from, to}) {
    CHECK(cudaSetDevice(device));
    CHECK(cudaDeviceSynchronize());
  }
}

// The forms of the call.
void Forms(int from, int to, size_t bytes, unsigned seed) {
  const Node source = MakeNode(from, bytes);
  const Node target = MakeNode(to, bytes);
  Counter counter(to);
  for (int form = 0; form < 4; ++form) {
    CHECK(cudaSetDevice(from));
    Fill<<<kBlocks, kThreads, 0, source.stream>>>(source.memory, bytes, ++seed);
    CHECK_LAUNCH();
    // The stream is non-blocking. Most forms use the default stream, so they need this wait.
    SynchronizeBoth(from, to);
    CHECK(cudaSetDevice(form % 2 == 0 ? from : to));
    switch (form) {
      case 0:
        CHECK(cudaMemcpyPeer(target.memory, to, source.memory, from, bytes));
        break;
      case 1:
        CHECK(cudaMemcpy(target.memory, source.memory, bytes, cudaMemcpyDeviceToDevice));
        break;
      case 2:
        CHECK(
            cudaMemcpyAsync(target.memory, source.memory, bytes, cudaMemcpyDefault, source.stream));
        break;
      default:
        CHECK(cudaMemcpyAsync(target.memory, source.memory, bytes, cudaMemcpyDefault));
        break;
    }
    SynchronizeBoth(from, to);
    CHECK(cudaSetDevice(to));
    CountWrong<<<kBlocks, kThreads, 0, target.stream>>>(target.memory, bytes, seed, counter.get());
    CHECK_LAUNCH();
    counter.Expect(target.stream, "a form of the call", bytes);
  }
  const cudaError_t past =
      cudaMemcpyPeer(target.memory, to, source.memory, from, bytes + (64 << 20));
  EXPECT(past == cudaErrorInvalidValue, "past the end: %s", cudaGetErrorName(past));
  cudaGetLastError();
  counter.Free();
  FreeNode(from, source);
  FreeNode(to, target);
}

// Rows with gaps on both sides.
void Rows(int from, int to, size_t width, size_t rows, unsigned seed) {
  const size_t source_pitch = width + 5;
  size_t pitch = 0;
  unsigned char* target = nullptr;
  const Node source = MakeNode(from, source_pitch * rows);
  Fill<<<kBlocks, kThreads, 0, source.stream>>>(source.memory, source_pitch * rows, seed);
  CHECK_LAUNCH();
  CHECK(cudaStreamSynchronize(source.stream));
  Counter counter(to);
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaMallocPitch(&target, &pitch, width, rows));
  cudaMemcpy3DPeerParms copy{};
  copy.srcDevice = from;
  copy.srcPtr = make_cudaPitchedPtr(source.memory, source_pitch, source_pitch, rows);
  copy.dstDevice = to;
  copy.dstPtr = make_cudaPitchedPtr(target, pitch, width, rows);
  copy.extent = make_cudaExtent(width, rows, 1);
  CHECK(cudaMemcpy3DPeerAsync(&copy, stream));
  CountWrongRows<<<kBlocks, kThreads, 0, stream>>>(target, pitch, width, rows, source_pitch, seed,
                                                   counter.get());
  CHECK_LAUNCH();
  counter.Expect(stream, "rows", width * rows);
  CHECK(cudaMemset(target, 0, pitch * rows));
  SynchronizeBoth(from, to);
  CHECK(cudaMemcpy2D(target, pitch, source.memory, source_pitch, width, rows,
                     cudaMemcpyDeviceToDevice));
  SynchronizeBoth(from, to);
  CHECK(cudaSetDevice(to));
  CountWrongRows<<<kBlocks, kThreads, 0, stream>>>(target, pitch, width, rows, source_pitch, seed,
                                                   counter.get());
  CHECK_LAUNCH();
  counter.Expect(stream, "rows at once", width * rows);
  CHECK(cudaFree(target));
  CHECK(cudaStreamDestroy(stream));
  counter.Free();
  FreeNode(from, source);
}

// A value passed from device to device, each adding to it: no wait on the host, only events between
// the streams.
void Chain(int devices, int rounds, size_t count) {
  std::vector<Node> nodes;
  std::vector<cudaEvent_t> events(devices);
  for (int device = 0; device < devices; ++device) {
    nodes.push_back(MakeNode(device, count * sizeof(unsigned)));
    CHECK(cudaEventCreateWithFlags(&events[device], cudaEventDisableTiming));
    CHECK(cudaMemset(nodes[device].memory, 0, count * sizeof(unsigned)));
    CHECK(cudaDeviceSynchronize());
  }
  const auto blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads);
  unsigned sum = 0;
  int at = 0;
  for (int step = 0; step < rounds * devices; ++step) {
    const int next = (at + 1) % devices;
    CHECK(cudaSetDevice(at));
    Add<<<blocks, kThreads, 0, nodes[at].stream>>>(reinterpret_cast<unsigned*>(nodes[at].memory),
                                                   count, step + 1);
    CHECK_LAUNCH();
    sum += step + 1;
    // Alternates between the source's stream and the target's.
    if (step % 2 == 0) {
      CHECK(cudaMemcpyPeerAsync(nodes[next].memory, next, nodes[at].memory, at,
                                count * sizeof(unsigned), nodes[at].stream));
      CHECK(cudaEventRecord(events[at], nodes[at].stream));
      CHECK(cudaSetDevice(next));
      CHECK(cudaStreamWaitEvent(nodes[next].stream, events[at], 0));
    } else {
      CHECK(cudaEventRecord(events[at], nodes[at].stream));
      CHECK(cudaSetDevice(next));
      CHECK(cudaStreamWaitEvent(nodes[next].stream, events[at], 0));
      CHECK(cudaMemcpyPeerAsync(nodes[next].memory, next, nodes[at].memory, at,
                                count * sizeof(unsigned), nodes[next].stream));
    }
    at = next;
  }
  std::vector<unsigned> values(count);
  CHECK(cudaSetDevice(at));
  CHECK(cudaStreamSynchronize(nodes[at].stream));
  CHECK(cudaMemcpy(values.data(), nodes[at].memory, count * sizeof(unsigned),
                   cudaMemcpyDeviceToHost));
  long wrong = 0;
  for (const unsigned value : values) wrong += value != sum;
  EXPECT(wrong == 0, "%ld of %zu values after %d steps", wrong, count, rounds * devices);
  for (int device = 0; device < devices; ++device) {
    CHECK(cudaEventDestroy(events[device]));
    FreeNode(device, nodes[device]);
  }
}

// Copies from every device to every other at once, several times in a row without a wait, in both
// devices' streams. Later copies overwrite earlier ones.
void AllAtOnce(int devices, size_t chunk, size_t chunks, unsigned seed) {
  std::minstd_rand random(seed);
  struct Edge {
    int from, to;
    size_t bytes;
    Node source, target;
  };
  std::vector<Edge> edges;
  for (int from = 0; from < devices; ++from) {
    for (int to = 0; to < devices; ++to) {
      if (from == to) continue;
      const size_t bytes = 1 + random() % (2 * chunks * chunk);
      edges.push_back({from, to, bytes, MakeNode(from, bytes), MakeNode(to, bytes)});
    }
  }
  constexpr int kRounds = 3;
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < edges.size(); ++i) {
      const Edge& edge = edges[i];
      CHECK(cudaSetDevice(edge.from));
      Fill<<<kBlocks, kThreads, 0, edge.source.stream>>>(
          edge.source.memory, edge.bytes, static_cast<unsigned>(seed + round * edges.size() + i));
      CHECK_LAUNCH();
      CHECK(cudaMemcpyPeerAsync(edge.target.memory, edge.to, edge.source.memory, edge.from,
                                edge.bytes, edge.source.stream));
    }
  }
  for (size_t i = 0; i < edges.size(); ++i) {
    const Edge& edge = edges[i];
    CHECK(cudaSetDevice(edge.from));
    CHECK(cudaStreamSynchronize(edge.source.stream));
    Counter counter(edge.to);
    CountWrong<<<kBlocks, kThreads, 0, edge.target.stream>>>(
        edge.target.memory, edge.bytes,
        static_cast<unsigned>(seed + (kRounds - 1) * edges.size() + i), counter.get());
    CHECK_LAUNCH();
    counter.Expect(edge.target.stream, "all at once", edge.bytes);
    counter.Free();
  }
  for (const Edge& edge : edges) {
    FreeNode(edge.from, edge.source);
    FreeNode(edge.to, edge.target);
  }
}

// A copy in a graph launched repeatedly.
void InGraph(int from, int to, size_t bytes, unsigned seed) {
  const Node source = MakeNode(from, bytes);
  const Node target = MakeNode(to, bytes);
  Counter counter(to);
  CHECK(cudaSetDevice(from));
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  CHECK(cudaStreamBeginCapture(source.stream, cudaStreamCaptureModeThreadLocal));
  CHECK(cudaMemcpyAsync(target.memory, source.memory, bytes, cudaMemcpyDefault, source.stream));
  CHECK(cudaStreamEndCapture(source.stream, &graph));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  for (int round = 0; round < 3; ++round) {
    CHECK(cudaSetDevice(from));
    Fill<<<kBlocks, kThreads, 0, source.stream>>>(source.memory, bytes, ++seed);
    CHECK_LAUNCH();
    CHECK(cudaGraphLaunch(executable, source.stream));
    CHECK(cudaStreamSynchronize(source.stream));
    CHECK(cudaSetDevice(to));
    CountWrong<<<kBlocks, kThreads, 0, target.stream>>>(target.memory, bytes, seed, counter.get());
    CHECK_LAUNCH();
    counter.Expect(target.stream, "in a graph", bytes);
  }
  CHECK(cudaGraphExecDestroy(executable));
  CHECK(cudaGraphDestroy(graph));
  counter.Free();
  FreeNode(from, source);
  FreeNode(to, target);
}

// Several threads submit copies to the same two streams, one of each device, in both directions.
// Each thread has its own memory.
void FromThreads(int from, int to, size_t bytes, unsigned seed) {
  constexpr int kWriters = 4;
  constexpr int kCopies = 12;
  const Node here = MakeNode(from, 2 * kWriters * bytes);
  const Node there = MakeNode(to, 2 * kWriters * bytes);
  CHECK(cudaSetDevice(from));
  Fill<<<kBlocks, kThreads, 0, here.stream>>>(here.memory, kWriters * bytes, seed);
  CHECK_LAUNCH();
  CHECK(cudaStreamSynchronize(here.stream));
  CHECK(cudaSetDevice(to));
  Fill<<<kBlocks, kThreads, 0, there.stream>>>(there.memory, kWriters * bytes, seed + 1);
  CHECK_LAUNCH();
  CHECK(cudaStreamSynchronize(there.stream));
  std::vector<std::thread> writers;
  for (int writer = 0; writer < kWriters; ++writer) {
    writers.emplace_back([=] {
      const size_t source = writer * bytes;
      const size_t target = (kWriters + writer) * bytes;
      for (int i = 0; i < kCopies; ++i) {
        const cudaStream_t stream = (i + writer) % 2 == 0 ? here.stream : there.stream;
        CHECK(cudaMemcpyPeerAsync(there.memory + target, to, here.memory + source, from, bytes,
                                  stream));
        CHECK(cudaMemcpyPeerAsync(here.memory + target, from, there.memory + source, to, bytes,
                                  stream));
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  SynchronizeBoth(from, to);
  for (const int device : {from, to}) {
    Counter counter(device);
    const Node& node = device == from ? here : there;
    CountWrong<<<kBlocks, kThreads, 0, node.stream>>>(
        node.memory + kWriters * bytes, kWriters * bytes, device == from ? seed + 1 : seed,
        counter.get());
    CHECK_LAUNCH();
    counter.Expect(node.stream, "by several threads", kWriters * bytes);
    counter.Free();
  }
  FreeNode(from, here);
  FreeNode(to, there);
}

}  // namespace

int main(int argc, char** argv) {
  const auto chunk = static_cast<size_t>(NumberArgument(argc, argv, 1, 64, 1, 1 << 16)) << 10;
  const auto chunks = static_cast<size_t>(NumberArgument(argc, argv, 2, 4, 1, 64));
  const auto seed = static_cast<unsigned>(NumberArgument(argc, argv, 3, 1, 0, 1 << 30));
  const int devices = DeviceCount();
  Sizes(devices, chunk, chunks, seed);
  const int next = 1 % devices;
  if (devices > 1) {
    Forms(0, next, 2 * chunk + 7, seed);
    Forms(next, 0, 100, seed);
  }
  Rows(0, next, 1000, chunk / 250, seed);
  Rows(next, 0, chunk + 3, 3, seed);
  Chain(devices, 5, chunk / 3);
  AllAtOnce(devices, chunk, chunks, seed);
  InGraph(0, next, chunk + 1, seed);
  FromThreads(0, next, chunk / 2 + 1, seed);
  if (devices > 1) {
    CHECK(cudaSetDevice(next));
    CHECK(cudaDeviceReset());
    Forms(0, next, chunk + 1, seed);
  }
  std::printf("peer_copies: %d %s: %s\n", devices, Devices(devices), Verdict(failures));
  return ExitStatus(failures);
}
