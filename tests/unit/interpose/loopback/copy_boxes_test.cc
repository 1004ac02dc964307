// Copies of rows and boxes.
#include "tests/unit/interpose/loopback/loopback.h"

namespace cuspan {
namespace {

// Rows of `width` bytes, `pitch` apart.
struct Rows {
  std::size_t pitch;
  std::size_t width;
  std::size_t count;
  std::size_t bytes() const { return pitch * count; }
};

class CopyBoxesTest : public LoopbackTest {
 protected:
  static constexpr std::byte kGap{0xee};

  static std::byte At(std::size_t row, std::size_t column) {
    return static_cast<std::byte>(row * 31 + column * 7 + 1);
  }
  static std::vector<std::byte> Filled(const Rows& rows) {
    std::vector<std::byte> made(rows.bytes(), kGap);
    for (std::size_t y = 0; y < rows.count; ++y)
      for (std::size_t x = 0; x < rows.width; ++x) made[y * rows.pitch + x] = At(y, x);
    return made;
  }
  static std::byte* NewGap(std::size_t bytes) {
    void* memory = nullptr;
    EXPECT_CUDA(cudaMalloc(&memory, bytes));
    EXPECT_CUDA(cudaMemset(memory, static_cast<int>(kGap), bytes));
    EXPECT_CUDA(cudaDeviceSynchronize());
    return static_cast<std::byte*>(memory);
  }
  static std::vector<std::byte> ReadBytes(const std::byte* memory, std::size_t bytes) {
    std::vector<std::byte> read(bytes);
    EXPECT_CUDA(cudaDeviceSynchronize());
    EXPECT_CUDA(cudaMemcpy(read.data(), memory, bytes, cudaMemcpyDeviceToHost));
    return read;
  }
};

// Rows smaller and larger than a slot of staging memory, and rows without gaps.
constexpr Rows kShapes[] = {{16, 3, 5}, {200, 128, 300}, {8192, 5001, 20}, {64, 64, 1000}};

TEST_F(CopyBoxesTest, RowsArriveAndGapsStay) {
  for (const Rows& rows : kShapes) {
    SCOPED_TRACE(rows.width);
    const Rows there{rows.width + 512, rows.width, rows.count};
    const std::vector<std::byte> sent = Filled(rows);
    std::byte* const memory = NewGap(there.bytes());
    ASSERT_CUDA(cudaMemcpy2D(memory, there.pitch, sent.data(), rows.pitch, rows.width, rows.count,
                             cudaMemcpyHostToDevice));
    EXPECT_EQ(ReadBytes(memory, there.bytes()), Filled(there));
    std::vector<std::byte> back(rows.bytes(), kGap);
    ASSERT_CUDA(cudaMemcpy2D(back.data(), rows.pitch, memory, there.pitch, rows.width, rows.count,
                             cudaMemcpyDeviceToHost));
    EXPECT_EQ(back, sent);
    EXPECT_CUDA(cudaFree(memory));
  }
}

TEST_F(CopyBoxesTest, RowsMoveWithinADevice) {
  const Rows from{300, 100, 50};
  const Rows to{128, 100, 50};
  std::byte* const first = NewGap(from.bytes());
  std::byte* const second = NewGap(to.bytes());
  const std::vector<std::byte> sent = Filled(from);
  ASSERT_CUDA(cudaMemcpy(first, sent.data(), sent.size(), cudaMemcpyHostToDevice));
  ASSERT_CUDA(cudaMemcpy2D(second, to.pitch, first, from.pitch, 100, 50, cudaMemcpyDeviceToDevice));
  EXPECT_EQ(ReadBytes(second, to.bytes()), Filled(to));
}

TEST_F(CopyBoxesTest, RowsMoveWithinTheHost) {
  const Rows from{300, 100, 50};
  const Rows to{128, 100, 50};
  const std::vector<std::byte> sent = Filled(from);
  std::vector<std::byte> received(to.bytes(), kGap);
  ASSERT_CUDA(cudaMemcpy2D(received.data(), to.pitch, sent.data(), from.pitch, 100, 50,
                           cudaMemcpyHostToHost));
  EXPECT_EQ(received, Filled(to));
}

TEST_F(CopyBoxesTest, AsynchronousRowsOfPageableMemoryAreTakenAtOnce) {
  cudaStream_t stream = NewStream();
  for (const Rows& rows : kShapes) {
    SCOPED_TRACE(rows.width);
    const std::vector<std::byte> sent = Filled(rows);
    std::vector<std::byte> buffer = sent;
    std::byte* const memory = NewGap(rows.bytes());
    ASSERT_CUDA(cudaMemcpy2DAsync(memory, rows.pitch, buffer.data(), rows.pitch, rows.width,
                                  rows.count, cudaMemcpyHostToDevice, stream));
    std::fill(buffer.begin(), buffer.end(), kGap);
    ASSERT_CUDA(cudaMemcpy2DAsync(buffer.data(), rows.pitch, memory, rows.pitch, rows.width,
                                  rows.count, cudaMemcpyDeviceToHost, stream));
    EXPECT_EQ(buffer, sent);
    EXPECT_CUDA(cudaFree(memory));
  }
}

TEST_F(CopyBoxesTest, AsynchronousRowsOfPinnedMemoryAreThereAfterTheStream) {
  cudaStream_t stream = NewStream();
  for (const Rows& rows : kShapes) {
    SCOPED_TRACE(rows.width);
    const std::vector<std::byte> sent = Filled(rows);
    void* pinned = nullptr;
    ASSERT_CUDA(cudaMallocHost(&pinned, 2 * rows.bytes()));
    auto* const back = static_cast<std::byte*>(pinned) + rows.bytes();
    std::memcpy(pinned, sent.data(), sent.size());
    std::fill_n(back, rows.bytes(), kGap);
    std::byte* const memory = NewGap(rows.bytes());
    ASSERT_CUDA(cudaMemcpy2DAsync(memory, rows.pitch, pinned, rows.pitch, rows.width, rows.count,
                                  cudaMemcpyHostToDevice, stream));
    ASSERT_CUDA(cudaMemcpy2DAsync(back, rows.pitch, memory, rows.pitch, rows.width, rows.count,
                                  cudaMemcpyDeviceToHost, stream));
    ASSERT_CUDA(cudaStreamSynchronize(stream));
    EXPECT_EQ(std::memcmp(back, sent.data(), sent.size()), 0);
    EXPECT_CUDA(cudaFreeHost(pinned));
    EXPECT_CUDA(cudaFree(memory));
  }
}

TEST_F(CopyBoxesTest, NoRowsAreNoCopy) {
  std::byte* const memory = NewGap(64);
  std::byte here[64] = {};
  EXPECT_CUDA(cudaMemcpy2D(memory, 8, here, 8, 0, 8, cudaMemcpyHostToDevice));
  EXPECT_CUDA(cudaMemcpy2D(memory, 8, here, 8, 8, 0, cudaMemcpyHostToDevice));
  cudaMemcpy3DParms box{};
  box.srcPtr = {here, 8, 8, 8};
  box.dstPtr = {memory, 8, 8, 8};
  box.extent = {8, 0, 1};
  box.kind = cudaMemcpyHostToDevice;
  EXPECT_CUDA(cudaMemcpy3D(&box));
  EXPECT_EQ(ReadBytes(memory, 64), std::vector<std::byte>(64, kGap));
}

TEST_F(CopyBoxesTest, RowsLongerThanTheirPitchAreRefused) {
  std::byte* const memory = NewGap(1024);
  std::byte here[1024] = {};
  EXPECT_CUDA_ERROR(cudaMemcpy2D(memory, 16, here, 32, 17, 4, cudaMemcpyHostToDevice),
                    cudaErrorInvalidPitchValue);
  EXPECT_CUDA_ERROR(cudaMemcpy2D(memory, 32, here, 16, 17, 4, cudaMemcpyHostToDevice),
                    cudaErrorInvalidPitchValue);
  EXPECT_CUDA_ERROR(cudaMemcpy2D(nullptr, 0, here, 32, 17, 4, cudaMemcpyHostToDevice),
                    cudaErrorInvalidPitchValue);
}

TEST_F(CopyBoxesTest, RowsBeyondAnAllocationAreRefusedAndNothingIsCopied) {
  std::byte* const memory = NewGap(1000);
  std::vector<std::byte> here(4096);
  // The last row ends at 9 × 100 + 50 from the start: in the second call one byte too late.
  EXPECT_CUDA(cudaMemcpy2D(memory + 50, 100, here.data(), 100, 50, 10, cudaMemcpyHostToDevice));
  ASSERT_CUDA(cudaMemset(memory, static_cast<int>(kGap), 1000));
  EXPECT_CUDA_ERROR(
      cudaMemcpy2D(memory + 51, 100, here.data(), 100, 50, 10, cudaMemcpyHostToDevice),
      cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaMemcpy2D(memory, 100, here.data(), 100, 10, 11, cudaMemcpyHostToDevice),
                    cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaMemcpy2D(here.data(), 100, memory, 100, 10, 11, cudaMemcpyDeviceToHost),
                    cudaErrorInvalidValue);
  EXPECT_EQ(ReadBytes(memory, 1000), std::vector<std::byte>(1000, kGap));
}

TEST_F(CopyBoxesTest, BadDirectionsOfRowsAreRefused) {
  std::byte* const memory = NewGap(64);
  std::byte here[64] = {};
  EXPECT_CUDA_ERROR(cudaMemcpy2D(memory, 8, here, 8, 4, 4, static_cast<cudaMemcpyKind>(5)),
                    cudaErrorInvalidMemcpyDirection);
  EXPECT_CUDA_ERROR(cudaMemcpy2D(here, 8, here, 8, 4, 4, cudaMemcpyHostToDevice),
                    cudaErrorInvalidValue);
}

// A box of 5 × 4 × 3 bytes from the middle of a 16 × 8 × 6 box, into a 32 × 10 × 5 box.
TEST_F(CopyBoxesTest, BoxesKeepTheirShape) {
  std::vector<std::byte> sent(16 * 8 * 6);
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i % 251);
  std::byte* const memory = NewGap(32 * 10 * 5);
  cudaMemcpy3DParms box{};
  box.srcPtr = {sent.data(), 16, 16, 8};
  box.srcPos = {7, 2, 1};
  box.dstPtr = {memory, 32, 32, 10};
  box.dstPos = {20, 5, 2};
  box.extent = {5, 4, 3};
  box.kind = cudaMemcpyHostToDevice;
  ASSERT_CUDA(cudaMemcpy3D(&box));

  std::vector<std::byte> expected(32 * 10 * 5, kGap);
  for (std::size_t z = 0; z < 3; ++z)
    for (std::size_t y = 0; y < 4; ++y)
      for (std::size_t x = 0; x < 5; ++x)
        expected[((z + 2) * 10 + y + 5) * 32 + x + 20] = sent[((z + 1) * 8 + y + 2) * 16 + x + 7];
  EXPECT_EQ(ReadBytes(memory, expected.size()), expected);

  std::vector<std::byte> back(sent.size());
  std::swap(box.srcPtr, box.dstPtr);
  std::swap(box.srcPos, box.dstPos);
  box.dstPtr.ptr = back.data();
  box.kind = cudaMemcpyDeviceToHost;
  ASSERT_CUDA(cudaMemcpy3DAsync(&box, nullptr));
  ASSERT_CUDA(cudaDeviceSynchronize());
  for (std::size_t z = 0; z < 6; ++z) {
    for (std::size_t y = 0; y < 8; ++y) {
      for (std::size_t x = 0; x < 16; ++x) {
        const bool inside = z >= 1 && z < 4 && y >= 2 && y < 6 && x >= 7 && x < 12;
        const std::size_t at = (z * 8 + y) * 16 + x;
        ASSERT_EQ(back[at], inside ? sent[at] : std::byte{0}) << x << ' ' << y << ' ' << z;
      }
    }
  }
}

TEST_F(CopyBoxesTest, BoxesBeyondAnAllocationAreRefused) {
  std::byte* const memory = NewGap(16 * 8 * 4);
  std::vector<std::byte> here(16 * 8 * 8);
  cudaMemcpy3DParms box{};
  box.srcPtr = {here.data(), 16, 16, 8};
  box.dstPtr = {memory, 16, 16, 8};
  box.extent = {16, 8, 5};
  box.kind = cudaMemcpyHostToDevice;
  EXPECT_CUDA_ERROR(cudaMemcpy3D(&box), cudaErrorInvalidValue);
  box.extent.depth = 4;
  box.dstPos = {0, 0, 1};
  EXPECT_CUDA_ERROR(cudaMemcpy3D(&box), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaMemcpy3D(nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(ReadBytes(memory, 16 * 8 * 4), std::vector<std::byte>(16 * 8 * 4, kGap));
}

// The fake GPU stores no contents of arrays. It only logs the copies.
TEST_F(CopyBoxesTest, RowsOfArraysAreCheckedAndHandedOver) {
  const cudaChannelFormatDesc words =
      cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
  cudaArray_t array = nullptr;
  ASSERT_CUDA(cudaMallocArray(&array, &words, 64, 32, cudaArrayDefault));
  std::vector<std::byte> here(256 * 40);
  ASSERT_CUDA(cudaMemcpy2DToArray(array, 0, 0, here.data(), 256, 256, 32, cudaMemcpyHostToDevice));
  ASSERT_CUDA(
      cudaMemcpy2DFromArray(here.data(), 256, array, 4, 1, 252, 31, cudaMemcpyDeviceToHost));
  EXPECT_TRUE(gpu().WaitForLog("box-array 0", 2));
  EXPECT_CUDA_ERROR(
      cudaMemcpy2DToArray(array, 4, 0, here.data(), 256, 256, 32, cudaMemcpyHostToDevice),
      cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(
      cudaMemcpy2DFromArray(here.data(), 256, array, 0, 1, 256, 32, cudaMemcpyDeviceToHost),
      cudaErrorInvalidValue);
  EXPECT_CUDA(cudaFreeArray(array));
}

}  // namespace
}  // namespace cuspan
