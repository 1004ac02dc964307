// A process records an event shared with another process, and ends before its device reaches the
// event.

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "check.h"

namespace {

__global__ void Spin(const volatile int* until) {
  while (*until == 0) {
  }
}

int Record(int socket) {
  int* never = nullptr;
  CHECK(cudaMalloc(&never, sizeof(int)));
  CHECK(cudaMemset(never, 0, sizeof(int)));
  cudaEvent_t event;
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventInterprocess));
  cudaIpcEventHandle_t handle;
  CHECK(cudaIpcGetEventHandle(&handle, event));
  Spin<<<1, 1>>>(never);
  CHECK_LAUNCH();
  CHECK(cudaEventRecord(event));
  if (write(socket, &handle, sizeof handle) != sizeof handle) return 3;
  pause();
  return 3;
}

// A node of a graph records the event at each launch, after its kernel.
int RecordByGraph(cudaEvent_t event) {
  int failures = 0;
  int* until = nullptr;
  cudaStream_t stream, other;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CHECK(cudaMalloc(&until, sizeof(int)));
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  Spin<<<1, 1, 0, stream>>>(until);
  CHECK(cudaEventRecordWithFlags(event, stream, cudaEventRecordExternal));
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  for (int launch = 0; launch < 2; ++launch) {
    CHECK(cudaMemset(until, 0, sizeof(int)));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaGraphLaunch(exec, stream));
    EXPECT(cudaEventQuery(event) == cudaErrorNotReady, "while the kernel runs");
    CHECK(cudaMemsetAsync(until, 1, sizeof(int), other));
    CHECK(cudaEventSynchronize(event));
  }
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaStreamDestroy(other));
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFree(until));
  return failures;
}

int Use(int socket, pid_t recorder) {
  int failures = 0;
  cudaIpcEventHandle_t handle;
  if (recv(socket, &handle, sizeof handle, MSG_WAITALL) != sizeof handle) return 1;
  cudaEvent_t event;
  CHECK(cudaIpcOpenEventHandle(&event, handle));
  EXPECT(cudaEventQuery(event) == cudaErrorNotReady, "the kernel before it never ends");
  kill(recorder, SIGKILL);
  // The process has ended and is not yet reaped.
  siginfo_t ended{};
  if (waitid(P_PID, static_cast<id_t>(recorder), &ended, WEXITED | WNOWAIT) != 0) return 1;
  const cudaError_t waited = cudaEventSynchronize(event);
  EXPECT(waited != cudaSuccess && waited != cudaErrorNotReady, "it gives %s",
         cudaGetErrorName(waited));
  cudaGetLastError();
  waitpid(recorder, nullptr, 0);
  // This process can record the event again.
  CHECK(cudaEventRecord(event));
  CHECK(cudaEventSynchronize(event));
  CHECK(cudaEventQuery(event));
  failures += RecordByGraph(event);
  CHECK(cudaEventDestroy(event));
  return failures;
}

}  // namespace

int main() {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0) return 3;
  const pid_t child = fork();
  if (child < 0) return 3;
  if (child == 0) return Record(sockets[1]);
  const int failures = Use(sockets[0], child);
  std::printf("%s\n", Verdict(failures));
  return ExitStatus(failures);
}
