// Batches with strides and embedded arrays, in two dimensions, and three-dimensional arrays.
#include <cufft.h>

#include "fourier_check.h"

namespace {

// Positions of the elements in a batch of two-dimensional arrays.
struct Layout {
  int rows, columns;  // Size of the enclosing array.
  int stride, distance;
};

std::vector<std::complex<double>> Gathered(const std::vector<cufftDoubleComplex>& values,
                                           const Layout& layout, int batch, int rows, int columns) {
  std::vector<std::complex<double>> gathered;
  for (int row = 0; row < rows; ++row) {
    for (int column = 0; column < columns; ++column) {
      const cufftDoubleComplex& value =
          values[batch * layout.distance + (row * layout.columns + column) * layout.stride];
      gathered.emplace_back(value.x, value.y);
    }
  }
  return gathered;
}

void CompareLayouts(const Layout& in, const Layout& out) {
  constexpr int kRows = 6, kColumns = 10, kBatches = 3;
  // Since interleaved batches have a distance of 1, the arrays' own extent counts too.
  const auto elements = [](const Layout& layout) {
    return kBatches * layout.distance + layout.rows * layout.columns * layout.stride;
  };
  const std::vector<cufftDoubleComplex> input = RandomComplex<cufftDoubleComplex>(elements(in));
  const DeviceVector<cufftDoubleComplex> input_there(input), output_there(elements(out));
  int sizes[] = {kRows, kColumns};
  int in_embed[] = {in.rows, in.columns}, out_embed[] = {out.rows, out.columns};
  cufftHandle plan = 0;
  CHECK(cufftPlanMany(&plan, 2, sizes, in_embed, in.stride, in.distance, out_embed, out.stride,
                      out.distance, CUFFT_Z2Z, kBatches));
  CHECK(cufftExecZ2Z(plan, input_there.get(), output_there.get(), CUFFT_FORWARD));
  const std::vector<cufftDoubleComplex> output = output_there.Read();
  for (int batch = 0; batch < kBatches; ++batch)
    RequireComplexNear(
        Narrowed<cufftDoubleComplex>(Gathered(output, out, batch, kRows, kColumns)),
        Transform(Gathered(input, in, batch, kRows, kColumns), {kRows, kColumns}, CUFFT_FORWARD),
        1e-13);
  CHECK(cufftDestroy(plan));
}

void CompareThreeDimensions() {
  const std::vector<int> sizes = {8, 6, 15};
  const std::vector<cufftComplex> input = RandomComplex<cufftComplex>(8 * 6 * 15);
  const DeviceVector<cufftComplex> there(input);
  cufftHandle plan = 0;
  CHECK(cufftPlan3d(&plan, sizes[0], sizes[1], sizes[2], CUFFT_C2C));
  CHECK(cufftExecC2C(plan, there.get(), there.get(), CUFFT_FORWARD));
  RequireComplexNear(there.Read(), Transform(Widened(input), sizes, CUFFT_FORWARD), 1e-5);
  CHECK(cufftDestroy(plan));
}

}  // namespace

int main() {
  // Padded rows and gaps between the batches; then batches with interleaved elements.
  CompareLayouts({7, 12, 2, 7 * 12 * 2 + 5}, {8, 11, 3, 8 * 11 * 3 + 1});
  CompareLayouts({6, 10, 3, 1}, {6, 10, 3, 1});
  CompareLayouts({6, 10, 3, 1}, {6, 10, 1, 6 * 10});
  CompareThreeDimensions();
  std::puts("right");
}
