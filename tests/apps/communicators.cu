// Life cycle of NCCL's communicators, in a process with a rank on each device: creation,
// properties, splitting, shrinking, finalising and aborting. Also memory and wrong arguments.
//
//   communicators
#include "nccl.h"

namespace {

void Facts(const Ranks& ranks) {
  for (int r = 0; r < devices; ++r) {
    int count = -1, rank = -1, device = -1, error = -1;
    NCCL(Call("ncclCommCount", ranks.comms[r], &count));
    NCCL(Call("ncclCommUserRank", ranks.comms[r], &rank));
    NCCL(Call("ncclCommCuDevice", ranks.comms[r], &device));
    NCCL(Call("ncclCommGetAsyncError", ranks.comms[r], &error));
    EXPECT(count == devices && rank == r && device == r && error == kSuccess,
           "rank %d says: rank %d of %d, on device %d, error %d", r, rank, count, device, error);
  }
}

void SplitAndShrink(const Ranks& ranks, size_t count) {
  std::vector<Comm> parts(devices);
  // Even and odd ranks, each in reverse order.
  ranks.Group([&](int r) {
    return Call("ncclCommSplit", ranks.comms[r], r % 2, -r, &parts[r],
                static_cast<Config*>(nullptr));
  });
  Buffers<float> b(count);
  for (int r = 0; r < devices; ++r) {
    int size = 0, rank = 0;
    NCCL(Call("ncclCommCount", parts[r], &size));
    NCCL(Call("ncclCommUserRank", parts[r], &rank));
    EXPECT(size == (devices + 1 - r % 2) / 2 && rank == size - 1 - r / 2,
           "rank %d of %d is %d of %d of its part", r, devices, rank, size);
  }
  ranks.Group([&](int r) {
    return Call("ncclAllReduce", b.send[r], b.receive[r], count, static_cast<int>(kFloat),
                static_cast<int>(kSum), parts[r], ranks.streams[r]);
  });
  ranks.Wait();
  b.Expect("all-reduce of a part", b.receive, count, [&](int r, size_t i) {
    float sum = 0.F;
    for (int other = r % 2; other < devices; other += 2)
      sum += static_cast<float>(ValueAt(other, i));
    return sum;
  });
  for (int r = 0; r < devices; ++r) NCCL(Call("ncclCommDestroy", parts[r]));
  // One rank alone, the others in no communicator.
  ranks.Group([&](int r) {
    return Call("ncclCommSplit", ranks.comms[r], r == 0 ? 0 : -1, 0, &parts[r],
                static_cast<Config*>(nullptr));
  });
  for (int r = 0; r < devices; ++r)
    EXPECT((parts[r] != nullptr) == (r == 0), "rank %d has %p", r, static_cast<void*>(parts[r]));
  NCCL(Call("ncclCommDestroy", parts[0]));
  if (devices < 2 || version < 22700) return;
  int leaves = 0;
  NCCL(Call("ncclGroupStart"));
  for (int r = 1; r < devices; ++r) {
    CHECK(cudaSetDevice(r));
    NCCL(Call("ncclCommShrink", ranks.comms[r], &leaves, 1, &parts[r],
              static_cast<Config*>(nullptr), 0));
  }
  NCCL(Call("ncclGroupEnd"));
  for (int r = 1; r < devices; ++r) {
    int size = 0, rank = 0;
    NCCL(Call("ncclCommCount", parts[r], &size));
    NCCL(Call("ncclCommUserRank", parts[r], &rank));
    EXPECT(size == devices - 1 && rank == r - 1, "rank %d is %d of %d", r, rank, size);
  }
  for (int r = 1; r < devices; ++r) NCCL(Call("ncclCommDestroy", parts[r]));
}

// A non-blocking initialisation is in progress until all ranks have joined. It can be aborted
// before.
void NotBlocking() {
  Id id;
  CHECK(cudaSetDevice(0));
  NCCL(Call("ncclGetUniqueId", &id));
  Config config;
  config.blocking = 0;
  std::vector<Comm> comms(devices);
  for (int r = 0; r < devices; ++r) {
    CHECK(cudaSetDevice(r));
    const int result = Call("ncclCommInitRankConfig", &comms[r], devices, id, r, &config);
    EXPECT(result == kInProgress || (devices == 1 && result == kSuccess), "%s", TextOf(result));
  }
  for (int r = 0; r < devices; ++r) {
    int state = kInProgress;
    while (state == kInProgress) NCCL(Call("ncclCommGetAsyncError", comms[r], &state));
    EXPECT(state == kSuccess, "%s", TextOf(state));
  }
  for (int r = 0; r < devices; ++r) NCCL(Call("ncclCommAbort", comms[r]));
  if (devices < 2) return;
  // The other ranks never join.
  CHECK(cudaSetDevice(0));
  NCCL(Call("ncclGetUniqueId", &id));
  const int result = Call("ncclCommInitRankConfig", &comms[0], devices, id, 0, &config);
  EXPECT(result == kInProgress, "%s", TextOf(result));
  NCCL(Call("ncclCommAbort", comms[0]));
}

// Rank 0 waits for ranks never joining its call. Its stream continues after an abort.
void Abort(size_t count) {
  if (devices < 2) return;
  auto* const ranks = new Ranks;  // Not destroyed: aborted.
  Buffers<float> b(count);
  // One common call, to connect the ranks.
  ranks->Group([&](int r) {
    return Call("ncclAllReduce", b.send[r], b.receive[r], count, static_cast<int>(kFloat),
                static_cast<int>(kSum), ranks->comms[r], ranks->streams[r]);
  });
  ranks->Wait();
  CHECK(cudaSetDevice(0));
  NCCL(Call("ncclAllReduce", b.send[0], b.receive[0], count, static_cast<int>(kFloat),
            static_cast<int>(kSum), ranks->comms[0], ranks->streams[0]));
  for (int r = 0; r < devices; ++r) {
    CHECK(cudaSetDevice(r));
    NCCL(Call("ncclCommAbort", ranks->comms[r]));
    CHECK(cudaStreamSynchronize(ranks->streams[r]));
    CHECK(cudaStreamDestroy(ranks->streams[r]));
  }
}

void WrongArguments(const Ranks& ranks) {
  Buffers<float> b(16);
  const Comm comm = ranks.comms[0];
  const cudaStream_t stream = ranks.streams[0];
  const auto reduce = [&](int type, int op, Comm of) {
    return Call("ncclAllReduce", b.send[0], b.receive[0], size_t{16}, type, op, of, stream);
  };
  CHECK(cudaSetDevice(0));
  EXPECT(reduce(kFloat, kSum, nullptr) == kInvalidArgument, "no communicator");
  EXPECT(reduce(99, kSum, comm) == kInvalidArgument, "no such type");
  EXPECT(reduce(-1, kSum, comm) == kInvalidArgument, "no such type");
  EXPECT(reduce(kFloat, -1, comm) == kInvalidArgument, "no such operation");
  EXPECT(Call("ncclBroadcast", b.send[0], b.receive[0], size_t{16}, static_cast<int>(kFloat),
              devices, comm, stream) == kInvalidArgument,
         "no such root");
  EXPECT(Call("ncclSend", b.send[0], size_t{16}, static_cast<int>(kFloat), devices, comm, stream) ==
             kInvalidArgument,
         "no such peer");
  EXPECT(Call("ncclGroupEnd") == kInvalidUsage, "a group that was not started");
  // An invalid call fails its whole group. No call of the group runs.
  NCCL(Call("ncclGroupStart"));
  EXPECT(reduce(99, kSum, comm) == kInvalidArgument, "no such type");
  EXPECT(Call("ncclGroupEnd") == kInvalidArgument, "a group with a wrong call");
  Id id;
  NCCL(Call("ncclGetUniqueId", &id));
  Comm made = nullptr;
  EXPECT(Call("ncclCommInitRank", &made, 1, id, 1) == kInvalidArgument, "rank 1 of 1");
  EXPECT(Call("ncclCommInitRank", &made, 0, id, 0) == kInvalidArgument, "rank 0 of 0");
  EXPECT(Call("ncclGetVersion", static_cast<int*>(nullptr)) == kInvalidArgument, "no place");
  // The buffer is still usable.
  std::vector<float> before(16);
  CHECK(cudaMemset(b.receive[0], 0, 16 * sizeof(float)));
}

// A failed group gives up its initialisations in progress. An invalid list of devices creates
// nothing.
void FailedBeginnings() {
  Id id;
  CHECK(cudaSetDevice(0));
  NCCL(Call("ncclGetUniqueId", &id));
  Comm first = nullptr, second = nullptr;
  NCCL(Call("ncclGroupStart"));
  NCCL(Call("ncclCommInitRank", &first, 2, id, 0));
  EXPECT(Call("ncclCommInitRank", &second, 2, id, 2) == kInvalidArgument, "rank 2 of 2");
  EXPECT(Call("ncclGroupEnd") == kInvalidArgument, "a group with a wrong rank");
  const int none = devices;
  EXPECT(Call("ncclCommInitAll", &first, 1, &none) != kSuccess, "device %d of %d", none, devices);
  int device = -1;
  CHECK(cudaGetDevice(&device));
  EXPECT(device == 0, "device %d is current", device);
}

void InitAll(size_t count) {
  std::vector<Comm> comms(devices);
  NCCL(Call("ncclCommInitAll", comms.data(), devices, static_cast<const int*>(nullptr)));
  Buffers<float> b(count);
  NCCL(Call("ncclGroupStart"));
  for (int r = 0; r < devices; ++r)
    NCCL(Call("ncclAllReduce", b.send[r], b.receive[r], count, static_cast<int>(kFloat),
              static_cast<int>(kSum), comms[r], static_cast<cudaStream_t>(nullptr)));
  NCCL(Call("ncclGroupEnd"));
  b.Expect("default streams", b.receive, count, [](int, size_t i) { return Reduced(kSum, i); });
  for (int r = 0; r < devices; ++r) {
    NCCL(Call("ncclCommFinalize", comms[r]));
  }
  for (int r = 0; r < devices; ++r) NCCL(Call("ncclCommDestroy", comms[r]));
}

void Memory(const Ranks& ranks) {
  void* memory = nullptr;
  void* handle = nullptr;
  CHECK(cudaSetDevice(0));
  NCCL(Call("ncclMemAlloc", &memory, size_t{1} << 20));
  CHECK(cudaMemset(memory, 1, 1 << 20));
  NCCL(Call("ncclCommRegister", ranks.comms[0], memory, size_t{1} << 20, &handle));
  NCCL(Call("ncclCommDeregister", ranks.comms[0], handle));
  NCCL(Call("ncclMemFree", memory));
}

}  // namespace

int main() {
  constexpr size_t kElements = 1000;
  devices = DeviceCount();
  NCCL(Call("ncclGetVersion", &version));
  {
    const Ranks ranks;
    Facts(ranks);
    SplitAndShrink(ranks, kElements);
    Memory(ranks);
    WrongArguments(ranks);
    Facts(ranks);
  }
  InitAll(kElements);
  FailedBeginnings();
  NotBlocking();
  Abort(kElements);
  std::printf("communicators: %d %s, %s\n", devices, Devices(devices), Verdict(failures));
  return ExitStatus(failures);
}
