// Layers of networks: pooling, softmax, and batch normalisation with known statistics.
#include <cudnn.h>

#include <limits>

#include "library_check.h"

namespace {

constexpr int kImages = 3, kChannels = 5, kHeight = 13, kWidth = 11;
constexpr int kPlane = kHeight * kWidth, kVolume = kChannels * kPlane;
constexpr float kOne = 1, kZero = 0;

cudnnTensorDescriptor_t Tensor(int height, int width) {
  cudnnTensorDescriptor_t tensor = nullptr;
  CHECK(cudnnCreateTensorDescriptor(&tensor));
  CHECK(cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, kImages, kChannels,
                                   height, width));
  return tensor;
}

void ComparePooling(cudnnHandle_t handle, cudnnTensorDescriptor_t x_tensor,
                    cudnnPoolingMode_t mode) {
  constexpr int kWindowHeight = 3, kWindowWidth = 4, kPadHeight = 1, kPadWidth = 2;
  constexpr int kStrideHeight = 2, kStrideWidth = 3;
  cudnnPoolingDescriptor_t pooling = nullptr;
  CHECK(cudnnCreatePoolingDescriptor(&pooling));
  CHECK(cudnnSetPooling2dDescriptor(pooling, mode, CUDNN_PROPAGATE_NAN, kWindowHeight, kWindowWidth,
                                    kPadHeight, kPadWidth, kStrideHeight, kStrideWidth));
  int images = 0, channels = 0, height = 0, width = 0;
  CHECK(cudnnGetPooling2dForwardOutputDim(pooling, x_tensor, &images, &channels, &height, &width));
  REQUIRE(images == kImages && channels == kChannels);
  REQUIRE(height == (kHeight + 2 * kPadHeight - kWindowHeight) / kStrideHeight + 1);
  REQUIRE(width == (kWidth + 2 * kPadWidth - kWindowWidth) / kStrideWidth + 1);
  const cudnnTensorDescriptor_t y_tensor = Tensor(height, width);

  const std::vector<float> x = RandomVector(kImages * kVolume, 1);
  std::vector<double> y;
  for (int plane = 0; plane < kImages * kChannels; ++plane) {
    for (int at = 0; at < height * width; ++at) {
      double largest = -std::numeric_limits<double>::infinity(), sum = 0;
      int inside = 0;
      for (int i = 0; i < kWindowHeight * kWindowWidth; ++i) {
        const int row = at / width * kStrideHeight - kPadHeight + i / kWindowWidth;
        const int column = at % width * kStrideWidth - kPadWidth + i % kWindowWidth;
        if (row < 0 || row >= kHeight || column < 0 || column >= kWidth) continue;
        const double value = x[plane * kPlane + row * kWidth + column];
        largest = std::max(largest, value);
        sum += value;
        ++inside;
      }
      const bool padding_counts = mode == CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING;
      y.push_back(mode == CUDNN_POOLING_MAX
                      ? largest
                      : sum / (padding_counts ? kWindowHeight * kWindowWidth : inside));
    }
  }
  const DeviceVector<float> x_there(x), y_there(y.size());
  CHECK(cudnnPoolingForward(handle, pooling, &kOne, x_tensor, x_there.get(), &kZero, y_tensor,
                            y_there.get()));
  // A maximum is one of the inputs, not rounded.
  RequireNear(y_there.Read(), y, mode == CUDNN_POOLING_MAX ? 0 : 1e-6);
  CHECK(cudnnDestroyTensorDescriptor(y_tensor));
  CHECK(cudnnDestroyPoolingDescriptor(pooling));
}

// Softmax over the channels of each position, or over each whole image.
void CompareSoftmax(cudnnHandle_t handle, cudnnTensorDescriptor_t tensor,
                    cudnnSoftmaxAlgorithm_t algorithm, bool by_channel) {
  std::vector<float> x = RandomVector(kImages * kVolume, 2);
  // Without subtraction of the maximum, the exponential of numbers above 88 overflows.
  for (float& value : x) value *= algorithm == CUDNN_SOFTMAX_FAST ? 4 : 200;
  const int count = by_channel ? kChannels : kVolume, stride = by_channel ? kPlane : 1;
  std::vector<double> y(x.size());
  for (std::size_t first = 0; first < x.size(); ++first) {
    if (first % kVolume >= static_cast<std::size_t>(by_channel ? kPlane : 1)) continue;
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int i = 0; i < count; ++i) largest = std::max<double>(largest, x[first + i * stride]);
    for (int i = 0; i < count; ++i) sum += std::exp(x[first + i * stride] - largest);
    for (int i = 0; i < count; ++i) {
      const double logarithm = x[first + i * stride] - largest - std::log(sum);
      y[first + i * stride] = algorithm == CUDNN_SOFTMAX_LOG ? logarithm : std::exp(logarithm);
    }
  }
  const DeviceVector<float> x_there(x), y_there(x.size());
  CHECK(cudnnSoftmaxForward(handle, algorithm,
                            by_channel ? CUDNN_SOFTMAX_MODE_CHANNEL : CUDNN_SOFTMAX_MODE_INSTANCE,
                            &kOne, tensor, x_there.get(), &kZero, tensor, y_there.get()));
  RequireNear(y_there.Read(), y, 5e-6);
}

// Statistics per channel, or per position of each channel.
void CompareNormalization(cudnnHandle_t handle, cudnnTensorDescriptor_t tensor,
                          cudnnBatchNormMode_t mode) {
  constexpr double kEpsilon = 1e-3;
  const bool by_channel = mode == CUDNN_BATCHNORM_SPATIAL;
  const int count = by_channel ? kChannels : kVolume;
  const std::vector<float> x = RandomVector(kImages * kVolume, 3);
  const std::vector<float> scale = RandomVector(count, 4), bias = RandomVector(count, 5);
  const std::vector<float> mean = RandomVector(count, 6);
  std::vector<float> variance = RandomVector(count, 7);
  for (float& value : variance) value = std::abs(value) + 0.1f;
  std::vector<double> y;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t at = by_channel ? i / kPlane % kChannels : i % kVolume;
    y.push_back((static_cast<double>(x[i]) - mean[at]) / std::sqrt(variance[at] + kEpsilon) *
                    scale[at] +
                bias[at]);
  }
  cudnnTensorDescriptor_t statistics = nullptr;
  CHECK(cudnnCreateTensorDescriptor(&statistics));
  CHECK(cudnnDeriveBNTensorDescriptor(statistics, tensor, mode));
  const DeviceVector<float> x_there(x), y_there(x.size()), scale_there(scale), bias_there(bias),
      mean_there(mean), variance_there(variance);
  CHECK(cudnnBatchNormalizationForwardInference(
      handle, mode, &kOne, &kZero, tensor, x_there.get(), tensor, y_there.get(), statistics,
      scale_there.get(), bias_there.get(), mean_there.get(), variance_there.get(), kEpsilon));
  RequireNear(y_there.Read(), y, 1e-5);
  CHECK(cudnnDestroyTensorDescriptor(statistics));
}

}  // namespace

int main() {
  cudnnHandle_t handle = nullptr;
  CHECK(cudnnCreate(&handle));
  const cudnnTensorDescriptor_t tensor = Tensor(kHeight, kWidth);
  for (const cudnnPoolingMode_t mode :
       {CUDNN_POOLING_MAX, CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING,
        CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING})
    ComparePooling(handle, tensor, mode);
  for (const cudnnSoftmaxAlgorithm_t algorithm :
       {CUDNN_SOFTMAX_FAST, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_LOG})
    for (const bool by_channel : {false, true})
      CompareSoftmax(handle, tensor, algorithm, by_channel);
  for (const cudnnBatchNormMode_t mode : {CUDNN_BATCHNORM_SPATIAL, CUDNN_BATCHNORM_PER_ACTIVATION})
    CompareNormalization(handle, tensor, mode);
  CHECK(cudnnDestroyTensorDescriptor(tensor));
  CHECK(cudnnDestroy(handle));
  std::puts("right");
}
