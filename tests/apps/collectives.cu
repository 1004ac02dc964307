// NCCL in one process with all devices: a rank on each. Every kind of call, for several types and
// sizes, and calls beside kernels, in streams, in groups and in graphs.
//
//   collectives [MOST_ELEMENTS [SEED]]
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <atomic>
#include <memory>
#include <random>
#include <thread>

#include "nccl.h"

namespace {

// --- Every kind of call
template <typename T>
void Kinds(const Ranks& ranks, Type type, size_t count) {
  const int root = devices - 1;
  const auto own = [&](int rank) { return static_cast<size_t>(rank) * count; };
  for (const Op op : {kSum, kProduct, kMaximum, kMinimum}) {
    Buffers<T> b(count);
    ranks.Group([&](int r) {
      return Call("ncclAllReduce", b.send[r], b.receive[r], count, static_cast<int>(type),
                  static_cast<int>(op), ranks.comms[r], ranks.streams[r]);
    });
    ranks.Wait();
    b.Expect("all-reduce", b.receive, count, [&](int, size_t i) { return Reduced(op, i); });
    b.Expect("what was all-reduced", b.send, count,
             [&](int r, size_t i) { return static_cast<float>(ValueAt(r, i)); });
    ranks.Group([&](int r) {
      return Call("ncclReduceScatter", b.send[r], b.receive[r], count, static_cast<int>(type),
                  static_cast<int>(op), ranks.comms[r], ranks.streams[r]);
    });
    ranks.Wait();
    b.Expect("reduce-scatter", b.receive, count,
             [&](int r, size_t i) { return Reduced(op, own(r) + i); });
  }
  Buffers<T> b(count);
  ranks.Group([&](int r) {
    return Call("ncclReduce", b.send[r], r == root ? b.receive[r] : nullptr, count,
                static_cast<int>(type), static_cast<int>(kSum), root, ranks.comms[r],
                ranks.streams[r]);
  });
  ranks.Wait();
  b.Expect("reduce", b.receive, count,
           [&](int r, size_t i) { return r == root ? Reduced(kSum, i) : kAsItWas; });
  ranks.Group([&](int r) {
    return Call("ncclBroadcast", b.send[r], b.receive[r], count, static_cast<int>(type), root,
                ranks.comms[r], ranks.streams[r]);
  });
  ranks.Wait();
  b.Expect("broadcast", b.receive, count,
           [&](int, size_t i) { return static_cast<float>(ValueAt(root, i)); });
  const auto gathered = [&](int, size_t i) {
    return static_cast<float>(ValueAt(static_cast<int>(i / count), i % count));
  };
  ranks.Group([&](int r) {
    return Call("ncclAllGather", b.send[r], b.receive[r], count, static_cast<int>(type),
                ranks.comms[r], ranks.streams[r]);
  });
  ranks.Wait();
  b.Expect("all-gather", b.receive, count * static_cast<size_t>(devices), gathered);
  // All-to-all by sends and receives.
  const auto exchanged = [&](int r, size_t i) {
    return static_cast<float>(ValueAt(static_cast<int>(i / count), own(r) + i % count));
  };
  NCCL(Call("ncclGroupStart"));
  for (int r = 0; r < devices; ++r) {
    for (int peer = 0; peer < devices; ++peer) {
      NCCL(Call("ncclSend", b.send[r] + own(peer), count, static_cast<int>(type), peer,
                ranks.comms[r], ranks.streams[r]));
      NCCL(Call("ncclRecv", b.receive[r] + own(peer), count, static_cast<int>(type), peer,
                ranks.comms[r], ranks.streams[r]));
    }
  }
  NCCL(Call("ncclGroupEnd"));
  ranks.Wait();
  b.Expect("sends and receives", b.receive, count * static_cast<size_t>(devices), exchanged);
  if (version < 22800) return;
  Buffers<T> c(count);
  ranks.Group([&](int r) {
    return Call("ncclAlltoAll", c.send[r], c.receive[r], count, static_cast<int>(type),
                ranks.comms[r], ranks.streams[r]);
  });
  ranks.Wait();
  c.Expect("all-to-all", c.receive, count * static_cast<size_t>(devices), exchanged);
  ranks.Group([&](int r) {
    return Call("ncclGather", c.send[r], c.receive[r], count, static_cast<int>(type), root,
                ranks.comms[r], ranks.streams[r]);
  });
  ranks.Wait();
  c.Expect("gather", c.receive, count * static_cast<size_t>(devices),
           [&](int r, size_t i) { return r == root ? gathered(r, i) : kAsItWas; });
  ranks.Group([&](int r) {
    return Call("ncclScatter", c.send[r], c.receive[r], count, static_cast<int>(type), root,
                ranks.comms[r], ranks.streams[r]);
  });
  ranks.Wait();
  c.Expect("scatter", c.receive, count,
           [&](int r, size_t i) { return static_cast<float>(ValueAt(root, own(r) + i)); });
}

void InPlaceAndAverage(const Ranks& ranks, size_t count) {
  Buffers<float> b(count);
  ranks.Group([&](int r) {
    return Call("ncclAllReduce", b.send[r], b.send[r], count, static_cast<int>(kFloat),
                static_cast<int>(kAverage), ranks.comms[r], ranks.streams[r]);
  });
  ranks.Wait();
  b.Expect("average in place", b.send, count, [](int, size_t i) { return Reduced(kAverage, i); });
}

void Factors(const Ranks& ranks, size_t count) {
  // NCCL 2.28.3 with one rank leaves the last count mod 4 elements as they were, if the count is
  // large (measured natively on an H200: 100,003 elements, 3 missing).
  if (devices == 1) count -= count % 4;
  Buffers<float> b(count);
  std::vector<int> op(devices), on_device(devices);
  std::vector<float*> factor(devices);
  for (int r = 0; r < devices; ++r) {
    CHECK(cudaSetDevice(r));
    float two = 2.F;
    NCCL(Call("ncclRedOpCreatePreMulSum", &op[r], &two, static_cast<int>(kFloat), 1,
              ranks.comms[r]));
    two = 0.F;  // Already copied.
    const float three = 3.F;
    CHECK(cudaMalloc(&factor[r], sizeof(float)));
    CHECK(cudaMemcpy(factor[r], &three, sizeof three, cudaMemcpyHostToDevice));
    NCCL(Call("ncclRedOpCreatePreMulSum", &on_device[r], factor[r], static_cast<int>(kFloat), 0,
              ranks.comms[r]));
  }
  for (const bool device : {false, true}) {
    ranks.Group([&](int r) {
      return Call("ncclAllReduce", b.send[r], b.receive[r], count, static_cast<int>(kFloat),
                  device ? on_device[r] : op[r], ranks.comms[r], ranks.streams[r]);
    });
    if (device)
      for (int r = 0; r < devices; ++r)
        NCCL(Call("ncclRedOpDestroy", on_device[r], ranks.comms[r]));
    ranks.Wait();
    b.Expect("a sum of multiples", b.receive, count,
             [&](int, size_t i) { return Reduced(kSum, i) * (device ? 3.F : 2.F); });
  }
  for (int r = 0; r < devices; ++r) {
    NCCL(Call("ncclRedOpDestroy", op[r], ranks.comms[r]));
    CHECK(cudaSetDevice(r));
    CHECK(cudaFree(factor[r]));
  }
}

// --- Beside kernels
__global__ void AddOne(float* values, size_t count) {
  const size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
  if (i < count) values[i] += 1.F;
}
void AddOneTo(float* values, size_t count, cudaStream_t stream) {
  AddOne<<<static_cast<unsigned>((count + 255) / 256), 256, 0, stream>>>(values, count);
  CHECK_LAUNCH();
}

// Repeatedly a kernel, a collective, a kernel.
void InStreams(const Ranks& ranks, size_t count) {
  Buffers<float> b(count);
  constexpr int kRounds = 5;
  for (int round = 0; round < kRounds; ++round) {
    ranks.Group([&](int r) {
      AddOneTo(b.send[r], count, ranks.streams[r]);
      const int result =
          Call("ncclAllReduce", b.send[r], b.send[r], count, static_cast<int>(kFloat),
               static_cast<int>(kMaximum), ranks.comms[r], ranks.streams[r]);
      return result;
    });
    for (int r = 0; r < devices; ++r) {
      CHECK(cudaSetDevice(r));
      AddOneTo(b.send[r], count, ranks.streams[r]);
    }
  }
  ranks.Wait();
  b.Expect("kernels and collectives", b.send, count,
           [&](int, size_t i) { return Reduced(kMaximum, i) + 2 * kRounds; });
}

// A group with calls in two streams of each device begins after earlier work of both streams. Later
// work of both streams waits for it.
void TwoStreams(const Ranks& ranks, size_t count) {
  Buffers<float> b(count), c(count);
  std::vector<cudaStream_t> other(devices);
  for (int r = 0; r < devices; ++r) {
    CHECK(cudaSetDevice(r));
    CHECK(cudaStreamCreateWithFlags(&other[r], cudaStreamNonBlocking));
    AddOneTo(b.send[r], count, ranks.streams[r]);
    AddOneTo(c.send[r], count, other[r]);
  }
  NCCL(Call("ncclGroupStart"));
  for (int r = 0; r < devices; ++r) {
    NCCL(Call("ncclAllReduce", b.send[r], b.receive[r], count, static_cast<int>(kFloat),
              static_cast<int>(kSum), ranks.comms[r], ranks.streams[r]));
    NCCL(Call("ncclAllReduce", c.send[r], c.receive[r], count, static_cast<int>(kFloat),
              static_cast<int>(kMaximum), ranks.comms[r], other[r]));
  }
  NCCL(Call("ncclGroupEnd"));
  for (int r = 0; r < devices; ++r) {
    CHECK(cudaSetDevice(r));
    AddOneTo(b.receive[r], count, ranks.streams[r]);
    AddOneTo(c.receive[r], count, other[r]);
    CHECK(cudaStreamSynchronize(other[r]));
    CHECK(cudaStreamDestroy(other[r]));
  }
  ranks.Wait();
  const auto added = static_cast<float>(devices);
  b.Expect("one stream of two", b.receive, count,
           [&](int, size_t i) { return Reduced(kSum, i) + added + 1.F; });
  c.Expect("the other stream of two", c.receive, count,
           [&](int, size_t i) { return Reduced(kMaximum, i) + 2.F; });
}

// Streams with much more work submitted than done, destroyed before its end.
void ManyBehind(const Ranks& ranks, size_t count) {
  constexpr int kCalls = 100;
  static std::atomic<bool> go;
  go = false;
  Buffers<float> b(count);
  std::vector<cudaStream_t> streams(devices);
  for (int r = 0; r < devices; ++r) {
    CHECK(cudaSetDevice(r));
    CHECK(cudaStreamCreateWithFlags(&streams[r], cudaStreamNonBlocking));
  }
  const auto all_reduce = [&](const std::vector<float*>& from, int operation) {
    NCCL(Call("ncclGroupStart"));
    for (int r = 0; r < devices; ++r)
      NCCL(Call("ncclAllReduce", from[r], b.receive[r], count, static_cast<int>(kFloat), operation,
                ranks.comms[r], streams[r]));
    NCCL(Call("ncclGroupEnd"));
  };
  // The first calls may connect the ranks and wait for the devices.
  all_reduce(b.send, kMaximum);
  all_reduce(b.send, kSum);
  for (int r = 0; r < devices; ++r) {
    CHECK(cudaSetDevice(r));
    CHECK(cudaLaunchHostFunc(
        streams[r],
        [](void*) {
          while (!go) std::this_thread::yield();
        },
        nullptr));
  }
  for (int call = 0; call < kCalls; ++call) all_reduce(b.receive, kMaximum);
  for (int r = 0; r < devices; ++r) CHECK(cudaStreamDestroy(streams[r]));
  go = true;
  for (int r = 0; r < devices; ++r) {
    CHECK(cudaSetDevice(r));
    CHECK(cudaDeviceSynchronize());
  }
  b.Expect("behind many", b.receive, count, [](int, size_t i) { return Reduced(kSum, i); });
}

// The same as a graph of each device.
void InGraphs(const Ranks& ranks, size_t count) {
  Buffers<float> b(count);
  std::vector<cudaGraphExec_t> execs(devices);
  for (int r = 0; r < devices; ++r) {
    CHECK(cudaSetDevice(r));
    CHECK(cudaStreamBeginCapture(ranks.streams[r], cudaStreamCaptureModeRelaxed));
    AddOneTo(b.send[r], count, ranks.streams[r]);
  }
  ranks.Group([&](int r) {
    return Call("ncclAllReduce", b.send[r], b.receive[r], count, static_cast<int>(kFloat),
                static_cast<int>(kSum), ranks.comms[r], ranks.streams[r]);
  });
  for (int r = 0; r < devices; ++r) {
    CHECK(cudaSetDevice(r));
    AddOneTo(b.receive[r], count, ranks.streams[r]);
    cudaGraph_t graph;
    CHECK(cudaStreamEndCapture(ranks.streams[r], &graph));
    size_t nodes = 0;
    CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
    EXPECT(nodes >= 3, "%zu nodes", nodes);
    CHECK(cudaGraphInstantiate(&execs[r], graph, 0));
    CHECK(cudaGraphDestroy(graph));
  }
  constexpr int kLaunches = 4;
  for (int launch = 0; launch < kLaunches; ++launch) {
    for (int r = 0; r < devices; ++r) {
      CHECK(cudaSetDevice(r));
      CHECK(cudaGraphLaunch(execs[r], ranks.streams[r]));
    }
  }
  ranks.Wait();
  b.Expect("graphs", b.receive, count, [&](int, size_t i) {
    return Reduced(kSum, i) + static_cast<float>(devices * kLaunches) + 1.F;
  });
  for (int r = 0; r < devices; ++r) CHECK(cudaGraphExecDestroy(execs[r]));
}

// Groups of calls of any kind and size, some in a second stream.
class RandomGroups {
 public:
  RandomGroups(const Ranks& ranks, unsigned seed) : ranks_(ranks), random_(seed), others_(devices) {
    for (int r = 0; r < devices; ++r) {
      CHECK(cudaSetDevice(r));
      CHECK(cudaStreamCreateWithFlags(&others_[r], cudaStreamNonBlocking));
    }
  }
  ~RandomGroups() {
    for (const cudaStream_t other : others_) CHECK(cudaStreamDestroy(other));
  }

  void Run() {
    std::vector<One> calls(1 + Below(4));
    for (One& one : calls) {
      one.kind = static_cast<int>(Below(5));
      one.count = 1 + Below(5000);
      one.rank = static_cast<int>(Below(static_cast<size_t>(devices)));
      one.second = Below(3) == 0;
      one.buffers = std::make_unique<Buffers<int>>(one.count);
    }
    NCCL(Call("ncclGroupStart"));
    for (int r = 0; r < devices; ++r)
      for (const One& one : calls) Put(one, r);
    NCCL(Call("ncclGroupEnd"));
    ranks_.Wait();
    for (int r = 0; r < devices; ++r) {
      CHECK(cudaSetDevice(r));
      CHECK(cudaStreamSynchronize(others_[r]));
    }
    for (const One& one : calls) Check(one);
  }

 private:
  enum Kind { kAllReduce, kBroadcast, kAllGather, kReduceScatter, kShift };
  struct One {
    int kind;
    size_t count;
    int rank;     // The root, or the distance of sends.
    bool second;  // Call in the second stream.
    std::unique_ptr<Buffers<int>> buffers;
  };
  size_t Below(size_t limit) { return random_() % limit; }

  void Put(const One& one, int r) const {
    const Buffers<int>& b = *one.buffers;
    const cudaStream_t stream = one.second ? others_[r] : ranks_.streams[r];
    const Comm comm = ranks_.comms[r];
    const int type = kInt32;
    switch (one.kind) {
      case kAllReduce:
        NCCL(Call("ncclAllReduce", b.send[r], b.receive[r], one.count, type, static_cast<int>(kSum),
                  comm, stream));
        break;
      case kBroadcast:
        NCCL(Call("ncclBroadcast", b.send[r], b.receive[r], one.count, type, one.rank, comm,
                  stream));
        break;
      case kAllGather:
        NCCL(Call("ncclAllGather", b.send[r], b.receive[r], one.count, type, comm, stream));
        break;
      case kReduceScatter:
        NCCL(Call("ncclReduceScatter", b.send[r], b.receive[r], one.count, type,
                  static_cast<int>(kMaximum), comm, stream));
        break;
      default:
        NCCL(Call("ncclSend", b.send[r], one.count, type, (r + one.rank) % devices, comm, stream));
        NCCL(Call("ncclRecv", b.receive[r], one.count, type, (r + devices - one.rank) % devices,
                  comm, stream));
    }
  }
  void Check(const One& one) const {
    const size_t count = one.count;
    const size_t got = one.kind == kAllGather ? count * static_cast<size_t>(devices) : count;
    one.buffers->Expect(
        "a call of a random group", one.buffers->receive, got, [&](int r, size_t i) -> float {
          switch (one.kind) {
            case kAllReduce:
              return Reduced(kSum, i);
            case kBroadcast:
              return static_cast<float>(ValueAt(one.rank, i));
            case kAllGather:
              return static_cast<float>(ValueAt(static_cast<int>(i / count), i % count));
            case kReduceScatter:
              return Reduced(kMaximum, static_cast<size_t>(r) * count + i);
            default:
              return static_cast<float>(ValueAt((r + devices - one.rank) % devices, i));
          }
        });
  }

  const Ranks& ranks_;
  std::mt19937 random_;
  std::vector<cudaStream_t> others_;
};

}  // namespace

int main(int argc, char** argv) {
  const auto most = static_cast<size_t>(NumberArgument(argc, argv, 1, 100'003, 1, 1 << 26));
  const auto seed = static_cast<unsigned>(NumberArgument(argc, argv, 2, 1, 0, 1 << 30));
  devices = DeviceCount();
  NCCL(Call("ncclGetVersion", &version));
  {
    const Ranks ranks;
    for (const size_t count : {size_t{1}, size_t{1000}, most}) Kinds<int>(ranks, kInt32, count);
    Kinds<signed char>(ranks, kInt8, most);
    Kinds<__half>(ranks, kHalf, most);
    Kinds<__nv_bfloat16>(ranks, kBfloat16, most);
    Kinds<float>(ranks, kFloat, most);
    Kinds<double>(ranks, kDouble, most);
    InPlaceAndAverage(ranks, most);
    Factors(ranks, most);
    InStreams(ranks, most);
    TwoStreams(ranks, most);
    ManyBehind(ranks, 1000);
    InGraphs(ranks, most);
    RandomGroups random(ranks, seed);
    for (int i = 0; i < 20; ++i) random.Run();
  }
  std::printf("collectives: %d %s, %s\n", devices, Devices(devices), Verdict(failures));
  return ExitStatus(failures);
}
