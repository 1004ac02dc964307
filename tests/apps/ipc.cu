// Two processes sharing device memory, events and memory pools of the last device.
//
//   ipc [ELEMENTS]
#include <unistd.h>

#include <cstring>
#include <vector>

#include "driver_check.h"
#include "two_processes.h"

namespace {

constexpr unsigned kThreads = 128;
constexpr size_t kWholeBytes = 4 << 20;

__global__ void Add(int* values, int count, int number, long long cycles) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (cycles > 0) {
    const long long start = clock64();
    while (clock64() - start < cycles) {
    }
  }
  if (i < count) values[i] += number;
}

void Launch(int* values, int count, int number, cudaStream_t stream, long long cycles = 0) {
  Add<<<(count + kThreads - 1) / kThreads, kThreads, 0, stream>>>(values, count, number, cycles);
  CHECK_LAUNCH();
}

int Wrong(const int* device, int count, int first) {
  std::vector<int> values(count);
  CHECK(cudaMemcpy(values.data(), device, count * sizeof(int), cudaMemcpyDeviceToHost));
  int wrong = 0;
  for (int i = 0; i < count; ++i) wrong += values[i] != first + i;
  return wrong;
}

void Fill(int* device, int count) {
  std::vector<int> values(count);
  for (int i = 0; i < count; ++i) values[i] = i;
  CHECK(cudaMemcpy(device, values.data(), count * sizeof(int), cudaMemcpyHostToDevice));
  // A copy from pageable memory may still be in flight.
  CHECK(cudaDeviceSynchronize());
}

bool Supported() {
  int events = 0;
  CHECK(cudaDeviceGetAttribute(&events, cudaDevAttrIpcEventSupport, 0));
  return events != 0;
}

// --- The two processes

int Give(const End& other, int count) {
  int failures = 0;
  cudaStream_t stream;
  cudaEvent_t filled;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaEventCreateWithFlags(&filled, cudaEventDisableTiming | cudaEventInterprocess));
  int *before = nullptr, *values = nullptr;
  CHECK(cudaMalloc(&before, 1000));  // Puts the next one inside a larger block.
  CHECK(cudaMalloc(&values, count * sizeof(int)));
  Fill(values, count);
  cudaIpcMemHandle_t memory;
  cudaIpcEventHandle_t event;
  CHECK(cudaIpcGetMemHandle(&memory, values));
  CHECK(cudaIpcGetEventHandle(&event, filled));
  EXPECT(cudaIpcGetMemHandle(&memory, &memory) == cudaErrorInvalidValue, "memory of the host");
  int* mine = nullptr;
  EXPECT(cudaIpcOpenMemHandle(reinterpret_cast<void**>(&mine), memory,
                              cudaIpcMemLazyEnablePeerAccess) != cudaSuccess,
         "memory of this process");
  cudaGetLastError();
  EXPECT(cudaEventQuery(filled) == cudaSuccess, "an event that was never recorded");
  other.Send(memory);
  other.Send(event);
  void* whole = nullptr;
  CHECK(cudaMalloc(&whole, kWholeBytes));
  CHECK(cudaIpcGetMemHandle(&memory, whole));
  other.Send(memory);
  const auto back = other.Receive<cudaIpcEventHandle_t>();
  cudaEvent_t added;
  CHECK(cudaIpcOpenEventHandle(&added, back));

  // Alternates between the processes, each waiting on its device for the other.
  for (int round = 0; round < 3; ++round) {
    Launch(values, count, 1, stream, 3'000'000);
    CHECK(cudaEventRecord(filled, stream));
    other.Signal();
    other.Await();
    CHECK(cudaStreamWaitEvent(stream, added, 0));
  }
  CHECK(cudaStreamSynchronize(stream));
  EXPECT(cudaEventQuery(added) == cudaSuccess, "the stream went on before the other's event");
  EXPECT(Wrong(values, count, 3 + 30) == 0, "values after both have added");
  other.Await();  // It has closed the memory.
  CHECK(cudaEventDestroy(added));
  CHECK(cudaEventDestroy(filled));
  CHECK(cudaFree(values));
  CHECK(cudaFree(before));
  CHECK(cudaFree(whole));
  CHECK(cudaStreamDestroy(stream));
  return failures;
}

// An allocation has the same size and end in both processes.
int LookAtWhole(const cudaIpcMemHandle_t& memory) {
  int failures = 0;
  char* whole = nullptr;
  CHECK(cudaIpcOpenMemHandle(reinterpret_cast<void**>(&whole), memory,
                             cudaIpcMemLazyEnablePeerAccess));
  CUdeviceptr base = 0;
  size_t bytes = 0;
  DRIVER(cuMemGetAddressRange(&base, &bytes, reinterpret_cast<CUdeviceptr>(whole) + 1000));
  EXPECT(base == reinterpret_cast<CUdeviceptr>(whole) && bytes == kWholeBytes, "%zu bytes", bytes);
  std::vector<char> copy(kWholeBytes + 1);
  CHECK(cudaMemcpy(copy.data(), whole, kWholeBytes, cudaMemcpyDeviceToHost));
  EXPECT(cudaMemcpy(copy.data(), whole, kWholeBytes + 1, cudaMemcpyDeviceToHost) ==
             cudaErrorInvalidValue,
         "a copy beyond the end");
  cudaGetLastError();
  CHECK(cudaIpcCloseMemHandle(whole));
  EXPECT(cuMemGetAddressRange(&base, &bytes, reinterpret_cast<CUdeviceptr>(whole)) != CUDA_SUCCESS,
         "memory that was closed");
  return failures;
}

int Take(const End& other, int count) {
  int failures = 0;
  cudaStream_t stream;
  cudaEvent_t added;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaEventCreateWithFlags(&added, cudaEventDisableTiming | cudaEventInterprocess));
  cudaIpcEventHandle_t back;
  CHECK(cudaIpcGetEventHandle(&back, added));
  const auto memory = other.Receive<cudaIpcMemHandle_t>();
  const auto event = other.Receive<cudaIpcEventHandle_t>();
  failures += LookAtWhole(other.Receive<cudaIpcMemHandle_t>());
  other.Send(back);
  cudaEvent_t filled;
  int* values = nullptr;
  CHECK(cudaIpcOpenEventHandle(&filled, event));
  CHECK(cudaIpcOpenMemHandle(reinterpret_cast<void**>(&values), memory,
                             cudaIpcMemLazyEnablePeerAccess));
  cudaPointerAttributes attributes;
  CHECK(cudaPointerGetAttributes(&attributes, values));
  EXPECT(attributes.type == cudaMemoryTypeDevice && attributes.devicePointer == values,
         "its attributes");
  EXPECT(cudaFree(values) != cudaSuccess, "cudaFree of another process's memory");
  cudaGetLastError();
  for (int round = 0; round < 3; ++round) {
    other.Await();
    CHECK(cudaStreamWaitEvent(stream, filled, 0));
    Launch(values, count, 10, stream, 1'000'000);
    CHECK(cudaEventRecord(added, stream));
    other.Signal();
  }
  CHECK(cudaEventSynchronize(filled));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaIpcCloseMemHandle(values));
  EXPECT(cudaIpcCloseMemHandle(values) == cudaErrorInvalidValue, "closed twice");
  cudaGetLastError();
  CHECK(cudaEventDestroy(filled));
  other.Signal();
  CHECK(cudaEventDestroy(added));
  CHECK(cudaStreamDestroy(stream));
  return failures;
}

// Calls of processes sharing a pool, by the runtime or by the driver.
struct PoolCalls {
  bool by_driver;

  int Export(cudaMemPool_t pool) const {
    int file = -1;
    if (by_driver)
      DRIVER(cuMemPoolExportToShareableHandle(&file, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                              0));
    else
      CHECK(
          cudaMemPoolExportToShareableHandle(&file, pool, cudaMemHandleTypePosixFileDescriptor, 0));
    return file;
  }
  cudaMemPool_t Import(int file) const {
    void* const handle = reinterpret_cast<void*>(static_cast<intptr_t>(file));
    cudaMemPool_t pool = nullptr;
    if (by_driver)
      DRIVER(cuMemPoolImportFromShareableHandle(&pool, handle,
                                                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    else
      CHECK(cudaMemPoolImportFromShareableHandle(&pool, handle,
                                                 cudaMemHandleTypePosixFileDescriptor, 0));
    return pool;
  }
  void Give(const End& other, int* values) const {
    if (by_driver) {
      CUmemPoolPtrExportData data;
      DRIVER(cuMemPoolExportPointer(&data, reinterpret_cast<CUdeviceptr>(values)));
      other.Send(data);
    } else {
      cudaMemPoolPtrExportData data;
      CHECK(cudaMemPoolExportPointer(&data, values));
      other.Send(data);
    }
  }
  int* Take(const End& other, cudaMemPool_t pool) const {
    if (by_driver) {
      auto data = other.Receive<CUmemPoolPtrExportData>();
      CHECK(cudaSetDevice(0));
      CUdeviceptr values = 0;
      DRIVER(cuMemPoolImportPointer(&values, pool, &data));
      return reinterpret_cast<int*>(values);
    }
    auto data = other.Receive<cudaMemPoolPtrExportData>();
    CHECK(cudaSetDevice(0));
    void* values = nullptr;
    CHECK(cudaMemPoolImportPointer(&values, pool, &data));
    return static_cast<int*>(values);
  }
};

int GivePool(const End& other, int count, const PoolCalls& calls) {
  int failures = 0;
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.handleTypes = cudaMemHandleTypePosixFileDescriptor;
  // The last device, possibly not the other process's current one.
  const int device = DeviceCount() - 1;
  CHECK(cudaSetDevice(device));
  properties.location = {cudaMemLocationTypeDevice, device};
  cudaMemPool_t pool;
  CHECK(cudaMemPoolCreate(&pool, &properties));
  const int file = calls.Export(pool);
  other.SendFile(file);
  close(file);
  int *first = nullptr, *second = nullptr;
  CHECK(cudaMallocFromPoolAsync(reinterpret_cast<void**>(&first), count * sizeof(int), pool,
                                nullptr));
  CHECK(cudaMallocFromPoolAsync(reinterpret_cast<void**>(&second), count * sizeof(int), pool,
                                nullptr));
  CHECK(cudaStreamSynchronize(nullptr));
  for (int* values : {first, second}) {
    Fill(values, count);
    calls.Give(other, values);
  }
  other.Await();
  EXPECT(Wrong(first, count, 5) == 0, "what the other has added to the first");
  EXPECT(Wrong(second, count, 6) == 0, "what the other has added to the second");
  CHECK(cudaFreeAsync(first, nullptr));
  CHECK(cudaFree(second));
  CHECK(cudaMemPoolDestroy(pool));
  return failures;
}

int TakePool(const End& other, int count, const PoolCalls& calls) {
  int failures = 0;
  const int device = DeviceCount() - 1;
  const int file = other.ReceiveFile();
  const cudaMemPool_t pool = calls.Import(file);
  close(file);
  void* none = nullptr;
  EXPECT(cudaMallocFromPoolAsync(&none, 100, pool, nullptr) != cudaSuccess,
         "taken from an imported pool");
  cudaGetLastError();
  int* values[2] = {};
  for (int i = 0; i < 2; ++i) {
    values[i] = calls.Take(other, pool);
    cudaPointerAttributes attributes;
    CHECK(cudaPointerGetAttributes(&attributes, values[i]));
    EXPECT(attributes.device == device, "it is on device %d", attributes.device);
    CHECK(cudaSetDevice(device));
    Launch(values[i], count, 5 + i, nullptr);
  }
  CHECK(cudaFreeAsync(values[0], nullptr));
  CHECK(cudaFree(values[1]));
  CHECK(cudaStreamSynchronize(nullptr));
  CHECK(cudaMemPoolDestroy(pool));
  other.Signal();
  return failures;
}

}  // namespace

int main(int argc, char** argv) {
  const int count = static_cast<int>(NumberArgument(argc, argv, 1, 100'000, 1, 1L << 28));
  End other;
  const pid_t child = StartOther(&other);
  int failures = 0;
  if (!Supported()) {
    if (child == 0) return 0;
  } else if (child == 0) {
    failures += Take(other, count);
    for (const PoolCalls& calls : {PoolCalls{false}, PoolCalls{true}})
      failures += TakePool(other, count, calls);
    return ExitStatus(failures);
  } else {
    failures += Give(other, count);
    for (const PoolCalls& calls : {PoolCalls{false}, PoolCalls{true}})
      failures += GivePool(other, count, calls);
  }
  EXPECT(EndsWell(child), "the other process failed");
  std::printf("ipc: %d elements: %s\n", count, Verdict(failures));
  return ExitStatus(failures);
}
