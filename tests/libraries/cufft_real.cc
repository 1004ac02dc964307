// Transforms of real signals to their non-redundant half spectrum and back: float and double, one
// and two dimensions, out of place and in place in padded rows.
#include <cufft.h>

#include "fourier_check.h"

namespace {

cufftHandle Plan(const std::vector<int>& sizes, cufftType type) {
  cufftHandle plan = 0;
  if (sizes.size() == 1)
    CHECK(cufftPlan1d(&plan, sizes[0], type, 1));
  else
    CHECK(cufftPlan2d(&plan, sizes[0], sizes[1], type));
  return plan;
}

// Copies rows of one width to rows of another.
template <typename T>
std::vector<T> WithRows(const std::vector<T>& values, std::size_t width, std::size_t new_width) {
  std::vector<T> result(values.size() / width * new_width);
  for (std::size_t i = 0; i < result.size(); ++i)
    if (i % new_width < width) result[i] = values[i / new_width * width + i % new_width];
  return result;
}

template <typename Complex, typename Real>
std::vector<Complex> Pairs(const std::vector<Real>& parts) {
  std::vector<Complex> pairs(parts.size() / 2);
  for (std::size_t i = 0; i < pairs.size(); ++i) pairs[i] = {parts[2 * i], parts[2 * i + 1]};
  return pairs;
}

template <typename Real, typename Complex, typename Forward, typename Inverse>
void Compare(cufftType forward_type, Forward forward, cufftType inverse_type, Inverse inverse,
             double tolerance) {
  for (const std::vector<int>& sizes :
       std::vector<std::vector<int>>{{100}, {63}, {1009}, {16, 20}, {12, 35}}) {
    const std::size_t width = sizes.back(), half = width / 2 + 1;
    const std::size_t count = sizes.size() == 1 ? width : sizes[0] * width;
    const std::vector<Real> signal = RandomVector<Real>(count);
    const std::vector<std::complex<double>> spectrum =
        WithRows(Transform({signal.begin(), signal.end()}, sizes, CUFFT_FORWARD), width, half);
    std::vector<double> signal_times_count(signal.begin(), signal.end());
    for (double& value : signal_times_count) value *= static_cast<double>(count);

    const cufftHandle forward_plan = Plan(sizes, forward_type);
    const cufftHandle inverse_plan = Plan(sizes, inverse_type);
    const DeviceVector<Real> signal_there(signal), back(count);
    const DeviceVector<Complex> spectrum_there(spectrum.size());
    CHECK(forward(forward_plan, signal_there.get(), spectrum_there.get()));
    RequireComplexNear(spectrum_there.Read(), spectrum, tolerance);
    const DeviceVector<Complex> exact_spectrum(Narrowed<Complex>(spectrum));
    CHECK(inverse(inverse_plan, exact_spectrum.get(), back.get()));
    RequireNear(back.Read(), signal_times_count, tolerance);

    // A row in place also holds its half spectrum: one or two reals more than the signal needs.
    const DeviceVector<Real> in_place(WithRows(signal, width, 2 * half));
    Complex* const as_complex = reinterpret_cast<Complex*>(in_place.get());
    CHECK(forward(forward_plan, in_place.get(), as_complex));
    RequireComplexNear(Pairs<Complex>(in_place.Read()), spectrum, tolerance);
    CHECK(inverse(inverse_plan, as_complex, in_place.get()));
    RequireNear(WithRows(in_place.Read(), 2 * half, width), signal_times_count, tolerance);

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
