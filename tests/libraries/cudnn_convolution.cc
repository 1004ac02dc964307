// Convolutions with padding and strides, forward with a bias and a ReLU, and both gradients.
#include <cudnn.h>

#include <utility>

#include "library_check.h"

namespace {

constexpr int kImages = 2, kIn = 6, kHeight = 17, kWidth = 14, kOut = 8, kFilter = 3;
constexpr double kTolerance = 1e-4;
constexpr float kOne = 1, kZero = 0;

cudnnTensorDescriptor_t Tensor(int images, int channels, int height, int width) {
  cudnnTensorDescriptor_t tensor = nullptr;
  CHECK(cudnnCreateTensorDescriptor(&tensor));
  CHECK(cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, images, channels,
                                   height, width));
  return tensor;
}

// The first usable algorithm of cuDNN's heuristic, and the size of its workspace.
template <typename Performance, typename Get, typename Size, typename... Descriptors>
auto Choose(Get get, Size size, cudnnHandle_t handle, Descriptors... descriptors) {
  std::vector<Performance> offers(10);
  int count = 0;
  CHECK(get(handle, descriptors..., static_cast<int>(offers.size()), &count, offers.data()));
  for (int i = 0; i < count; ++i) {
    std::size_t bytes = 0;
    if (offers[i].status == CUDNN_STATUS_SUCCESS &&
        size(handle, descriptors..., offers[i].algo, &bytes) == CUDNN_STATUS_SUCCESS)
      return std::pair(offers[i].algo, bytes);
  }
  std::fputs("no algorithm can run\n", stderr);
  std::exit(1);
}

void Compare(cudnnHandle_t handle, int pad_height, int pad_width, int stride_height,
             int stride_width) {
  const cudnnTensorDescriptor_t x_tensor = Tensor(kImages, kIn, kHeight, kWidth);
  cudnnFilterDescriptor_t filter = nullptr;
  CHECK(cudnnCreateFilterDescriptor(&filter));
  CHECK(cudnnSetFilter4dDescriptor(filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, kOut, kIn, kFilter,
                                   kFilter));
  cudnnConvolutionDescriptor_t convolution = nullptr;
  CHECK(cudnnCreateConvolutionDescriptor(&convolution));
  CHECK(cudnnSetConvolution2dDescriptor(convolution, pad_height, pad_width, stride_height,
                                        stride_width, 1, 1, CUDNN_CROSS_CORRELATION,
                                        CUDNN_DATA_FLOAT));
  // Other math types may round the inputs to TF32.
  CHECK(cudnnSetConvolutionMathType(convolution, CUDNN_FMA_MATH));
  int images = 0, channels = 0, height = 0, width = 0;
  CHECK(cudnnGetConvolution2dForwardOutputDim(convolution, x_tensor, filter, &images, &channels,
                                              &height, &width));
  REQUIRE(images == kImages && channels == kOut);
  REQUIRE(height == (kHeight + 2 * pad_height - kFilter) / stride_height + 1);
  REQUIRE(width == (kWidth + 2 * pad_width - kFilter) / stride_width + 1);
  const cudnnTensorDescriptor_t y_tensor = Tensor(images, channels, height, width);
  const cudnnTensorDescriptor_t bias_tensor = Tensor(1, kOut, 1, 1);

  const std::vector<float> x = RandomVector(kImages * kIn * kHeight * kWidth, 1);
  const std::vector<float> w = RandomVector(kOut * kIn * kFilter * kFilter, 2);
  const std::vector<float> bias = RandomVector(kOut, 3);
  const std::vector<float> dy = RandomVector(kImages * kOut * height * width, 4);
  std::vector<double> y(dy.size()), dx(x.size()), dw(w.size());
  for (int y_at = 0; y_at < static_cast<int>(dy.size()); ++y_at) {
    const int column = y_at % width, row = y_at / width % height;
    const int out = y_at / (width * height) % kOut, image = y_at / (width * height * kOut);
    for (int w_at = out * kIn * kFilter * kFilter; w_at < (out + 1) * kIn * kFilter * kFilter;
         ++w_at) {
      const int x_column = column * stride_width - pad_width + w_at % kFilter;
      const int x_row = row * stride_height - pad_height + w_at / kFilter % kFilter;
      if (x_column < 0 || x_column >= kWidth || x_row < 0 || x_row >= kHeight) continue;
      const int in = w_at / (kFilter * kFilter) % kIn;
      const int x_at = ((image * kIn + in) * kHeight + x_row) * kWidth + x_column;
      y[y_at] += static_cast<double>(x[x_at]) * w[w_at];
      dx[x_at] += static_cast<double>(dy[y_at]) * w[w_at];
      dw[w_at] += static_cast<double>(dy[y_at]) * x[x_at];
    }
  }

  const DeviceVector<float> x_there(x), w_there(w), bias_there(bias), dy_there(dy);
  const DeviceVector<float> y_there(y.size()), dx_there(dx.size()), dw_there(dw.size());
  {
    const auto [algorithm, bytes] = Choose<cudnnConvolutionFwdAlgoPerf_t>(
        cudnnGetConvolutionForwardAlgorithm_v7, cudnnGetConvolutionForwardWorkspaceSize, handle,
        x_tensor, filter, convolution, y_tensor);
    const DeviceVector<char> workspace(bytes + 1);
    CHECK(cudnnConvolutionForward(handle, &kOne, x_tensor, x_there.get(), filter, w_there.get(),
                                  convolution, algorithm, workspace.get(), bytes, &kZero, y_tensor,
                                  y_there.get()));
    RequireNear(y_there.Read(), y, kTolerance);
  }
  CHECK(
      cudnnAddTensor(handle, &kOne, bias_tensor, bias_there.get(), &kOne, y_tensor, y_there.get()));
  for (std::size_t i = 0; i < y.size(); ++i) y[i] += bias[i / (height * width) % kOut];
  RequireNear(y_there.Read(), y, kTolerance);
  cudnnActivationDescriptor_t relu = nullptr;
  CHECK(cudnnCreateActivationDescriptor(&relu));
  CHECK(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0));
  CHECK(cudnnActivationForward(handle, relu, &kOne, y_tensor, y_there.get(), &kZero, y_tensor,
                               y_there.get()));
  for (double& value : y) value = std::max(value, 0.0);
  RequireNear(y_there.Read(), y, kTolerance);
  {
    const auto [algorithm, bytes] = Choose<cudnnConvolutionBwdDataAlgoPerf_t>(
        cudnnGetConvolutionBackwardDataAlgorithm_v7, cudnnGetConvolutionBackwardDataWorkspaceSize,
        handle, filter, y_tensor, convolution, x_tensor);
    const DeviceVector<char> workspace(bytes + 1);
    CHECK(cudnnConvolutionBackwardData(handle, &kOne, filter, w_there.get(), y_tensor,
                                       dy_there.get(), convolution, algorithm, workspace.get(),
                                       bytes, &kZero, x_tensor, dx_there.get()));
    RequireNear(dx_there.Read(), dx, kTolerance);
  }
  {
    const auto [algorithm, bytes] = Choose<cudnnConvolutionBwdFilterAlgoPerf_t>(
        cudnnGetConvolutionBackwardFilterAlgorithm_v7,
        cudnnGetConvolutionBackwardFilterWorkspaceSize, handle, x_tensor, y_tensor, convolution,
        filter);
    const DeviceVector<char> workspace(bytes + 1);
    CHECK(cudnnConvolutionBackwardFilter(handle, &kOne, x_tensor, x_there.get(), y_tensor,
                                         dy_there.get(), convolution, algorithm, workspace.get(),
                                         bytes, &kZero, filter, dw_there.get()));
    RequireNear(dw_there.Read(), dw, kTolerance);
  }
  CHECK(cudnnDestroyActivationDescriptor(relu));
  CHECK(cudnnDestroyConvolutionDescriptor(convolution));
  CHECK(cudnnDestroyFilterDescriptor(filter));
  for (const cudnnTensorDescriptor_t tensor : {x_tensor, y_tensor, bias_tensor})
    CHECK(cudnnDestroyTensorDescriptor(tensor));
}

}  // namespace

int main() {
  cudnnHandle_t handle = nullptr;
  CHECK(cudnnCreate(&handle));
  Compare(handle, 0, 0, 1, 1);
  Compare(handle, 1, 1, 1, 1);
  Compare(handle, 2, 1, 2, 3);
  CHECK(cudnnDestroy(handle));
  std::puts("right");
}
