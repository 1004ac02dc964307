// Calls allowed in a host function while its stream waits for it. Most are refused. Calls about
// created streams and about events succeed (measured, driver 580, CUDA 13.0).
#include <cuda_runtime.h>

#include <atomic>
#include <cstdlib>
#include <vector>

#include "check.h"
#include "driver_check.h"

namespace {

int failures = 0;

struct Objects {
  CUstream holding = nullptr, other = nullptr;
  CUevent event = nullptr, destroyed_event = nullptr;
  CUstream destroyed_stream = nullptr;
  CUdeviceptr memory = 0;
  CUcontext context = nullptr;
  CUgraphExec exec = nullptr;
  std::vector<char> plain = std::vector<char>(4096);
};

struct Call {
  const char* name;
  int expected;
  int (*make)(const Objects& objects);
};

#define CALL(expected, expression)                       \
  {                                                      \
    #expression, expected, [](const Objects& o) -> int { \
      static_cast<void>(o);                              \
      return expression;                                 \
    }                                                    \
  }

int number;
unsigned flags;
unsigned long long id;
float time;
std::size_t bytes;
CUcontext context;
CUdeviceptr address;
CUstreamCaptureStatus status;
const char* text;
char name[100];
cudaDeviceProp properties;

const Call kCalls[] = {
    CALL(CUDA_SUCCESS, cuInit(0)),
    CALL(CUDA_SUCCESS, cuDriverGetVersion(&number)),
    CALL(CUDA_SUCCESS, cuGetErrorString(CUDA_ERROR_NOT_PERMITTED, &text)),
    CALL(CUDA_ERROR_NOT_PERMITTED, cuDeviceGetCount(&number)),
    CALL(CUDA_ERROR_NOT_PERMITTED, cuDeviceGetName(name, sizeof name, 0)),
    CALL(CUDA_ERROR_NOT_PERMITTED, cuDeviceGetAttribute(&number, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0)),
    CALL(CUDA_ERROR_NOT_PERMITTED, cuCtxGetCurrent(&context)),
    CALL(CUDA_ERROR_NOT_PERMITTED, cuCtxSetCurrent(o.context)),
    CALL(CUDA_ERROR_NOT_PERMITTED, cuCtxGetDevice(&number)),
    CALL(CUDA_ERROR_NOT_PERMITTED,
         cuPointerGetAttribute(&number, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, o.memory)),
    CALL(CUDA_ERROR_NOT_PERMITTED, cuMemGetAddressRange(&address, &bytes, o.memory)),
    CALL(CUDA_ERROR_NOT_PERMITTED, cuMemAlloc(&address, 64)),
    CALL(CUDA_ERROR_NOT_PERMITTED, cuMemFree(o.memory)),
    CALL(CUDA_ERROR_NOT_PERMITTED, cuMemcpyHtoD(o.memory, o.plain.data(), 64)),
    CALL(CUDA_ERROR_NOT_PERMITTED, cuMemcpyHtoDAsync(o.memory, o.plain.data(), 64, o.other)),
    CALL(CUDA_ERROR_NOT_PERMITTED, cuStreamSynchronize(nullptr)),
    CALL(CUDA_ERROR_NOT_PERMITTED, cuCtxSynchronize()),
    CALL(CUDA_SUCCESS, cuMemsetD8Async(o.memory, 0, 64, o.other)),
    CALL(CUDA_SUCCESS, cuStreamGetFlags(o.other, &flags)),
    CALL(CUDA_ERROR_INVALID_VALUE, cuStreamGetFlags(o.other, nullptr)),
    CALL(CUDA_SUCCESS, cuStreamGetPriority(o.other, &number)),
    CALL(CUDA_SUCCESS, cuStreamGetId(o.other, &id)),
    CALL(CUDA_SUCCESS, cuStreamGetCtx(o.other, &context)),
    CALL(CUDA_SUCCESS, cuStreamGetDevice(o.other, &number)),
    CALL(CUDA_SUCCESS, cuStreamWaitEvent(o.other, o.event, 0)),
    CALL(CUDA_SUCCESS, cuStreamIsCapturing(o.other, &status)),
    CALL(CUDA_SUCCESS, cuStreamSynchronize(o.other)),
    CALL(CUDA_SUCCESS, cuStreamQuery(o.other)),
    CALL(CUDA_SUCCESS, cuEventQuery(o.event)),
    CALL(CUDA_SUCCESS, cuEventSynchronize(o.event)),
    CALL(CUDA_SUCCESS, cuEventElapsedTime(&time, o.event, o.event)),
    CALL(CUDA_SUCCESS, cuEventRecord(o.event, o.other)),
    CALL(CUDA_SUCCESS, cuLaunchHostFunc(
                           o.other, [](void*) {}, nullptr)),
    CALL(CUDA_SUCCESS, cuGraphLaunch(o.exec, o.other)),
    CALL(CUDA_SUCCESS, cudaGetDeviceCount(&number)),
    CALL(CUDA_SUCCESS, cudaGetDeviceProperties(&properties, 0)),
    CALL(CUDA_ERROR_NOT_PERMITTED, cudaGetDevice(&number)),
    CALL(CUDA_ERROR_NOT_PERMITTED, cudaMalloc(reinterpret_cast<void**>(&address), 64)),
    CALL(CUDA_ERROR_NOT_PERMITTED, cudaStreamQuery(o.other)),
    CALL(CUDA_SUCCESS, cudaEventSynchronize(o.event)),
};
// Called once: they destroy objects used by others.
const Call kEnds[] = {
    CALL(CUDA_SUCCESS, cuEventDestroy(o.destroyed_event)),
    CALL(CUDA_SUCCESS, cuStreamDestroy(o.destroyed_stream)),
};

struct Visit {
  const Objects* objects;
  const Call* call;
  int result;
};

void Make(void* data) {
  auto* const visit = static_cast<Visit*>(data);
  visit->result = visit->call->make(*visit->objects);
}

void Check(const Objects& objects, const Call& call, bool callback) {
  Visit visit{&objects, &call, -1};
  if (callback) {
    DRIVER(cuStreamAddCallback(
        objects.holding, [](CUstream, CUresult, void* data) { Make(data); }, &visit, 0));
  } else {
    DRIVER(cuLaunchHostFunc(objects.holding, Make, &visit));
  }
  DRIVER(cuStreamSynchronize(objects.holding));
  // A host function waiting for a stream must not wait for another host function.
  DRIVER(cuStreamSynchronize(objects.other));
  EXPECT(visit.result == call.expected, "%s in a %s: %d, not %d", call.name,
         callback ? "callback" : "host function", visit.result, call.expected);
}

}  // namespace

int main() {
  DeviceCount();
  CHECK(cudaSetDevice(0));
  CHECK(cudaFree(nullptr));
  CHECK(cudaGetDeviceProperties(&properties, 0));
  Objects objects;
  DRIVER(cuCtxGetCurrent(&objects.context));
  for (CUstream* stream : {&objects.holding, &objects.other, &objects.destroyed_stream})
    DRIVER(cuStreamCreate(stream, CU_STREAM_NON_BLOCKING));
  for (CUevent* event : {&objects.event, &objects.destroyed_event}) {
    DRIVER(cuEventCreate(event, CU_EVENT_DEFAULT));
    DRIVER(cuEventRecord(*event, objects.other));
  }
  DRIVER(cuMemAlloc(&objects.memory, 4096));
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  DRIVER(cuGraphCreate(&graph, 0));
  DRIVER(cuGraphAddEmptyNode(&node, graph, nullptr, 0));
  DRIVER(cuGraphInstantiate(&objects.exec, graph, 0));
  DRIVER(cuStreamSynchronize(objects.other));
  for (const bool callback : {false, true})
    for (const Call& call : kCalls) Check(objects, call, callback);
  for (const Call& call : kEnds) Check(objects, call, false);
  DRIVER(cuStreamSynchronize(objects.other));
  std::printf("driver_host_functions: %s\n", Verdict(failures));
  return ExitStatus(failures);
}
