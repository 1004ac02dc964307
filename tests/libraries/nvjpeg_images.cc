// nvJPEG compresses and decompresses an image: checks the size and the remaining differences.
#include <nvjpeg.h>

#include <cstdint>

#include "library_check.h"

namespace {

constexpr int kWidth = 320, kHeight = 200;
using Bytes = std::vector<unsigned char>;

// A smooth image, like a photograph; red, green and blue of a pixel are adjacent.
Bytes SmoothImage() {
  Bytes image;
  for (int row = 0; row < kHeight; ++row)
    for (int column = 0; column < kWidth; ++column)
      for (const double phase : {0.0, 1.0, 2.0})
        image.push_back(static_cast<unsigned char>(127.5 + 100 * std::sin(phase + column / 40.0) *
                                                               std::cos(phase + row / 30.0)));
  return image;
}

nvjpegImage_t ImageAt(unsigned char* pixels) {
  nvjpegImage_t image = {};
  image.channel[0] = pixels;
  image.pitch[0] = 3 * kWidth;
  return image;
}

Bytes Compress(nvjpegHandle_t handle, const Bytes& pixels, int quality, cudaStream_t stream) {
  nvjpegEncoderState_t state = nullptr;
  nvjpegEncoderParams_t parameters = nullptr;
  CHECK(nvjpegEncoderStateCreate(handle, &state, stream));
  CHECK(nvjpegEncoderParamsCreate(handle, &parameters, stream));
  CHECK(nvjpegEncoderParamsSetQuality(parameters, quality, stream));
  CHECK(nvjpegEncoderParamsSetSamplingFactors(parameters, NVJPEG_CSS_444, stream));
  const DeviceVector<unsigned char> pixels_there(pixels);
  const nvjpegImage_t image = ImageAt(pixels_there.get());
  CHECK(nvjpegEncodeImage(handle, state, parameters, &image, NVJPEG_INPUT_RGBI, kWidth, kHeight,
                          stream));
  std::size_t size = 0;
  CHECK(nvjpegEncodeRetrieveBitstream(handle, state, nullptr, &size, stream));
  Bytes compressed(size);
  CHECK(nvjpegEncodeRetrieveBitstream(handle, state, compressed.data(), &size, stream));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(nvjpegEncoderParamsDestroy(parameters));
  CHECK(nvjpegEncoderStateDestroy(state));
  compressed.resize(size);
  return compressed;
}

Bytes Decompress(nvjpegHandle_t handle, const Bytes& compressed, cudaStream_t stream) {
  int components = 0, widths[NVJPEG_MAX_COMPONENT] = {}, heights[NVJPEG_MAX_COMPONENT] = {};
  nvjpegChromaSubsampling_t sampling = NVJPEG_CSS_UNKNOWN;
  CHECK(nvjpegGetImageInfo(handle, compressed.data(), compressed.size(), &components, &sampling,
                           widths, heights));
  REQUIRE(components == 3 && sampling == NVJPEG_CSS_444);
  REQUIRE(widths[0] == kWidth && heights[0] == kHeight);
  nvjpegJpegState_t state = nullptr;
  CHECK(nvjpegJpegStateCreate(handle, &state));
  const DeviceVector<unsigned char> pixels_there(3 * kWidth * kHeight);
  nvjpegImage_t image = ImageAt(pixels_there.get());
  CHECK(nvjpegDecode(handle, state, compressed.data(), compressed.size(), NVJPEG_OUTPUT_RGBI,
                     &image, stream));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(nvjpegJpegStateDestroy(state));
  return pixels_there.Read();
}

double RootMeanSquareDifference(const Bytes& a, const Bytes& b) {
  REQUIRE(a.size() == b.size());
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (double{1} * a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum / static_cast<double>(a.size()));
}

}  // namespace

int main() {
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreate(&stream));
  nvjpegHandle_t handle = nullptr;
  CHECK(nvjpegCreateSimple(&handle));
  const Bytes pixels = SmoothImage();
  const Bytes fine = Compress(handle, pixels, 95, stream);
  const Bytes coarse = Compress(handle, pixels, 30, stream);
  REQUIRE(fine.size() > coarse.size() && fine.size() < pixels.size() / 4);
  const double fine_difference = RootMeanSquareDifference(pixels, Decompress(handle, fine, stream));
  const double coarse_difference =
      RootMeanSquareDifference(pixels, Decompress(handle, coarse, stream));
  REQUIRE(fine_difference < 2 && fine_difference < coarse_difference && coarse_difference < 12);
  CHECK(nvjpegDestroy(handle));
  CHECK(cudaStreamDestroy(stream));
  std::puts("right");
}
