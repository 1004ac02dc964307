// Random operations of several host threads in shared streams, against a model of CUDA's order:
// kernels, copies, memsets, graphs, host functions, events, the legacy default stream and each
// thread's own default stream.
//
//   stream_order [THREADS [STREAMS [OPERATIONS [SEED]]]]
//
// Each stream has a counter on the device. An operation finds the exact count of the earlier ones
// of its stream. The model also has a minimum of every other counter: from events, from the legacy
// stream, from waits of the host.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "check.h"

namespace {

constexpr int kSlots = 4;         // of a stream: words with values known to the model
constexpr int kDependencies = 4;  // other streams checked by a kernel
constexpr int kEvents = 8;        // of a thread
constexpr int kGraphNodes = 2;
// Kinds of operations in Act: first kinds of work, then waits and events, then launches.
constexpr unsigned kKindsOfWork = 9;
constexpr unsigned kAllKinds = 20;
constexpr int kBeforeWait = 2000;  // operations of a thread without a wait for all of them, at most

struct Mistake {
  unsigned count;
  unsigned stream, expected, found, other;  // of the first; other: stream checked, or 1000 + slot
};

struct Check {
  unsigned* counters;
  unsigned* slots;
  Mistake* mistake;
  unsigned stream, expected;
  unsigned slot, value;
  unsigned dependencies;
  unsigned others[kDependencies], minima[kDependencies];
};

__device__ void Report(Mistake* mistake, unsigned stream, unsigned expected, unsigned found,
                       unsigned other) {
  if (atomicAdd(&mistake->count, 1u) != 0) return;
  mistake->stream = stream;
  mistake->expected = expected;
  mistake->found = found;
  mistake->other = other;
}

__global__ void Step(Check check) {
  const volatile unsigned* counters = check.counters;
  const volatile unsigned* slots = check.slots + check.stream * kSlots;
  const unsigned found = counters[check.stream];
  if (found != check.expected)
    Report(check.mistake, check.stream, check.expected, found, check.stream);
  if (slots[check.slot] != check.value)
    Report(check.mistake, check.stream, check.value, slots[check.slot], 1000 + check.slot);
  for (unsigned i = 0; i < check.dependencies; ++i) {
    const unsigned other = counters[check.others[i]];
    if (other < check.minima[i])
      Report(check.mistake, check.stream, check.minima[i], other, check.others[i]);
  }
  check.counters[check.stream] = check.expected + 1;
}

__global__ void Count(unsigned* counter) { ++*counter; }

using Counts = std::vector<unsigned>;  // by stream

void Raise(Counts& counts, const Counts& others) {
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] = std::max(counts[i], others[i]);
}

struct HostStep {
  std::atomic<unsigned>* counter;
  unsigned expected;
  std::atomic<int>* failures;
};

void CUDART_CB HostCount(void* data) {
  const std::unique_ptr<HostStep> step(static_cast<HostStep*>(data));
  if (step->counter->fetch_add(1) != step->expected) ++*step->failures;
}

// A word copied from the device, and its value.
struct Awaited {
  unsigned cell;
  unsigned value;
};

struct Stream {
  std::mutex mutex;  // Held while an operation is posted: the order of calls is then known.
  cudaStream_t handle = nullptr;
  bool blocking = true;
  unsigned count = 0;
  Counts known;  // Minima of all counters when the stream's last operation runs.
  unsigned slots[kSlots] = {};
  cudaGraphExec_t graph = nullptr;
  unsigned host_count = 0;
  std::atomic<unsigned> host_counter{0};
  std::vector<Awaited> awaited;
};

struct Event {
  cudaEvent_t handle = nullptr;
  Counts known;
};

class Test {
 public:
  Test(int threads, int streams, long operations, unsigned seed)
      : threads_(threads),
        made_(streams),
        of_thread_(operations / threads),
        seed_(seed),
        streams_(streams + 1 + threads),
        cells_(static_cast<std::size_t>(of_thread_) * threads) {
    CHECK(cudaMalloc(&counters_, streams_.size() * sizeof(unsigned)));
    CHECK(cudaMemset(counters_, 0, streams_.size() * sizeof(unsigned)));
    CHECK(cudaMalloc(&slots_, streams_.size() * kSlots * sizeof(unsigned)));
    CHECK(cudaMemset(slots_, 0, streams_.size() * kSlots * sizeof(unsigned)));
    CHECK(cudaMalloc(&mistake_, sizeof(Mistake)));
    CHECK(cudaMemset(mistake_, 0, sizeof(Mistake)));
    CHECK(cudaMallocHost(&pinned_, cells_ * sizeof(unsigned)));
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      streams_[i].known.resize(streams_.size());
      MakeGraph(i);
    }
    for (int i = 0; i < made_; ++i) Make(i);
    CHECK(cudaDeviceSynchronize());
  }

  int Run() {
    std::vector<std::thread> running;
    for (int t = 0; t < threads_; ++t) running.emplace_back([this, t] { Work(t); });
    for (std::thread& thread : running) thread.join();
    CHECK(cudaDeviceSynchronize());
    for (std::size_t i = 0; i < streams_.size(); ++i) CheckAwaited(i);
    Counts counters(streams_.size());
    CHECK(cudaMemcpy(counters.data(), counters_, counters.size() * sizeof(unsigned),
                     cudaMemcpyDeviceToHost));
    int failures = failures_;
    for (std::size_t i = 0; i < counters.size(); ++i)
      EXPECT(counters[i] == streams_[i].count, "stream %zu has %u of %u", i, counters[i],
             streams_[i].count);
    Mistake mistake;
    CHECK(cudaMemcpy(&mistake, mistake_, sizeof mistake, cudaMemcpyDeviceToHost));
    EXPECT(mistake.count == 0, "%u; first in stream %u: %u expected, %u found, stream or slot %u",
           mistake.count, mistake.stream, mistake.expected, mistake.found, mistake.other);
    return failures;
  }

 private:
  std::size_t legacy() const { return made_; }
  std::size_t own(int thread) const { return made_ + 1 + thread; }

  void Make(std::size_t index) {
    Stream& stream = streams_[index];
    stream.blocking = index % 2 == 0;
    CHECK(cudaStreamCreateWithFlags(&stream.handle,
                                    stream.blocking ? cudaStreamDefault : cudaStreamNonBlocking));
  }
  void MakeGraph(std::size_t index) {
    cudaGraph_t graph = nullptr;
    CHECK(cudaGraphCreate(&graph, 0));
    unsigned* counter = counters_ + index;
    void* arguments[] = {&counter};
    cudaKernelNodeParams parameters = {};
    parameters.func = reinterpret_cast<void*>(Count);
    parameters.gridDim = parameters.blockDim = dim3(1);
    parameters.kernelParams = arguments;
    cudaGraphNode_t last = nullptr;
    for (int i = 0; i < kGraphNodes; ++i) {
      cudaGraphNode_t node = nullptr;
      CHECK(cudaGraphAddKernelNode(&node, graph, i == 0 ? nullptr : &last, i == 0 ? 0 : 1,
                                   &parameters));
      last = node;
    }
    CHECK(cudaGraphInstantiate(&streams_[index].graph, graph, 0));
    CHECK(cudaGraphDestroy(graph));
  }

  void CheckAwaited(std::size_t index) {
    Stream& stream = streams_[index];
    for (const Awaited& awaited : stream.awaited) {
      if (pinned_[awaited.cell] == awaited.value) continue;
      if (failures_++ == 0)
        std::fprintf(stderr, "stream %zu: %u expected on the host, %u found\n", index,
                     awaited.value, pinned_[awaited.cell]);
    }
    stream.awaited.clear();
  }

  // A thread's knowledge and tools.
  struct Thread {
    int number;
    std::mt19937 random;
    Counts known;
    std::vector<Event> events = std::vector<Event>(kEvents);
    unsigned next_cell;
  };

  void Work(int number) {
    Thread thread{number, std::mt19937(seed_ + number), Counts(streams_.size()), {}, 0};
    thread.events.resize(kEvents);
    thread.next_cell = static_cast<unsigned>(number * of_thread_);
    for (Event& event : thread.events) {
      CHECK(cudaEventCreateWithFlags(
          &event.handle, thread.random() % 2 == 0 ? cudaEventDisableTiming : cudaEventDefault));
      event.known.resize(streams_.size());
    }
    for (long i = 0; i < of_thread_; ++i) {
      const unsigned kind = thread.random() % 100;
      std::size_t index = thread.random() % made_;
      if (kind % 8 == 0) index = own(number);
      if (kind < 2) {
        const std::unique_lock order(order_);
        Act(thread, legacy());
      } else if (kind < 3 && i % 16 == 0 && index < legacy()) {
        Replace(thread, index);
      } else {
        const std::shared_lock order(order_);
        Act(thread, index);
      }
      if (i % kBeforeWait == kBeforeWait - 1) WaitForAll(thread);
    }
    for (const Event& event : thread.events) CHECK(cudaEventDestroy(event.handle));
    CHECK(cudaStreamSynchronize(cudaStreamPerThread));
  }

  void WaitForAll(Thread& thread) {
    Counts counts(streams_.size());
    {
      const std::unique_lock order(order_);
      for (std::size_t i = 0; i < streams_.size(); ++i) counts[i] = streams_[i].count;
    }
    CHECK(cudaDeviceSynchronize());
    Raise(thread.known, counts);
  }

  // Destroys a stream without work, and creates another one.
  void Replace(Thread& thread, std::size_t index) {
    const std::shared_lock order(order_);
    Stream& stream = streams_[index];
    const std::lock_guard lock(stream.mutex);
    CHECK(cudaStreamSynchronize(stream.handle));
    Raise(thread.known, stream.known);
    CheckAwaited(index);
    CHECK(cudaStreamDestroy(stream.handle));
    Make(index);
  }

  // One random operation in the stream.
  void Act(Thread& thread, std::size_t index) {
    Stream& stream = streams_[index];
    const std::lock_guard lock(stream.mutex);
    // cudaStreamPerThread is the calling thread's.
    const cudaStream_t handle = index < legacy()    ? stream.handle
                                : index == legacy() ? cudaStreamLegacy
                                                    : cudaStreamPerThread;
    Raise(stream.known, thread.known);
    const unsigned kind = thread.random() % 32;
    if (kind < kKindsOfWork || kind >= kAllKinds) FollowOthers(index);
    unsigned* const slots = slots_ + index * kSlots;
    const unsigned slot = thread.random() % kSlots;
    const unsigned cell = thread.next_cell++;
    Event& event = thread.events[thread.random() % kEvents];
    switch (kind) {
      case 0:
        pinned_[cell] = stream.slots[slot] = thread.random();
        CHECK(cudaMemcpyAsync(slots + slot, pinned_ + cell, sizeof(unsigned),
                              cudaMemcpyHostToDevice, handle));
        break;
      case 1: {
        const unsigned value = stream.slots[slot] = thread.random();  // pageable
        CHECK(cudaMemcpyAsync(slots + slot, &value, sizeof value, cudaMemcpyHostToDevice, handle));
        break;
      }
      case 2:
        stream.slots[slot] = stream.count;
        CHECK(cudaMemcpyAsync(slots + slot, counters_ + index, sizeof(unsigned),
                              cudaMemcpyDeviceToDevice, handle));
        break;
      case 3: {
        const unsigned byte = thread.random() % 256;
        stream.slots[slot] = byte * 0x01010101u;
        CHECK(cudaMemsetAsync(slots + slot, static_cast<int>(byte), sizeof(unsigned), handle));
        break;
      }
      case 4:
      case 5:
        stream.awaited.push_back({cell, stream.slots[slot]});
        CHECK(cudaMemcpyAsync(pinned_ + cell, slots + slot, sizeof(unsigned),
                              cudaMemcpyDeviceToHost, handle));
        break;
      case 6: {
        unsigned found = 0;  // pageable: the call waits
        CHECK(cudaMemcpyAsync(&found, counters_ + index, sizeof found, cudaMemcpyDeviceToHost,
                              handle));
        CHECK(cudaStreamSynchronize(handle));
        Finished(thread, index);
        if (found != stream.count) ++failures_;
        break;
      }
      case 7:
        CHECK(cudaGraphLaunch(stream.graph, handle));
        stream.count += kGraphNodes;
        break;
      case 8:
        CHECK(cudaLaunchHostFunc(
            handle, HostCount,
            new HostStep{&stream.host_counter, stream.host_count++, &failures_}));
        break;
      case 9:
      case 10:
      case 11:
        CHECK(cudaEventRecord(event.handle, handle));
        event.known = stream.known;
        event.known[index] = stream.count;
        break;
      case 12:
      case 13:
      case 14:
        CHECK(cudaStreamWaitEvent(handle, event.handle, 0));
        Raise(stream.known, event.known);
        break;
      case 15:
        CHECK(cudaEventSynchronize(event.handle));
        Raise(thread.known, event.known);
        break;
      case 16: {
        const cudaError_t answer = cudaEventQuery(event.handle);
        if (answer == cudaSuccess)
          Raise(thread.known, event.known);
        else if (answer != cudaErrorNotReady)
          CHECK(answer);
        break;
      }
      case 17: {
        const cudaError_t answer = cudaStreamQuery(handle);
        if (answer == cudaSuccess)
          Finished(thread, index);
        else if (answer != cudaErrorNotReady)
          CHECK(answer);
        break;
      }
      case 18:
      case 19:
        CHECK(cudaStreamSynchronize(handle));
        Finished(thread, index);
        break;
      default:
        Launch(thread, index, handle, slot);
    }
    stream.known[index] = stream.count;
  }

  void Launch(Thread& thread, std::size_t index, cudaStream_t handle, unsigned slot) {
    Stream& stream = streams_[index];
    Check check{counters_,    slots_, mistake_,          static_cast<unsigned>(index),
                stream.count, slot,   stream.slots[slot]};
    for (int i = 0; i < kDependencies; ++i) {
      const unsigned other = thread.random() % streams_.size();
      if (other == index || stream.known[other] == 0) continue;
      check.others[check.dependencies] = other;
      check.minima[check.dependencies++] = stream.known[other];
    }
    Step<<<1, 1, 0, handle>>>(check);
    CHECK_LAUNCH();
    ++stream.count;
  }

  // The stream's next work begins after that of the legacy stream; work of the legacy stream, after
  // that of all blocking streams.
  void FollowOthers(std::size_t index) {
    Stream& stream = streams_[index];
    if (index == legacy()) {
      for (const Stream& other : streams_)
        if (other.blocking) Raise(stream.known, other.known);
    } else if (stream.blocking) {
      Raise(stream.known, streams_[legacy()].known);
    }
  }

  // All operations of the stream are complete.
  void Finished(Thread& thread, std::size_t index) {
    Stream& stream = streams_[index];
    CheckAwaited(index);
    if (stream.host_counter != stream.host_count) ++failures_;
    Raise(thread.known, stream.known);
    thread.known[index] = std::max(thread.known[index], stream.count);
  }

  const int threads_;
  const int made_;
  const long of_thread_;
  const unsigned seed_;
  std::shared_mutex order_;  // Exclusively for the legacy stream's operations.
  std::vector<Stream> streams_;
  const std::size_t cells_;
  unsigned* counters_ = nullptr;
  unsigned* slots_ = nullptr;
  unsigned* pinned_ = nullptr;
  Mistake* mistake_ = nullptr;
  std::atomic<int> failures_{0};
};

}  // namespace

int main(int argc, char** argv) {
  const int threads = static_cast<int>(NumberArgument(argc, argv, 1, 8, 1, 64));
  const int streams = static_cast<int>(NumberArgument(argc, argv, 2, 16, 1, 256));
  const long operations = NumberArgument(argc, argv, 3, 20'000, 64, 100'000'000);
  const auto seed = static_cast<unsigned>(NumberArgument(argc, argv, 4, 1, 0, 1'000'000));
  if (DeviceCount() < 1) return 1;
  const int failures = Test(threads, streams, operations, seed).Run();
  std::printf("stream_order: %d threads, %d streams, %ld operations: %s\n", threads, streams,
              operations, failures == 0 ? "PASS" : "FAIL");
  return failures == 0 ? 0 : 1;
}
