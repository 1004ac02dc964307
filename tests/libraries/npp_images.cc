// Images and signals by NPP in one stream: saturating sums, box filter, grey values, mirrored
// images, signals.
#include <npp.h>

#include <cstdint>

#include "library_check.h"

namespace {

using Image = std::vector<Npp8u>;
constexpr int kWidth = 203, kHeight = 117;
constexpr NppiSize kSize = {kWidth, kHeight};

NppStreamContext ContextOf(cudaStream_t stream) {
  cudaDeviceProp properties = {};
  CHECK(cudaGetDeviceProperties(&properties, 0));
  NppStreamContext context = {};
  context.hStream = stream;
  context.nMultiProcessorCount = properties.multiProcessorCount;
  context.nMaxThreadsPerMultiProcessor = properties.maxThreadsPerMultiProcessor;
  context.nMaxThreadsPerBlock = properties.maxThreadsPerBlock;
  context.nSharedMemPerBlock = properties.sharedMemPerBlock;
  context.nCudaDevAttrComputeCapabilityMajor = properties.major;
  context.nCudaDevAttrComputeCapabilityMinor = properties.minor;
  CHECK(cudaStreamGetFlags(stream, &context.nStreamFlags));
  return context;
}

Image RandomImage(std::size_t bytes, unsigned seed) {
  Image image;
  for (const float value : RandomVector(bytes, seed))
    image.push_back(static_cast<Npp8u>(127.5F * (value + 1)));
  return image;
}

// NPP does not document its rounding: a difference of one grey value is allowed.
void RequireWithinOne(const Image& found, const std::vector<double>& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) REQUIRE(std::abs(found[i] - expected[i]) <= 1);
}

void Pixels(const NppStreamContext& context) {
  const Image a = RandomImage(kWidth * kHeight, 1), b = RandomImage(kWidth * kHeight, 2);
  const DeviceVector<Npp8u> a_there(a), b_there(b), sum(a.size()), mirrored(a.size());
  CHECK(nppiAdd_8u_C1RSfs_Ctx(a_there.get(), kWidth, b_there.get(), kWidth, sum.get(), kWidth,
                              kSize, 0, context));
  CHECK(nppiMirror_8u_C1R_Ctx(a_there.get(), kWidth, mirrored.get(), kWidth, kSize,
                              NPP_VERTICAL_AXIS, context));
  CHECK(cudaStreamSynchronize(context.hStream));
  Image expected_sum, expected_mirrored;
  for (int row = 0; row < kHeight; ++row) {
    for (int column = 0; column < kWidth; ++column) {
      const int at = row * kWidth + column;
      expected_sum.push_back(static_cast<Npp8u>(std::min(255, a[at] + b[at])));
      expected_mirrored.push_back(a[row * kWidth + kWidth - 1 - column]);
    }
  }
  REQUIRE(sum.Read() == expected_sum);
  REQUIRE(mirrored.Read() == expected_mirrored);
}

void Grey(const NppStreamContext& context) {
  const Image colours = RandomImage(3 * kWidth * kHeight, 3);
  const DeviceVector<Npp8u> colours_there(colours), grey(kWidth * kHeight);
  CHECK(nppiRGBToGray_8u_C3C1R_Ctx(colours_there.get(), 3 * kWidth, grey.get(), kWidth, kSize,
                                   context));
  CHECK(cudaStreamSynchronize(context.hStream));
  std::vector<double> expected;
  for (std::size_t i = 0; i < colours.size(); i += 3)
    expected.push_back(0.299 * colours[i] + 0.587 * colours[i + 1] + 0.114 * colours[i + 2]);
  RequireWithinOne(grey.Read(), expected);
}

// Filters only pixels with all neighbours inside the image.
void BoxFilter(const NppStreamContext& context) {
  constexpr int kMask = 5, kInnerWidth = kWidth - kMask + 1, kInnerHeight = kHeight - kMask + 1;
  const Image image = RandomImage(kWidth * kHeight, 4);
  const DeviceVector<Npp8u> image_there(image), means(kInnerWidth * kInnerHeight);
  CHECK(nppiFilterBox_8u_C1R_Ctx(image_there.get() + kMask / 2 * (kWidth + 1), kWidth, means.get(),
                                 kInnerWidth, {kInnerWidth, kInnerHeight}, {kMask, kMask},
                                 {kMask / 2, kMask / 2}, context));
  CHECK(cudaStreamSynchronize(context.hStream));
  std::vector<double> expected;
  for (int row = 0; row < kInnerHeight; ++row) {
    for (int column = 0; column < kInnerWidth; ++column) {
      double sum = 0;
      for (int i = 0; i < kMask * kMask; ++i)
        sum += image[(row + i / kMask) * kWidth + column + i % kMask];
      expected.push_back(sum / (kMask * kMask));
    }
  }
  RequireWithinOne(means.Read(), expected);
}

void Signals(const NppStreamContext& context) {
  const std::vector<float> a = RandomVector(100'003, 5), b = RandomVector(a.size(), 6);
  const DeviceVector<float> a_there(a), b_there(b), sum(a.size());
  CHECK(nppsAdd_32f_Ctx(a_there.get(), b_there.get(), sum.get(), a.size(), context));
  CHECK(nppsMulC_32f_Ctx(sum.get(), 3, sum.get(), a.size(), context));
  CHECK(cudaStreamSynchronize(context.hStream));
  std::vector<double> expected;
  for (std::size_t i = 0; i < a.size(); ++i) expected.push_back(3 * (double{a[i]} + double{b[i]}));
  RequireNear(sum.Read(), expected, 1e-6);
}

}  // namespace

int main() {
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreate(&stream));
  const NppStreamContext context = ContextOf(stream);
  Pixels(context);
  Grey(context);
  BoxFilter(context);
  Signals(context);
  CHECK(cudaStreamDestroy(stream));
  std::puts("right");
}
