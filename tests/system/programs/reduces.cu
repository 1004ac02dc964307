// Sums an array over all devices again and again, and checks the last result.
//
//   reduces [ELEMENTS [ROUNDS]]
#include "nccl.h"

int main(int argc, char** argv) {
  const auto count = static_cast<size_t>(NumberArgument(argc, argv, 1, 1000, 1, 1 << 28));
  const long rounds = NumberArgument(argc, argv, 2, 10, 1, 1'000'000);
  devices = DeviceCount();
  {
    const Ranks ranks;
    Buffers<float> b(count);
    for (long round = 0; round < rounds; ++round) {
      ranks.Group([&](int r) {
        return Call("ncclAllReduce", b.send[r], b.receive[r], count, static_cast<int>(kFloat),
                    static_cast<int>(kSum), ranks.comms[r], ranks.streams[r]);
      });
    }
    ranks.Wait();
    b.Expect("all-reduce", b.receive, count, [](int, size_t i) { return Reduced(kSum, i); });
  }
  std::printf("reduces: %d %s, %s\n", devices, Devices(devices), Verdict(failures));
  return ExitStatus(failures);
}
