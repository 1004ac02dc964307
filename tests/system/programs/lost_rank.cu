// NCCL ranks in processes with a device each; the last one is killed at some point. The others must
// get an error, and must be able to abort the communicator.
//
//   lost_rank RANKS first|during|idle|split   point of the kill
//   lost_rank RANKS threads                   one process; rank 0 waits for ever and gets the error
#include <signal.h>

#include <ctime>
#include <string>

#include "nccl.h"
#include "two_processes.h"

namespace {

constexpr size_t kElements = 1000;
constexpr int kRemoteError = 6;

double Seconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

// Waits for the communicator's asynchronous error.
int AwaitError(Comm comm) {
  int error = kSuccess;
  while (error == kSuccess || error == kInProgress)
    NCCL(Call("ncclCommGetAsyncError", comm, &error));
  return error;
}

struct Rank {
  Comm comm = nullptr;
  cudaStream_t stream = nullptr;
  float* memory = nullptr;

  void Make(int device) {
    CHECK(cudaSetDevice(device));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&memory, kElements * sizeof(float)));
    CHECK(cudaMemset(memory, 0, kElements * sizeof(float)));
  }
  void AllReduce() {
    NCCL(Call("ncclAllReduce", static_cast<const void*>(memory), static_cast<void*>(memory),
              kElements, static_cast<int>(kFloat), static_cast<int>(kSum), comm, stream));
  }
  // Aborts the communicator and its pending operations.
  void GiveUp() {
    NCCL(Call("ncclCommAbort", comm));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaFree(memory));
  }
};

int RunRank(int rank, int ranks, const std::string& phase, const End& parent) {
  const bool dies = rank == ranks - 1;
  const auto at = [&](const char* here) {
    if (dies && phase == here) raise(SIGKILL);
  };
  Rank own;
  own.Make(rank);
  Id id;
  if (rank == 0) {
    NCCL(Call("ncclGetUniqueId", &id));
    parent.Send(id);
  }
  id = parent.Receive<Id>();
  double start = 0;
  const auto heard = [&](int result) {
    EXPECT(result == kRemoteError, "rank %d: %s", rank, TextOf(result));
    std::printf("rank %d: %s after %.1f s: %s\n", rank, TextOf(result), Seconds() - start,
                LastError());
    return ExitStatus(failures);
  };
  NCCL(Call("ncclCommInitRank", &own.comm, ranks, id, rank));
  at("first");
  if (phase != "first") {
    own.AllReduce();
    CHECK(cudaStreamSynchronize(own.stream));
    parent.Signal();
    parent.Await();  // All are done.
    at("during");
  }
  if (phase == "idle") {
    if (dies) raise(SIGKILL);
    // Without an operation waiting for the lost rank, there is no error.
    parent.Await();
    int error = -1;
    NCCL(Call("ncclCommGetAsyncError", own.comm, &error));
    EXPECT(error == kSuccess, "rank %d: %s", rank, TextOf(error));
  }
  start = Seconds();
  if (phase == "split") {
    if (dies) raise(SIGKILL);
    Comm part = nullptr;
    Config config;
    config.blocking = 0;
    const int begun = Call("ncclCommSplit", own.comm, 0, rank, &part, &config);
    if (begun != kInProgress) return heard(begun);
    return heard(AwaitError(part));
  }
  own.AllReduce();
  const int error = AwaitError(own.comm);
  own.GiveUp();
  return heard(error);
}

int RunProcesses(int ranks, const std::string& phase) {
  std::vector<End> ends(ranks);
  std::vector<pid_t> children(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    children[rank] = StartOther(&ends[rank]);
    if (children[rank] == 0) return RunRank(rank, ranks, phase, ends[rank]);
  }
  const auto id = ends[0].Receive<Id>();
  for (const End& end : ends) end.Send(id);
  if (phase != "first") {
    for (const End& end : ends) end.Await();
    for (const End& end : ends) end.Signal();
  }
  int status = 0;
  EXPECT(waitpid(children[ranks - 1], &status, 0) > 0 && WIFSIGNALED(status),
         "the last rank lives");
  if (phase == "idle")
    for (int rank = 0; rank < ranks - 1; ++rank) ends[rank].Signal();
  for (int rank = 0; rank < ranks - 1; ++rank)
    EXPECT(EndsWell(children[rank]), "rank %d failed", rank);
  return ExitStatus(failures);
}

int RunThreads(int ranks) {
  std::vector<Rank> all(ranks);
  Id id;
  NCCL(Call("ncclGetUniqueId", &id));
  for (int rank = 0; rank < ranks; ++rank) all[rank].Make(rank);
  NCCL(Call("ncclGroupStart"));
  for (int rank = 0; rank < ranks; ++rank) {
    CHECK(cudaSetDevice(rank));
    NCCL(Call("ncclCommInitRank", &all[rank].comm, ranks, id, rank));
  }
  NCCL(Call("ncclGroupEnd"));
  all[0].AllReduce();
  std::printf("waiting\n");
  std::fflush(stdout);
  const double start = Seconds();
  for (int rank = 0; rank < ranks; ++rank) {
    const int error = AwaitError(all[rank].comm);
    EXPECT(error == kRemoteError, "rank %d: %s", rank, TextOf(error));
  }
  std::printf("all have heard after %.1f s: %s\n", Seconds() - start, LastError());
  for (int rank = 0; rank < ranks; ++rank) NCCL(Call("ncclCommAbort", all[rank].comm));
  CHECK(cudaSetDevice(0));
  CHECK(cudaStreamSynchronize(all[0].stream));
  return ExitStatus(failures);
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = static_cast<int>(NumberArgument(argc, argv, 1, 2, 2, 64));
  const std::string phase = argc > 2 ? argv[2] : "during";
  const int status = phase == "threads" ? RunThreads(ranks) : RunProcesses(ranks, phase);
  return status;
}
