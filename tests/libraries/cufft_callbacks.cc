// A transform with callbacks for its input and output: a window with the program's own weights, and
// results scaled and stored conjugated. NVRTC compiles the callbacks to LTO IR; cuFFT links them
// with its own code.
#include <cufft.h>
#include <cufftXt.h>

#include "compile_check.h"
#include "fourier_check.h"

namespace {

constexpr const char* kLoad = R"(
__device__ float2 Window(void* input, unsigned long long i, void* weights, void*) {
  const float2 value = static_cast<const float2*>(input)[i];
  const float weight = static_cast<const float*>(weights)[i];
  return make_float2(value.x * weight, value.y * weight);
}
)";

constexpr const char* kStore = R"(
__device__ void Conjugate(void* output, unsigned long long i, float2 value, void* scale, void*) {
  const float factor = *static_cast<const float*>(scale);
  static_cast<float2*>(output)[i] = make_float2(factor * value.x, -factor * value.y);
}
)";

void Compare(int length, int batch) {
  const int size = length * batch;
  const std::vector<cufftComplex> signal = RandomComplex<cufftComplex>(size);
  const std::vector<float> weights = RandomVector<float>(size, 2);
  const std::vector<float> scale = {0.25f};
  std::vector<std::complex<double>> expected;
  for (int row = 0; row < batch; ++row) {
    std::vector<std::complex<double>> part;
    for (int i = row * length; i < (row + 1) * length; ++i)
      part.push_back(std::complex<double>(signal[i].x, signal[i].y) * double(weights[i]));
    for (const std::complex<double>& value : Transform(part, {length}, CUFFT_FORWARD))
      expected.push_back(std::conj(value) * double(scale[0]));
  }

  const DeviceVector<cufftComplex> signal_there(signal), spectrum_there(size);
  const DeviceVector<float> weights_there(weights), scale_there(scale);
  const std::vector<char> load = LtoIr(kLoad), store = LtoIr(kStore);
  void *load_info = weights_there.get(), *store_info = scale_there.get();
  cufftHandle plan = 0;
  CHECK(cufftCreate(&plan));
  CHECK(cufftXtSetJITCallback(plan, "Window", load.data(), load.size(), CUFFT_CB_LD_COMPLEX,
                              &load_info));
  CHECK(cufftXtSetJITCallback(plan, "Conjugate", store.data(), store.size(), CUFFT_CB_ST_COMPLEX,
                              &store_info));
  std::size_t workspace = 0;
  CHECK(cufftMakePlan1d(plan, length, CUFFT_C2C, batch, &workspace));
  CHECK(cufftExecC2C(plan, signal_there.get(), spectrum_there.get(), CUFFT_FORWARD));
  RequireComplexNear(spectrum_there.Read(), expected, 1e-5);
  CHECK(cufftDestroy(plan));
}

}  // namespace

int main() {
  Compare(256, 16);
  Compare(1 << 12, 1);
  std::puts("right");
}
