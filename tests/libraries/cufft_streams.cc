// Plans on several streams use one work area in turn.
#include <cufft.h>

#include <deque>

#include "fourier_check.h"

namespace {

// A plan sharing the work area, with its own stream and data.
struct Turn {
  explicit Turn(int length)
      : length(length), signal(RandomComplex<cufftDoubleComplex>(length)), there(signal) {
    CHECK(cudaStreamCreate(&stream));
    CHECK(cufftCreate(&plan));
    CHECK(cufftSetAutoAllocation(plan, 0));
    CHECK(cufftMakePlan1d(plan, length, CUFFT_Z2Z, 1, &work_size));
    CHECK(cufftSetStream(plan, stream));
  }
  Turn(const Turn&) = delete;
  ~Turn() {
    cufftDestroy(plan);
    cudaStreamDestroy(stream);
  }

  int length;
  std::vector<cufftDoubleComplex> signal;
  DeviceVector<cufftDoubleComplex> there;
  cudaStream_t stream = nullptr;
  cufftHandle plan = 0;
  std::size_t work_size = 0;
};

}  // namespace

int main() {
  std::deque<Turn> turns;
  std::size_t work_size = 1;
  for (const int length : {1009, 2187, 1000})
    work_size = std::max(work_size, turns.emplace_back(length).work_size);
  const DeviceVector<char> work_area(work_size);
  for (const Turn& turn : turns) CHECK(cufftSetWorkArea(turn.plan, work_area.get()));
  cudaEvent_t free_again = nullptr;
  CHECK(cudaEventCreateWithFlags(&free_again, cudaEventDisableTiming));
  for (const int direction : {CUFFT_FORWARD, CUFFT_INVERSE}) {
    for (const Turn& turn : turns) {
      // Each stream waits until the previous one has finished with the work area.
      CHECK(cudaStreamWaitEvent(turn.stream, free_again, 0));
      CHECK(cufftExecZ2Z(turn.plan, turn.there.get(), turn.there.get(), direction));
      CHECK(cudaEventRecord(free_again, turn.stream));
    }
    CHECK(cudaDeviceSynchronize());
    for (const Turn& turn : turns) {
      std::vector<std::complex<double>> expected = Widened(turn.signal);
      if (direction == CUFFT_FORWARD)
        expected = Transform(expected, {turn.length}, CUFFT_FORWARD);
      else
        for (std::complex<double>& value : expected) value *= turn.length;
      RequireComplexNear(turn.there.Read(), expected, 1e-13);
    }
  }
  CHECK(cudaEventDestroy(free_again));
  std::puts("right");
}
