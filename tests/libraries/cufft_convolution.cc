// Convolutions of real signals through their spectra, float and double; the host multiplies the
// spectra. One plan transforms both signals as a batch.
#include <cufft.h>

#include "fourier_check.h"

namespace {

constexpr int kFirst = 600, kSecond = 401;

// Cyclic: sums beyond the end of `length` values are added at their start.
std::vector<double> Direct(const std::vector<double>& first, const std::vector<double>& second,
                           int length) {
  std::vector<double> sums(length);
  for (std::size_t i = 0; i < first.size(); ++i)
    for (std::size_t j = 0; j < second.size(); ++j) sums[(i + j) % length] += first[i] * second[j];
  return sums;
}

template <typename Real, typename Complex, typename Forward, typename Inverse>
void Compare(cufftType forward_type, Forward forward, cufftType inverse_type, Inverse inverse,
             double tolerance) {
  const std::vector<Real> first = RandomVector<Real>(kFirst, 1);
  const std::vector<Real> second = RandomVector<Real>(kSecond, 2);
  // 1000 values hold the whole convolution, 1024 leave spare elements, and with 600 it wraps
  // around.
  for (int length : {kFirst + kSecond - 1, 1024, kFirst}) {
    std::vector<Real> padded(2 * length);
    std::copy(first.begin(), first.end(), padded.begin());
    std::copy(second.begin(), second.end(), padded.begin() + length);
    const int half = length / 2 + 1;

    cufftHandle forward_plan = 0, inverse_plan = 0;
    CHECK(cufftPlanMany(&forward_plan, 1, &length, nullptr, 1, length, nullptr, 1, half,
                        forward_type, 2));
    CHECK(cufftPlan1d(&inverse_plan, length, inverse_type, 1));
    const DeviceVector<Real> signals(padded);
    const DeviceVector<Complex> spectra(2 * half);
    CHECK(forward(forward_plan, signals.get(), spectra.get()));
    const std::vector<std::complex<double>> factors = Widened(spectra.Read());
    std::vector<std::complex<double>> product;
    for (int i = 0; i < half; ++i)
      product.push_back(factors[i] * factors[half + i] / static_cast<double>(length));
    const DeviceVector<Complex> product_there(Narrowed<Complex>(product));
    const DeviceVector<Real> convolution(length);
    CHECK(inverse(inverse_plan, product_there.get(), convolution.get()));
    RequireNear(convolution.Read(),
                Direct({first.begin(), first.end()}, {second.begin(), second.end()}, length),
                tolerance);
    CHECK(cufftDestroy(forward_plan));
    CHECK(cufftDestroy(inverse_plan));
  }
}

}  // namespace

int main() {
  Compare<cufftReal, cufftComplex>(CUFFT_R2C, cufftExecR2C, CUFFT_C2R, cufftExecC2R, 1e-5);
  Compare<cufftDoubleReal, cufftDoubleComplex>(CUFFT_D2Z, cufftExecD2Z, CUFFT_Z2D, cufftExecZ2D,
                                               1e-13);
  std::puts("right");
}
