// Complex transforms in one dimension, float and double: a power of two, small odd factors and a
// prime as lengths, forward and back, in place and out of place.
#include <cufft.h>

#include "fourier_check.h"

namespace {

template <typename Complex, typename Execute>
void Compare(cufftType type, Execute execute, double tolerance) {
  for (const int length : {1 << 10, 3 * 5 * 7, 1009}) {
    const std::vector<Complex> signal = RandomComplex<Complex>(length);
    const std::vector<std::complex<double>> spectrum =
        Transform(Widened(signal), {length}, CUFFT_FORWARD);
    // cuFFT does not scale in either direction.
    std::vector<std::complex<double>> signal_times_length = Widened(signal);
    for (std::complex<double>& value : signal_times_length) value *= length;

    cufftHandle plan = 0;
    CHECK(cufftPlan1d(&plan, length, type, 1));
    const DeviceVector<Complex> signal_there(signal), spectrum_there(length), back(length);
    CHECK(execute(plan, signal_there.get(), spectrum_there.get(), CUFFT_FORWARD));
    RequireComplexNear(spectrum_there.Read(), spectrum, tolerance);
    CHECK(execute(plan, spectrum_there.get(), back.get(), CUFFT_INVERSE));
    RequireComplexNear(back.Read(), signal_times_length, tolerance);

    const DeviceVector<Complex> in_place(signal);
    CHECK(execute(plan, in_place.get(), in_place.get(), CUFFT_FORWARD));
    RequireComplexNear(in_place.Read(), spectrum, tolerance);
    CHECK(execute(plan, in_place.get(), in_place.get(), CUFFT_INVERSE));
    RequireComplexNear(in_place.Read(), signal_times_length, tolerance);

    // A round trip hides a sign error made in both directions; an inverse transform of the signal
    // itself shows it.
    const DeviceVector<Complex> inverse(signal);
    CHECK(execute(plan, inverse.get(), inverse.get(), CUFFT_INVERSE));
    RequireComplexNear(inverse.Read(), Transform(Widened(signal), {length}, CUFFT_INVERSE),
                       tolerance);
    CHECK(cufftDestroy(plan));
  }
}

}  // namespace

int main() {
  Compare<cufftComplex>(CUFFT_C2C, cufftExecC2C, 1e-5);
  Compare<cufftDoubleComplex>(CUFFT_Z2Z, cufftExecZ2Z, 1e-13);
  std::puts("right");
}
