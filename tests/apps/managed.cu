// Managed memory: allocations, linked structures, __managed__ variables, copies and sets, on all
// devices in turn. The host accesses it only while no kernel runs, as needed on devices without
// concurrent access.
//
//   managed [ELEMENTS]
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "check.h"

namespace {

constexpr unsigned kThreads = 128;

__managed__ int g_counter = 5;
__managed__ float g_table[1000];
__managed__ int* g_pointer;

struct Node {
  int value;
  Node* next;
};

__global__ void AddTo(int* values, int count, int add) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] += add;
}

__global__ void SumList(const Node* head, long long* sum) {
  long long total = 0;
  for (const Node* node = head; node != nullptr; node = node->next) total += node->value;
  *sum = total;
}

__global__ void NegateList(Node* head) {
  for (Node* node = head; node != nullptr; node = node->next) node->value = -node->value;
}

__global__ void UseVariables(int add) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 0) g_counter += add;
  if (i < 1000) g_table[i] = g_table[i] * 2 + static_cast<float>(i);
  if (i == 0 && g_pointer != nullptr) g_pointer[1] = g_counter;
}

unsigned Blocks(int count) { return (count + kThreads - 1) / kThreads; }

// The host and each device write the same memory in turn.
int CheckTurns(int devices, int count) {
  int failures = 0;
  int* values = nullptr;
  CHECK(cudaMallocManaged(&values, count * sizeof(int)));
  for (int i = 0; i < count; ++i) values[i] = i;
  int expected = 0;
  for (int round = 0; round < 3; ++round) {
    for (int device = 0; device < devices; ++device) {
      CHECK(cudaSetDevice(device));
      AddTo<<<Blocks(count), kThreads>>>(values, count, 3);
      CHECK_LAUNCH();
      AddTo<<<Blocks(count), kThreads>>>(values, count, 4);
      CHECK_LAUNCH();
      CHECK(cudaDeviceSynchronize());
      expected += 7;
      // Only some of it is read and written each time.
      const int at = (round * 31 + device * 7) % count;
      EXPECT(values[at] == at + expected, "values[%d] is %d", at, values[at]);
      values[count - 1] += 1;
      values[count - 1] -= 1;
    }
  }
  int wrong = 0;
  for (int i = 0; i < count; ++i) wrong += values[i] != i + expected;
  EXPECT(wrong == 0, "%d of %d values are wrong after all turns", wrong, count);
  CHECK(cudaFree(values));
  return failures;
}

int CheckList(int devices) {
  int failures = 0;
  constexpr int kNodes = 500;
  Node* head = nullptr;
  std::vector<Node*> all;
  for (int i = 0; i < kNodes; ++i) {
    Node* node = nullptr;
    CHECK(cudaMallocManaged(&node, sizeof *node));
    node->value = i;
    node->next = head;
    head = node;
    all.push_back(node);
  }
  long long* sum = nullptr;
  CHECK(cudaMallocManaged(&sum, sizeof *sum));
  long long expected = kNodes * (kNodes - 1) / 2;
  for (int device = 0; device < devices; ++device) {
    CHECK(cudaSetDevice(device));
    SumList<<<1, 1>>>(head, sum);
    CHECK_LAUNCH();
    CHECK(cudaDeviceSynchronize());
    EXPECT(*sum == expected, "the sum on device %d is %lld and not %lld", device, *sum, expected);
    NegateList<<<1, 1>>>(head);
    CHECK_LAUNCH();
    CHECK(cudaDeviceSynchronize());
    expected = -expected;
    long long here = 0;
    for (const Node* node = head; node != nullptr; node = node->next) here += node->value;
    EXPECT(here == expected, "the host's sum is %lld and not %lld", here, expected);
  }
  for (Node* node : all) CHECK(cudaFree(node));
  CHECK(cudaFree(sum));
  return failures;
}

int CheckVariables(int devices) {
  int failures = 0;
  CHECK(cudaSetDevice(0));
  EXPECT(g_counter == 5, "g_counter starts with %d", g_counter);
  for (int i = 0; i < 1000; ++i) g_table[i] = static_cast<float>(i) / 2;
  CHECK(cudaMallocManaged(&g_pointer, 2 * sizeof(int)));
  g_pointer[0] = 17;
  int counter = 5;
  std::vector<float> table(g_table, g_table + 1000);
  for (int device = 0; device < devices; ++device) {
    CHECK(cudaSetDevice(device));
    for (int round = 0; round < 2; ++round) {
      g_counter += 100;
      counter += 100;
      UseVariables<<<Blocks(1000), kThreads>>>(device + 1);
      CHECK_LAUNCH();
      CHECK(cudaDeviceSynchronize());
      counter += device + 1;
      EXPECT(g_counter == counter, "g_counter is %d and not %d", g_counter, counter);
      EXPECT(g_pointer[1] == counter, "what g_pointer points to is %d", g_pointer[1]);
      int wrong = 0;
      for (int i = 0; i < 1000; ++i) {
        table[i] = table[i] * 2 + static_cast<float>(i);
        wrong += g_table[i] != table[i];
      }
      EXPECT(wrong == 0, "%d values of g_table are wrong", wrong);
    }
  }
  // Accessed by its address, like any managed memory.
  AddTo<<<1, 1>>>(&g_counter, 1, 11);
  CHECK_LAUNCH();
  CHECK(cudaDeviceSynchronize());
  counter += 11;
  EXPECT(g_counter == counter, "through its address g_counter became %d", g_counter);
  int copied = 0;
  CHECK(cudaMemcpyFromSymbol(&copied, g_counter, sizeof copied));
  EXPECT(copied == counter, "cudaMemcpyFromSymbol gives %d", copied);
  const int given = 1234;
  CHECK(cudaMemcpyToSymbol(g_counter, &given, sizeof given));
  EXPECT(g_counter == 1234, "cudaMemcpyToSymbol leaves %d", g_counter);
  UseVariables<<<1, 1>>>(1);
  CHECK_LAUNCH();
  CHECK(cudaDeviceSynchronize());
  EXPECT(g_counter == 1235, "a kernel makes it %d", g_counter);
  void* address = nullptr;
  CHECK(cudaGetSymbolAddress(&address, g_counter));
  EXPECT(address == &g_counter, "its address is %p, not %p", address,
         static_cast<void*>(&g_counter));
  size_t bytes = 0;
  CHECK(cudaGetSymbolSize(&bytes, g_table));
  EXPECT(bytes == sizeof g_table, "g_table has %zu bytes", bytes);
  CHECK(cudaFree(g_pointer));
  return failures;
}

// A device takes over memory changed by another one. Host functions delay the streams of both.
int CheckTakingOver(int devices) {
  int failures = 0;
  int* values = nullptr;
  CHECK(cudaSetDevice(0));
  CHECK(cudaMallocManaged(&values, 1000 * sizeof *values));
  for (int i = 0; i < 1000; ++i) values[i] = i;
  g_counter = 0;
  g_pointer = nullptr;
  std::vector<cudaEvent_t> done(devices, nullptr);
  for (int device = 0; device < devices; ++device) {
    CHECK(cudaSetDevice(device));
    CHECK(cudaEventCreateWithFlags(&done[device], cudaEventDisableTiming));
  }
  constexpr int kRounds = 4;
  for (int turn = 0; turn < kRounds * devices; ++turn) {
    const int device = turn % devices;
    CHECK(cudaSetDevice(device));
    if (turn > 0) CHECK(cudaStreamWaitEvent(nullptr, done[(turn - 1) % devices], 0));
    UseVariables<<<Blocks(1000), kThreads>>>(1);
    CHECK_LAUNCH();
    AddTo<<<Blocks(1000), kThreads>>>(values, 1000, 3);
    CHECK_LAUNCH();
    CHECK(cudaEventRecord(done[device], nullptr));
    CHECK(cudaLaunchHostFunc(
        nullptr, [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(10)); },
        nullptr));
  }
  for (int device = 0; device < devices; ++device) {
    CHECK(cudaSetDevice(device));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaEventDestroy(done[device]));
  }
  EXPECT(g_counter == kRounds * devices, "g_counter is %d", g_counter);
  int wrong = 0;
  for (int i = 0; i < 1000; ++i) wrong += values[i] != i + 3 * kRounds * devices;
  EXPECT(wrong == 0, "%d values are wrong", wrong);
  CHECK(cudaFree(values));
  return failures;
}

int CheckCopies(int count) {
  int failures = 0;
  const size_t bytes = count * sizeof(int);
  int* managed = nullptr;
  int* other = nullptr;
  int* device = nullptr;
  std::vector<int> host(count);
  for (int i = 0; i < count; ++i) host[i] = 7 * i + 1;
  CHECK(cudaMallocManaged(&managed, bytes));
  CHECK(cudaMallocManaged(&other, bytes));
  CHECK(cudaMalloc(&device, bytes));
  const auto same = [&](const int* a, int add) {
    for (int i = 0; i < count; ++i)
      if (a[i] != 7 * i + 1 + add) return false;
    return true;
  };
  for (const cudaMemcpyKind kind :
       {cudaMemcpyDefault, cudaMemcpyHostToDevice, cudaMemcpyHostToHost}) {
    std::memset(managed, 0, bytes);
    CHECK(cudaMemcpy(managed, host.data(), bytes, kind));
    EXPECT(same(managed, 0), "host to managed, kind %d", static_cast<int>(kind));
  }
  CHECK(cudaMemcpy(device, managed, bytes, cudaMemcpyDefault));
  AddTo<<<Blocks(count), kThreads>>>(device, count, 5);
  CHECK_LAUNCH();
  CHECK(cudaMemcpy(other, device, bytes, cudaMemcpyDeviceToDevice));
  EXPECT(same(other, 5), "device to managed as device to device");
  CHECK(cudaMemcpy(managed, other, bytes, cudaMemcpyDefault));
  EXPECT(same(managed, 5), "managed to managed");
  CHECK(cudaMemcpy(managed, device, bytes, cudaMemcpyDeviceToHost));
  EXPECT(same(managed, 5), "device to managed as device to host");
  AddTo<<<Blocks(count), kThreads>>>(managed, count, 5);
  CHECK_LAUNCH();
  CHECK(cudaMemcpy(host.data(), managed, bytes, cudaMemcpyDeviceToHost));
  EXPECT(same(host.data(), 10), "managed to host after a kernel");
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaMemcpyAsync(other, host.data(), bytes, cudaMemcpyDefault, stream));
  AddTo<<<Blocks(count), kThreads, 0, stream>>>(other, count, 1);
  CHECK_LAUNCH();
  CHECK(cudaStreamSynchronize(stream));
  EXPECT(same(other, 11), "asynchronous copy, then a kernel");
  CHECK(cudaMemset(managed, 0x11, bytes));
  EXPECT(managed[0] == 0x11111111 && managed[count - 1] == 0x11111111, "memset gives %x",
         managed[0]);
  CHECK(cudaMemsetAsync(managed, 0x22, bytes / 2, stream));
  CHECK(cudaStreamSynchronize(stream));
  EXPECT(managed[0] == 0x22222222 && managed[count - 1] == 0x11111111, "cudaMemsetAsync");
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFree(managed));
  CHECK(cudaFree(other));
  CHECK(cudaFree(device));
  return failures;
}

int CheckAttributes() {
  int failures = 0;
  CHECK(cudaSetDevice(0));
  int value = 0;
  CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrManagedMemory, 0));
  EXPECT(value == 1, "managed memory is reported as %d", value);
  char* memory = nullptr;
  CHECK(cudaMallocManaged(&memory, 100, cudaMemAttachHost));
  cudaPointerAttributes attributes{};
  CHECK(cudaPointerGetAttributes(&attributes, memory + 10));
  EXPECT(attributes.type == cudaMemoryTypeManaged, "the type is %d", attributes.type);
  EXPECT(attributes.device == 0, "the device is %d", attributes.device);
  EXPECT(attributes.devicePointer == memory + 10 && attributes.hostPointer == memory + 10,
         "pointers %p and %p of %p", attributes.devicePointer, attributes.hostPointer,
         static_cast<void*>(memory + 10));
  CHECK(cudaFree(memory));
  const auto refused = [&](cudaError_t result, cudaError_t expected, const char* what) {
    EXPECT(result == expected, "%s gives %s", what, cudaGetErrorName(result));
    cudaGetLastError();
  };
  refused(cudaMallocManaged(&memory, 8, 77), cudaErrorInvalidValue, "flags 77");
  refused(cudaMallocManaged(&memory, 8, cudaMemAttachSingle), cudaErrorInvalidValue,
          "cudaMemAttachSingle");
  CHECK(cudaMallocManaged(&memory, 1000));
  refused(cudaFree(memory + 8), cudaErrorInvalidValue, "freeing a place inside");
  CHECK(cudaFree(memory));
  return failures;
}

}  // namespace

int main(int argc, char** argv) {
  const int count = static_cast<int>(NumberArgument(argc, argv, 1, 200000, 100, 1 << 26));
  const int devices = DeviceCount();
  int failures = CheckVariables(devices);
  failures += CheckTurns(devices, count);
  failures += CheckList(devices);
  failures += CheckTakingOver(devices);
  CHECK(cudaSetDevice(0));
  failures += CheckCopies(count);
  failures += CheckAttributes();
  // Freed at the end of the process.
  int* kept = nullptr;
  CHECK(cudaMallocManaged(&kept, 4096));
  kept[0] = 1;
  std::printf("managed: %d elements on %d %s: %s\n", count, devices, Devices(devices),
              Verdict(failures));
  return ExitStatus(failures);
}
