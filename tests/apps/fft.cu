// A batch of radix-2 Fourier transforms, forward and back, each device with a share of the batch.
// The first stages of a transform run in shared memory, the others with one launch each in global
// memory.
//
//   fft [LOG2_POINTS [BATCH]]
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdio>
#include <vector>

#include "check.h"

namespace {

constexpr double kPi = 3.14159265358979323846;
// Points transformed by one block in shared memory: 1024 of 8 bytes.
constexpr int kLogBlockPoints = 10;
constexpr unsigned kThreads = 256;

enum class Direction { kForward, kInverse };

// Replaces (even, odd) by their butterfly: the position within its group of `half` butterflies
// gives the twiddle factor exp(-+ i pi position / half).
__device__ void Butterfly(float2& even, float2& odd, int position, int half, float sign) {
  float sine, cosine;
  sincospif(sign * static_cast<float>(position) / static_cast<float>(half), &sine, &cosine);
  const float2 turned = make_float2(odd.x * cosine - odd.y * sine, odd.x * sine + odd.y * cosine);
  odd = make_float2(even.x - turned.x, even.y - turned.y);
  even = make_float2(even.x + turned.x, even.y + turned.y);
}

// Copies each transform of the batch (blockIdx.y) into bit-reversed order, scaled.
__global__ void BitReverse(const float2* in, float2* out, int log_points, float scale) {
  const unsigned points = 1u << log_points;
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= points) return;
  const size_t base = static_cast<size_t>(blockIdx.y) * points;
  const unsigned reversed = log_points == 0 ? 0 : __brev(i) >> (32 - log_points);
  const float2 value = in[base + reversed];
  out[base + i] = make_float2(value.x * scale, value.y * scale);
}

// The first log_block stages; a block transforms 2^log_block neighbouring points.
__global__ void SharedStages(float2* data, int log_points, int log_block, float sign) {
  extern __shared__ float2 points[];
  const int block_points = 1 << log_block;
  const size_t base = (static_cast<size_t>(blockIdx.y) << log_points) +
                      (static_cast<size_t>(blockIdx.x) << log_block);
  for (int i = threadIdx.x; i < block_points; i += blockDim.x) points[i] = data[base + i];
  __syncthreads();
  for (int half = 1; half < block_points; half *= 2) {
    for (int i = threadIdx.x; i < block_points / 2; i += blockDim.x) {
      const int position = i & (half - 1);
      const int even = 2 * (i - position) + position;
      Butterfly(points[even], points[even + half], position, half, sign);
    }
    __syncthreads();
  }
  for (int i = threadIdx.x; i < block_points; i += blockDim.x) data[base + i] = points[i];
}

// One stage over whole transforms; a thread does one butterfly.
__global__ void GlobalStage(float2* data, int log_points, int half, float sign) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= 1 << (log_points - 1)) return;
  float2* transform = data + (static_cast<size_t>(blockIdx.y) << log_points);
  const int position = i & (half - 1);
  const int even = 2 * (i - position) + position;
  Butterfly(transform[even], transform[even + half], position, half, sign);
}

// out = the transforms of in, both on the current device. The inverse is scaled by 1 / points.
void Transform(const float2* in, float2* out, int log_points, unsigned batch, Direction direction) {
  const int points = 1 << log_points;
  const float sign = direction == Direction::kForward ? -1.0f : 1.0f;
  const float scale = direction == Direction::kForward ? 1.0f : 1.0f / static_cast<float>(points);
  BitReverse<<<dim3((points + kThreads - 1) / kThreads, batch), kThreads>>>(in, out, log_points,
                                                                            scale);
  CHECK_LAUNCH();
  const int log_block = std::min(log_points, kLogBlockPoints);
  const unsigned shared_bytes = (1u << log_block) * sizeof(float2);
  SharedStages<<<dim3(points >> log_block, batch), kThreads, shared_bytes>>>(out, log_points,
                                                                             log_block, sign);
  CHECK_LAUNCH();
  for (int half = 1 << log_block; half < points; half *= 2) {
    const unsigned butterflies = points / 2;
    GlobalStage<<<dim3((butterflies + kThreads - 1) / kThreads, batch), kThreads>>>(out, log_points,
                                                                                    half, sign);
    CHECK_LAUNCH();
  }
}

// Returns one bin of the transform by its definition, in double.
std::complex<double> DefinedBin(const float2* signal, int points, int bin) {
  std::complex<double> sum = 0.0;
  for (int i = 0; i < points; ++i) {
    // The exponent is reduced exactly, in integers, before it becomes an angle.
    const long turn = static_cast<long>(i) * bin % points;
    const double angle = -2.0 * kPi * static_cast<double>(turn) / points;
    sum += std::complex<double>(signal[i].x, signal[i].y) * std::polar(1.0, angle);
  }
  return sum;
}

// Checks some bins of one spectrum, and all points after both transforms.
int Compare(const float2* signal, const float2* spectrum, const float2* back, int log_points,
            unsigned number) {
  const int points = 1 << log_points;
  int failures = 0;
  // Errors of an FFT in float grow with log2(points) times the signal's norm, here about 0.8 *
  // sqrt(points). The constant leaves room for approximate twiddle factors.
  const double bin_bound = 4e-7 * (log_points + 1) * std::sqrt(static_cast<double>(points)) + 1e-6;
  const int samples = std::min(points, 16);
  for (int sample = 0; sample < samples; ++sample) {
    const int bin = static_cast<int>((sample * 2654435761u + number * 97u) % points);
    const std::complex<double> expected = DefinedBin(signal, points, bin);
    const double error =
        std::abs(std::complex<double>(spectrum[bin].x, spectrum[bin].y) - expected);
    EXPECT(error <= bin_bound, "transform %u, bin %d is (%g, %g), not (%g, %g)", number, bin,
           spectrum[bin].x, spectrum[bin].y, expected.real(), expected.imag());
  }
  for (int i = 0; i < points && failures < 5; ++i) {
    const double error = std::hypot(back[i].x - signal[i].x, back[i].y - signal[i].y);
    EXPECT(error <= 1e-6 * (log_points + 1), "transform %u, point %d came back as (%g, %g)", number,
           i, back[i].x, back[i].y);
  }
  return failures;
}

}  // namespace

int main(int argc, char** argv) {
  const int log_points = static_cast<int>(NumberArgument(argc, argv, 1, 12, 0, 24));
  const auto batch = static_cast<unsigned>(NumberArgument(argc, argv, 2, 16, 1, 65535));
  const size_t points = size_t{1} << log_points;
  const int devices = DeviceCount();

  std::vector<float2> signal(points * batch);
  for (size_t i = 0; i < signal.size(); ++i) {
    signal[i] = make_float2(static_cast<float>(i * 7919 % 2001) * 1e-3f - 1.0f,
                            static_cast<float>(i * 104729 % 1999) * 1e-3f - 1.0f);
  }
  std::vector<float2> spectrum(signal.size());
  std::vector<float2> back(signal.size());

  const unsigned share = (batch + devices - 1) / devices;
  int used = 0;
  for (int device = 0; device < devices; ++device) {
    const unsigned first = std::min(batch, share * device);
    const unsigned count = std::min(share, batch - first);
    if (count == 0) continue;
    ++used;
    const size_t begin = first * points;
    const size_t bytes = count * points * sizeof(float2);
    float2* device_signal = nullptr;
    float2* device_spectrum = nullptr;
    CHECK(cudaSetDevice(device));
    CHECK(cudaMalloc(&device_signal, bytes));
    CHECK(cudaMalloc(&device_spectrum, bytes));
    CHECK(cudaMemcpy(device_signal, &signal[begin], bytes, cudaMemcpyHostToDevice));
    Transform(device_signal, device_spectrum, log_points, count, Direction::kForward);
    CHECK(cudaMemcpy(&spectrum[begin], device_spectrum, bytes, cudaMemcpyDeviceToHost));
    Transform(device_spectrum, device_signal, log_points, count, Direction::kInverse);
    CHECK(cudaMemcpy(&back[begin], device_signal, bytes, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(device_spectrum));
    CHECK(cudaFree(device_signal));
  }

  int failures = 0;
  for (unsigned number = 0; number < batch && failures < 5; ++number) {
    const size_t begin = number * points;
    failures += Compare(&signal[begin], &spectrum[begin], &back[begin], log_points, number);
  }
  std::printf("fft: %u transforms of %zu points, forward and back, on %d %s: %s\n", batch, points,
              used, Devices(used), Verdict(failures));
  return ExitStatus(failures);
}
