// A ring over all devices. In each round, every device sends the values it received last to its
// right neighbour and adds them to its sum. After one round per device, all hold the same totals.
// Only events order the devices; the host waits only at the end.
//
//   multi_device [ELEMENTS]
#include <cstdio>
#include <vector>

#include "check.h"

namespace {

constexpr unsigned kThreads = 256;

__global__ void Fill(unsigned* values, int count, unsigned seed) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] = static_cast<unsigned>(i) * 2654435761u + seed * 40503u;
}

__global__ void Accumulate(unsigned* sum, const unsigned* values, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) sum[i] += values[i];
}

struct Node {
  int device;
  cudaStream_t stream;
  cudaEvent_t round_done;  // recorded at the end of each round
  unsigned* carry[2];      // travelling values: received in one round, sent in the next
  unsigned* sum;
};

std::vector<Node> MakeNodes(int devices, size_t bytes) {
  std::vector<Node> nodes(devices);
  for (int device = 0; device < devices; ++device) {
    Node& node = nodes[device];
    node.device = device;
    CHECK(cudaSetDevice(device));
    CHECK(cudaStreamCreateWithFlags(&node.stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&node.round_done, cudaEventDisableTiming));
    CHECK(cudaMalloc(&node.carry[0], bytes));
    CHECK(cudaMalloc(&node.carry[1], bytes));
    CHECK(cudaMalloc(&node.sum, bytes));
  }
  return nodes;
}

void DestroyNodes(const std::vector<Node>& nodes) {
  for (const Node& node : nodes) {
    CHECK(cudaSetDevice(node.device));
    CHECK(cudaFree(node.carry[0]));
    CHECK(cudaFree(node.carry[1]));
    CHECK(cudaFree(node.sum));
    CHECK(cudaEventDestroy(node.round_done));
    CHECK(cudaStreamDestroy(node.stream));
  }
}

unsigned Blocks(int count) { return (count + kThreads - 1) / kThreads; }

// Every device fills its own values; this is round 0.
void Begin(const std::vector<Node>& nodes, int count) {
  for (const Node& node : nodes) {
    CHECK(cudaSetDevice(node.device));
    CHECK(cudaMemsetAsync(node.sum, 0, count * sizeof(unsigned), node.stream));
    Fill<<<Blocks(count), kThreads, 0, node.stream>>>(node.carry[0], count, node.device + 1);
    CHECK_LAUNCH();
    Accumulate<<<Blocks(count), kThreads, 0, node.stream>>>(node.sum, node.carry[0], count);
    CHECK_LAUNCH();
    CHECK(cudaEventRecord(node.round_done, node.stream));
  }
}

void Round(const std::vector<Node>& nodes, int count, int round) {
  const int devices = static_cast<int>(nodes.size());
  // The waits come first: each is for the round before, with events not yet recorded again.
  for (int device = 0; device < devices; ++device) {
    const Node& left = nodes[(device + devices - 1) % devices];
    const Node& right = nodes[(device + 1) % devices];
    CHECK(cudaSetDevice(device));
    // The left one must have received our source, and the right one must have taken the values to
    // be overwritten.
    CHECK(cudaStreamWaitEvent(nodes[device].stream, left.round_done, 0));
    CHECK(cudaStreamWaitEvent(nodes[device].stream, right.round_done, 0));
  }
  for (int device = 0; device < devices; ++device) {
    const Node& node = nodes[device];
    const Node& left = nodes[(device + devices - 1) % devices];
    unsigned* received = node.carry[round % 2];
    CHECK(cudaSetDevice(device));
    CHECK(cudaMemcpyPeerAsync(received, device, left.carry[(round + 1) % 2], left.device,
                              count * sizeof(unsigned), node.stream));
    Accumulate<<<Blocks(count), kThreads, 0, node.stream>>>(node.sum, received, count);
    CHECK_LAUNCH();
  }
  for (const Node& node : nodes) {
    CHECK(cudaSetDevice(node.device));
    CHECK(cudaEventRecord(node.round_done, node.stream));
  }
}

int CheckSums(const std::vector<Node>& nodes, int count) {
  const int devices = static_cast<int>(nodes.size());
  int failures = 0;
  std::vector<unsigned> sum(count);
  for (const Node& node : nodes) {
    CHECK(cudaSetDevice(node.device));
    CHECK(cudaStreamSynchronize(node.stream));
    CHECK(cudaMemcpy(sum.data(), node.sum, count * sizeof(unsigned), cudaMemcpyDeviceToHost));
    for (int i = 0; i < count && failures < 5; ++i) {
      unsigned expected = 0;
      for (int other = 1; other <= devices; ++other) {
        expected += static_cast<unsigned>(i) * 2654435761u + other * 40503u;
      }
      EXPECT(sum[i] == expected, "device %d, sum[%d] is %u, not %u", node.device, i, sum[i],
             expected);
    }
  }
  return failures;
}

// The synchronous forms: device 0's values once around the ring, then back.
int CheckSynchronousCopies(const std::vector<Node>& nodes, int count) {
  const int devices = static_cast<int>(nodes.size());
  const size_t bytes = count * sizeof(unsigned);
  std::vector<unsigned> values(count);
  for (int i = 0; i < count; ++i) values[i] = static_cast<unsigned>(i) * 747796405u;
  CHECK(cudaSetDevice(0));
  CHECK(cudaMemcpy(nodes[0].carry[0], values.data(), bytes, cudaMemcpyHostToDevice));
  for (int device = 1; device < devices; ++device) {
    CHECK(cudaMemcpyPeer(nodes[device].carry[0], device, nodes[device - 1].carry[0], device - 1,
                         bytes));
  }
  // Back to device 0 by its address alone, while another device is current.
  CHECK(cudaSetDevice(devices - 1));
  CHECK(cudaMemcpy(nodes[0].carry[1], nodes[devices - 1].carry[0], bytes, cudaMemcpyDefault));
  std::vector<unsigned> back(count);
  CHECK(cudaMemcpy(back.data(), nodes[0].carry[1], bytes, cudaMemcpyDefault));
  int failures = 0;
  EXPECT(back == values, "the values changed on their way over %d devices", devices);

  // A copy with the same device as source and destination.
  CHECK(cudaMemcpyPeer(nodes[0].carry[0], 0, nodes[0].sum, 0, bytes));
  CHECK(cudaDeviceSynchronize());
  std::vector<unsigned> sum(count);
  CHECK(cudaMemcpy(back.data(), nodes[0].carry[0], bytes, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(sum.data(), nodes[0].sum, bytes, cudaMemcpyDeviceToHost));
  EXPECT(back == sum, "a copy within one device differs");
  return failures;
}

// An event of one device may be waited for and queried while another device is current.
int CheckForeignEvent(const std::vector<Node>& nodes) {
  const Node& first = nodes.front();
  const Node& last = nodes.back();
  CHECK(cudaSetDevice(first.device));
  CHECK(cudaEventRecord(first.round_done, first.stream));
  CHECK(cudaSetDevice(last.device));
  CHECK(cudaEventSynchronize(first.round_done));
  CHECK(cudaEventQuery(first.round_done));
  int current = -1;
  CHECK(cudaGetDevice(&current));
  int failures = 0;
  EXPECT(current == last.device, "the current device became %d", current);
  return failures;
}

}  // namespace

int main(int argc, char** argv) {
  const int count = static_cast<int>(NumberArgument(argc, argv, 1, 50000, 1, 1 << 26));
  const int devices = DeviceCount();
  const std::vector<Node> nodes = MakeNodes(devices, count * sizeof(unsigned));
  Begin(nodes, count);
  for (int round = 1; round < devices; ++round) Round(nodes, count, round);

  int failures = CheckSums(nodes, count);
  failures += CheckSynchronousCopies(nodes, count);
  failures += CheckForeignEvent(nodes);
  DestroyNodes(nodes);
  std::printf("multi_device: %d elements around %d %s: %s\n", count, devices, Devices(devices),
              Verdict(failures));
  return ExitStatus(failures);
}
