// Streams, capture and events.
#include "group.h"

namespace {

void Nothing(void* /*data*/) {}

}  // namespace

void Streams() {
  StartContext();
  CUstream stream = nullptr;
  CUstream own = nullptr;
  CUdeviceptr device = 0;
  CUevent event = nullptr;
  CUstreamAttrValue value{};
  CUstreamCaptureMode mode = Rubbish<CUstreamCaptureMode>(99);
  DRIVER(cuMemAlloc(&device, 4096));
  DRIVER(cuStreamCreate(&own, 0));
  DRIVER(cuEventCreate(&event, 0));
  BAD(cuStreamCreate(nullptr, 0));
  BAD(cuStreamCreate(&stream, 2));
  BAD(cuStreamCreate(&stream, 0x1000));
  BAD(cuStreamCreate(&stream, 0xFFFFFFFF));
  BAD(cuStreamCreateWithPriority(nullptr, 0, 0));
  BAD(cuStreamCreateWithPriority(&stream, 0x1000, 0));
  BAD(cuStreamCreateWithPriority(&stream, 0, -1000));
  BAD(cuStreamCreateWithPriority(&stream, 0, 1000));
  BAD(cuStreamGetFlags(own, nullptr));
  BAD(cuStreamGetPriority(own, nullptr));
  BAD(cuStreamGetId(own, nullptr));
  BAD(cuStreamGetDevice(own, nullptr));
  BAD(cuStreamGetCtx(own, nullptr));
  BAD(cuStreamWaitEvent(own, event, 0x1000));
  BAD(cuStreamWaitEvent(own, event, 0));
  BAD(cuStreamAddCallback(own, nullptr, nullptr, 0));
  BAD(cuLaunchHostFunc(own, nullptr, nullptr));
  BAD(cuStreamGetAttribute(own, Rubbish<CUstreamAttrID>(0), &value));
  BAD(cuStreamGetAttribute(own, Rubbish<CUstreamAttrID>(99), &value));
  BAD(cuStreamGetAttribute(own, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value));
  FATAL(cuStreamGetAttribute(own, CU_LAUNCH_ATTRIBUTE_PRIORITY, nullptr));
  BAD(cuStreamSetAttribute(own, Rubbish<CUstreamAttrID>(99), &value));
  FATAL(cuStreamSetAttribute(own, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, nullptr));
  value.syncPolicy = Rubbish<CUsynchronizationPolicy>(99);
  BAD(cuStreamSetAttribute(own, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
  BAD(cuStreamAttachMemAsync(own, 0, 0, CU_MEM_ATTACH_GLOBAL));
  BAD(cuStreamAttachMemAsync(own, device, 0, CU_MEM_ATTACH_SINGLE));
  FATAL(cuThreadExchangeStreamCaptureMode(nullptr));
  BAD(cuThreadExchangeStreamCaptureMode(&mode));
  BAD(cuStreamDestroy(CU_STREAM_LEGACY));
  BAD(cuStreamDestroy(CU_STREAM_PER_THREAD));
}

void Capture() {
  StartContext();
  CUstream stream = nullptr;
  CUstream other = nullptr;
  CUgraph graph = nullptr;
  CUgraph own = nullptr;
  CUevent event = nullptr;
  CUdeviceptr memory = 0;
  CUdeviceptr more = 0;
  auto status = CU_STREAM_CAPTURE_STATUS_NONE;
  float milliseconds = 0;
  DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  DRIVER(cuStreamCreate(&other, 0));
  DRIVER(cuEventCreate(&event, 0));
  DRIVER(cuMemAlloc(&memory, 4096));
  DRIVER(cuGraphCreate(&own, 0));
  const auto info = [](CUstream of, CUstreamCaptureStatus* out) {
    return cuStreamGetCaptureInfo(of, out, nullptr, nullptr, nullptr, nullptr, nullptr);
  };
  const auto begin = [&] { DRIVER(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL)); };
  BAD(cuStreamBeginCapture(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL));
  BAD(cuStreamBeginCapture(CU_STREAM_LEGACY, CU_STREAM_CAPTURE_MODE_GLOBAL));
  BAD(cuStreamBeginCapture(stream, Rubbish<CUstreamCaptureMode>(99)));
  BAD(cuStreamEndCapture(stream, &graph));
  BAD(cuStreamEndCapture(nullptr, &graph));
  BAD(cuStreamIsCapturing(stream, nullptr));
  BAD(info(stream, nullptr));
  BAD(info(nullptr, &status));
  BAD(cuStreamUpdateCaptureDependencies(stream, nullptr, nullptr, 0, 0));
  BAD(cuStreamBeginCaptureToGraph(stream, own, nullptr, nullptr, 1, CU_STREAM_CAPTURE_MODE_GLOBAL));
  BAD(cuStreamBeginCaptureToGraph(stream, own, nullptr, nullptr, 0,
                                  Rubbish<CUstreamCaptureMode>(99)));
  begin();
  BAD(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  BAD(cuStreamIsCapturing(nullptr, &status));
  BAD(cuStreamUpdateCaptureDependencies(stream, nullptr, nullptr, 1, 0));
  BAD(cuStreamUpdateCaptureDependencies(stream, nullptr, nullptr, 0, 99));
  BAD(cuStreamEndCapture(other, &graph));
  BAD(cuStreamEndCapture(stream, &graph));
  begin();
  BAD(cuStreamSynchronize(stream));
  BAD(cuMemsetD8Async(memory, 0, 16, stream));
  BAD(cuStreamIsCapturing(stream, &status));
  BAD(cuStreamEndCapture(stream, &graph));
  begin();
  BAD(cuStreamQuery(stream));
  BAD(cuStreamEndCapture(stream, &graph));
  begin();
  BAD(cuCtxSynchronize());
  BAD(cuStreamEndCapture(stream, &graph));
  begin();
  BAD(cuMemAlloc(&more, 16));
  BAD(cuStreamEndCapture(stream, &graph));
  begin();
  BAD(cuMemFree(memory));
  BAD(cuStreamEndCapture(stream, &graph));
  begin();
  BAD(cuMemsetD8(memory, 0, 16));
  BAD(cuStreamEndCapture(stream, &graph));
  begin();
  BAD(cuMemsetD8Async(0, 0, 16, stream));
  BAD(cuStreamEndCapture(stream, &graph));
  begin();
  BAD(cuEventRecord(event, stream));
  BAD(cuEventQuery(event));
  BAD(cuStreamEndCapture(stream, &graph));
  begin();
  BAD(cuEventRecord(event, stream));
  BAD(cuEventSynchronize(event));
  BAD(cuStreamEndCapture(stream, &graph));
  begin();
  BAD(cuEventRecord(event, stream));
  BAD(cuEventElapsedTime(&milliseconds, event, event));
  BAD(cuStreamEndCapture(stream, &graph));
  begin();
  BAD(cuEventRecord(event, stream));
  BAD(cuStreamWaitEvent(other, event, 0));
  BAD(cuMemsetD8Async(memory, 0, 16, other));
  BAD(cuStreamEndCapture(other, &graph));
  BAD(cuStreamEndCapture(stream, &graph));
  begin();
  BAD(cuStreamAddCallback(stream, nullptr, nullptr, 0));
  BAD(cuLaunchHostFunc(stream, nullptr, nullptr));
  BAD(cuLaunchHostFunc(stream, Nothing, nullptr));
  BAD(cuStreamEndCapture(stream, nullptr));
}

void Events() {
  StartContext();
  CUevent event = nullptr;
  CUevent other = nullptr;
  CUevent untimed = nullptr;
  CUevent recorded = nullptr;
  float milliseconds = 0;
  BAD(cuEventCreate(nullptr, 0));
  BAD(cuEventCreate(&event, 0x10));
  BAD(cuEventCreate(&event, 0x1000));
  BAD(cuEventCreate(&event, 0xFFFFFFFF));
  BAD(cuEventCreate(&event, CU_EVENT_INTERPROCESS));
  DRIVER(cuEventCreate(&event, 0));
  DRIVER(cuEventCreate(&other, 0));
  DRIVER(cuEventCreate(&recorded, 0));
  DRIVER(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
  BAD(cuEventQuery(event));
  BAD(cuEventSynchronize(event));
  BAD(cuEventElapsedTime(&milliseconds, event, other));
  DRIVER(cuEventRecord(recorded, nullptr));
  DRIVER(cuEventRecord(untimed, nullptr));
  DRIVER(cuStreamSynchronize(nullptr));
  BAD(cuEventElapsedTime(nullptr, recorded, recorded));
  BAD(cuEventElapsedTime(&milliseconds, recorded, other));
  BAD(cuEventElapsedTime(&milliseconds, other, recorded));
  BAD(cuEventElapsedTime(&milliseconds, recorded, untimed));
  BAD(cuEventElapsedTime(&milliseconds, untimed, recorded));
  BAD(cuEventElapsedTime(&milliseconds, recorded, recorded));
  BAD(cuEventRecordWithFlags(event, nullptr, 99));
  BAD(cuEventRecordWithFlags(event, nullptr, CU_EVENT_RECORD_EXTERNAL));
}
