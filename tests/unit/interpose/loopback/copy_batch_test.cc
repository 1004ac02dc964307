// Batches of copies, and copies with attributes.
#include <cuda.h>
#include <cudaTypedefs.h>

#include <algorithm>
#include <future>

#include "tests/unit/interpose/loopback/loopback.h"

// Declared in CUDA 13 releases after this header.
extern "C" cudaError_t cudaMemcpyWithAttributesAsync(void* destination, const void* source,
                                                     std::size_t bytes, cudaMemcpyAttributes* how,
                                                     cudaStream_t stream);
extern "C" cudaError_t cudaMemcpy3DWithAttributesAsync(cudaMemcpy3DBatchOp* copy,
                                                       unsigned long long flags,
                                                       cudaStream_t stream);

namespace cuspan {
namespace {

// Several pages, blocks and slots. Inline copies are smaller.
constexpr std::size_t kBytes = 100'000;
constexpr std::size_t kNone = SIZE_MAX;

cudaMemcpyAttributes How(cudaMemcpySrcAccessOrder order) {
  cudaMemcpyAttributes attributes{};
  attributes.srcAccessOrder = order;
  return attributes;
}

// A batch in the form of the program's arguments.
struct Batch {
  std::vector<void*> to;
  std::vector<const void*> from;
  std::vector<std::size_t> sizes;
  std::vector<cudaMemcpyAttributes> attributes{How(cudaMemcpySrcAccessOrderStream)};
  std::vector<std::size_t> first{0};

  void Add(void* destination, const void* source, std::size_t bytes) {
    to.push_back(destination);
    from.push_back(source);
    sizes.push_back(bytes);
  }
  cudaError_t Copy(cudaStream_t stream) {
    return cudaMemcpyBatchAsync(to.data(), from.data(), sizes.data(), to.size(), attributes.data(),
                                first.data(), first.size(), stream);
  }
};

class CopyBatchTest : public LoopbackTest {
 protected:
  static std::vector<std::byte> Filled(std::size_t bytes, unsigned seed) {
    std::vector<std::byte> made(bytes);
    for (std::size_t i = 0; i < bytes; ++i) made[i] = static_cast<std::byte>(i * 5 + i / 99 + seed);
    return made;
  }
  static std::byte* NewMemory(std::size_t bytes = kBytes) {
    void* memory = nullptr;
    EXPECT_CUDA(cudaMalloc(&memory, bytes));
    EXPECT_CUDA(cudaMemset(memory, 0, bytes));
    EXPECT_CUDA(cudaDeviceSynchronize());
    return static_cast<std::byte*>(memory);
  }
  static std::byte* NewPageLocked(const std::vector<std::byte>& bytes) {
    void* memory = nullptr;
    EXPECT_CUDA(cudaMallocHost(&memory, bytes.size()));
    std::memcpy(memory, bytes.data(), bytes.size());
    return static_cast<std::byte*>(memory);
  }
  static std::vector<std::byte> BytesOf(const std::byte* memory, std::size_t bytes = kBytes) {
    std::vector<std::byte> read(bytes);
    EXPECT_CUDA(cudaDeviceSynchronize());
    EXPECT_CUDA(cudaMemcpy(read.data(), memory, bytes, cudaMemcpyDeviceToHost));
    return read;
  }
  // The form of CUDA 12.8, with a parameter for the index of the failed copy.
  template <typename Function>
  static Function* FormOf12(const char* name) {
    void* function = nullptr;
    CUdriverProcAddressQueryResult status{};
    EXPECT_EQ(cuGetProcAddress(name, &function, 12080, CU_GET_PROC_ADDRESS_DEFAULT, &status),
              CUDA_SUCCESS);
    EXPECT_NE(function, nullptr);
    return reinterpret_cast<Function*>(function);
  }
  static cudaMemcpy3DBatchOp Box(void* to, const void* from, cudaExtent extent) {
    cudaMemcpy3DBatchOp copy{};
    copy.src.type = copy.dst.type = cudaMemcpyOperandTypePointer;
    copy.src.op.ptr.ptr = const_cast<void*>(from);
    copy.dst.op.ptr.ptr = to;
    copy.extent = extent;
    copy.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    return copy;
  }
};

TEST_F(CopyBatchTest, AllCopiesOfABatchAreMade) {
  cudaStream_t stream = NewStream();
  const std::vector<std::byte> pageable = Filled(kBytes, 1);
  std::byte* const pinned = NewPageLocked(Filled(kBytes, 2));
  std::byte* const one = NewMemory();
  std::byte* const two = NewMemory();
  Batch in;
  in.Add(one, pageable.data(), kBytes);
  in.Add(two, pinned, kBytes - 7);
  in.Add(two + kBytes - 7, pageable.data(), 7);
  in.attributes = {How(cudaMemcpySrcAccessOrderDuringApiCall), How(cudaMemcpySrcAccessOrderAny)};
  in.attributes[1].flags = cudaMemcpyFlagPreferOverlapWithCompute;
  in.first = {0, 1};
  ASSERT_CUDA(in.Copy(stream));
  std::byte* const three = NewMemory();
  std::vector<std::byte> back(kBytes);
  Batch out;
  out.Add(three, one, kBytes);
  out.Add(back.data(), two, kBytes);
  ASSERT_CUDA(out.Copy(stream));
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(BytesOf(three), pageable);
  EXPECT_TRUE(std::equal(back.begin(), back.end() - 7, pinned));
  EXPECT_TRUE(std::equal(back.end() - 7, back.end(), pageable.begin()));
  EXPECT_CUDA(cudaFreeHost(pinned));
}

TEST_F(CopyBatchTest, ABatchIsInTheOrderOfItsStream) {
  cudaStream_t stream = NewStream();
  std::uint32_t* const words = NewWords(2);
  Hold(stream);
  ASSERT_CUDA(Add(words, 1, 5, stream));
  Batch batch;
  batch.Add(words + 1, words, sizeof(std::uint32_t));
  ASSERT_CUDA(batch.Copy(stream));
  ASSERT_CUDA(Add(words, 1, 1, stream));
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  Let(stream);
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(Read(words, 2), (std::vector<std::uint32_t>{6, 5}));
}

TEST_F(CopyBatchTest, ASourceThatIsReadDuringTheCallIsTheProgramsAgain) {
  cudaStream_t stream = NewStream();
  const std::vector<std::byte> sent = Filled(kBytes, 3);
  std::byte* const pinned = NewPageLocked(sent);
  std::byte* const memory = NewMemory();
  Hold(stream);
  auto copied = std::async(std::launch::async, [&] {
    Batch batch;
    batch.Add(memory, pinned, kBytes);
    batch.attributes = {How(cudaMemcpySrcAccessOrderDuringApiCall)};
    const cudaError_t result = batch.Copy(stream);
    std::fill_n(pinned, kBytes, std::byte{0xff});
    return result;
  });
  Let(stream);
  EXPECT_CUDA(copied.get());
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(BytesOf(memory), sent);
  EXPECT_CUDA(cudaFreeHost(pinned));
}

TEST_F(CopyBatchTest, WhatMakesNoBatchIsRefused) {
  cudaStream_t stream = NewStream();
  std::byte* const memory = NewMemory();
  const std::vector<std::byte> sent = Filled(64, 1);
  // `change` makes one argument invalid.
  const auto refuses = [&](auto&& change) {
    Batch batch;
    for (const std::size_t at : {0, 64, 128}) batch.Add(memory + at, sent.data(), sent.size());
    change(batch);
    EXPECT_CUDA_ERROR(batch.Copy(stream), cudaErrorInvalidValue);
  };
  refuses([](Batch& b) { b.to = {}, b.from = {}, b.sizes = {}; });
  refuses([](Batch& b) { b.first = {}; });
  refuses([](Batch& b) { b.first = {1}; });
  refuses([](Batch& b) { b.first = {0, 0}, b.attributes.resize(2, b.attributes[0]); });
  refuses([](Batch& b) { b.first = {0, 3}, b.attributes.resize(2, b.attributes[0]); });
  refuses([](Batch& b) { b.first = {0, 1, 2, 3}, b.attributes.resize(4, b.attributes[0]); });
  for (const int order : {0, 4}) {
    refuses([&](Batch& b) {
      b.attributes[0].srcAccessOrder = static_cast<cudaMemcpySrcAccessOrder>(order);
    });
  }
  refuses([](Batch& b) { b.first = {0, 2}, b.attributes.resize(2); });
  refuses([](Batch& b) { b.attributes[0].flags = 2; });
  refuses([](Batch& b) { b.attributes[0].srcLocHint = {cudaMemLocationTypeDevice, 77}; });
  refuses([](Batch& b) { b.sizes[1] = 0; });
  refuses([](Batch& b) { b.to[1] = nullptr; });
  refuses([](Batch& b) { b.from[2] = nullptr; });
  refuses([](Batch& b) { b.sizes[2] = 1ULL << 40; });
  Batch batch;
  batch.Add(memory, sent.data(), sent.size());
  EXPECT_CUDA_ERROR(batch.Copy(nullptr), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(batch.Copy(cudaStreamLegacy), cudaErrorInvalidValue);
  EXPECT_CUDA(batch.Copy(cudaStreamPerThread));
  EXPECT_CUDA(cudaStreamSynchronize(cudaStreamPerThread));
  EXPECT_EQ(BytesOf(memory, sent.size()), sent);
}

TEST_F(CopyBatchTest, TheCopyThatFailsIsNamed) {
  ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
  cudaStream_t stream = NewStream();
  const auto at = reinterpret_cast<CUdeviceptr>(NewMemory());
  CUdeviceptr to[] = {at, at + 64};
  CUdeviceptr from[] = {at + 128, at + 192};
  std::size_t sizes[] = {64, 64};
  std::size_t first = 0;
  CUmemcpyAttributes attributes{};
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  auto* const copy =
      FormOf12<std::remove_pointer_t<PFN_cuMemcpyBatchAsync_v12080>>("cuMemcpyBatchAsync");
  const auto failed_at = [&](CUresult wanted) {
    std::size_t failed = 77;
    EXPECT_EQ(copy(to, from, sizes, 2, &attributes, &first, 1, &failed, stream), wanted);
    return failed;
  };
  EXPECT_EQ(failed_at(CUDA_SUCCESS), kNone);
  EXPECT_EQ(copy(to, from, sizes, 2, &attributes, &first, 1, nullptr, stream), CUDA_SUCCESS);
  to[1] = 0;
  EXPECT_EQ(failed_at(CUDA_ERROR_INVALID_VALUE), 1U);
  attributes.flags = 2;
  EXPECT_EQ(failed_at(CUDA_ERROR_INVALID_VALUE), kNone);

  auto* const copy_boxes =
      FormOf12<std::remove_pointer_t<PFN_cuMemcpy3DBatchAsync_v12080>>("cuMemcpy3DBatchAsync");
  CUDA_MEMCPY3D_BATCH_OP boxes[2] = {};
  for (auto& box : boxes) {
    box.src.type = box.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    box.src.op.ptr.ptr = at;
    box.dst.op.ptr.ptr = at + 512;
    box.extent = {8, 2, 2};
    box.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
  }
  std::size_t failed = 77;
  EXPECT_EQ(copy_boxes(2, boxes, &failed, 0, stream), CUDA_SUCCESS);
  EXPECT_EQ(failed, kNone);
  boxes[1].extent.depth = 0;
  EXPECT_EQ(copy_boxes(2, boxes, &failed, 0, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(failed, 1U);
  EXPECT_EQ(copy_boxes(2, boxes, &failed, 1, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(failed, kNone);
}

// Measured on an H100, driver 580.
TEST_F(CopyBatchTest, ACaptureGoesOnWithoutABatch) {
  cudaStream_t stream = NewStream();
  std::byte* const memory = NewMemory();
  Batch batch;
  batch.Add(memory, memory + 64, 64);
  cudaMemcpy3DBatchOp box = Box(memory, memory + 64, {8, 2, 2});
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  EXPECT_CUDA_ERROR(batch.Copy(stream), cudaErrorStreamCaptureUnsupported);
  EXPECT_CUDA_ERROR(cudaMemcpy3DBatchAsync(1, &box, 0, stream), cudaErrorStreamCaptureUnsupported);
  cudaGraph_t graph = nullptr;
  EXPECT_CUDA(cudaStreamEndCapture(stream, &graph));
  EXPECT_CUDA(cudaGraphDestroy(graph));
}

TEST_F(CopyBatchTest, BoxesAreCopiedTogether) {
  cudaStream_t stream = NewStream();
  // Two planes of three rows of five bytes, contiguous in the program's memory, with gaps on the
  // device.
  const std::vector<std::byte> sent = Filled(30, 1);
  std::byte* const memory = NewMemory();
  std::byte* const tight = NewMemory();
  cudaMemcpy3DBatchOp in[] = {Box(memory, sent.data(), {5, 3, 2}),
                              Box(tight, sent.data(), {30, 1, 1})};
  in[0].dst.op.ptr.rowLength = 16;
  in[0].dst.op.ptr.layerHeight = 4;
  in[1].srcAccessOrder = cudaMemcpySrcAccessOrderDuringApiCall;
  ASSERT_CUDA(cudaMemcpy3DBatchAsync(2, in, 0, stream));
  std::vector<std::byte> back(30);
  cudaMemcpy3DBatchOp out = Box(back.data(), memory, {5, 3, 2});
  out.src.op.ptr.rowLength = 16;
  out.src.op.ptr.layerHeight = 4;
  ASSERT_CUDA(cudaMemcpy3DBatchAsync(1, &out, 0, stream));
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(back, sent);
  EXPECT_EQ(BytesOf(tight, 30), sent);
  const std::vector<std::byte> there = BytesOf(memory, 128);
  for (std::size_t i = 0; i < 30; ++i)
    EXPECT_EQ(there[i / 15 * 64 + i / 5 % 3 * 16 + i % 5], sent[i]) << i;
  EXPECT_EQ(there[5], std::byte{0});
}

// The fake GPU stores no contents of arrays. It only logs the copies.
TEST_F(CopyBatchTest, ArraysAreCopiedInTheirElements) {
  cudaStream_t stream = NewStream();
  const cudaChannelFormatDesc format =
      cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindUnsigned);
  cudaArray_t array = nullptr;
  ASSERT_CUDA(cudaMallocArray(&array, &format, 8, 8));
  std::vector<std::uint32_t> sent = Count(16);
  std::vector<std::uint32_t> back(16);
  cudaMemcpy3DBatchOp in = Box(nullptr, sent.data(), {4, 4, 1});
  in.dst.type = cudaMemcpyOperandTypeArray;
  in.dst.op.array.array = array;
  in.dst.op.array.offset = {2, 3, 0};
  cudaMemcpy3DBatchOp out = Box(back.data(), nullptr, {4, 4, 1});
  out.src = in.dst;
  ASSERT_CUDA(cudaMemcpy3DBatchAsync(1, &in, 0, stream));
  ASSERT_CUDA(cudaMemcpy3DBatchAsync(1, &out, 0, stream));
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  const std::vector<std::string> log = gpu().Log();
  EXPECT_EQ(std::count_if(log.begin(), log.end(),
                          [](const std::string& work) { return work.starts_with("box-array "); }),
            2);
  in.dst.op.array.offset = {5, 0, 0};
  EXPECT_CUDA_ERROR(cudaMemcpy3DBatchAsync(1, &in, 0, stream), cudaErrorInvalidValue);
  in.dst.op.array.offset = {0, 0, 0};
  in.src.op.ptr.rowLength = 3;
  EXPECT_CUDA_ERROR(cudaMemcpy3DBatchAsync(1, &in, 0, stream), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaFreeArray(array));
}

TEST_F(CopyBatchTest, WhatMakesNoBatchOfBoxesIsRefused) {
  cudaStream_t stream = NewStream();
  std::byte* const memory = NewMemory();
  const auto refuses = [&](auto&& change) {
    cudaMemcpy3DBatchOp box = Box(memory, memory + 512, {8, 2, 2});
    change(box);
    EXPECT_CUDA_ERROR(cudaMemcpy3DBatchAsync(1, &box, 0, stream), cudaErrorInvalidValue);
  };
  refuses([](auto& box) { box.extent.width = 0; });
  refuses([](auto& box) { box.extent.height = 0; });
  refuses([](auto& box) { box.extent.depth = 0; });
  refuses([](auto& box) { box.src.type = static_cast<cudaMemcpy3DOperandType>(0); });
  refuses([](auto& box) { box.src.op.ptr.rowLength = 7; });
  refuses([](auto& box) { box.dst.op.ptr.layerHeight = 1; });
  refuses([](auto& box) { box.srcAccessOrder = cudaMemcpySrcAccessOrderInvalid; });
  refuses([](auto& box) { box.flags = 2; });
  refuses([](auto& box) { box.src.op.ptr.ptr = nullptr; });
  refuses([](auto& box) { box.extent.height = 1 << 20; });
  cudaMemcpy3DBatchOp box = Box(memory, memory + 512, {8, 2, 2});
  EXPECT_CUDA_ERROR(cudaMemcpy3DBatchAsync(0, &box, 0, stream), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaMemcpy3DBatchAsync(1, nullptr, 0, stream), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaMemcpy3DBatchAsync(1, &box, 1, stream), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaMemcpy3DBatchAsync(1, &box, 0, nullptr), cudaErrorInvalidValue);
}

TEST_F(CopyBatchTest, OneCopyCanHaveAttributes) {
  cudaStream_t stream = NewStream();
  const std::vector<std::byte> sent = Filled(kBytes, 4);
  std::byte* const memory = NewMemory();
  for (const auto order : {cudaMemcpySrcAccessOrderStream, cudaMemcpySrcAccessOrderDuringApiCall,
                           cudaMemcpySrcAccessOrderAny}) {
    cudaMemcpyAttributes how = How(order);
    ASSERT_CUDA(cudaMemcpyWithAttributesAsync(memory, sent.data(), kBytes, &how, stream));
    std::vector<std::byte> back(kBytes);
    cudaMemcpy3DBatchOp box = Box(back.data(), memory, {kBytes, 1, 1});
    box.srcAccessOrder = order;
    ASSERT_CUDA(cudaMemcpy3DWithAttributesAsync(&box, 0, stream));
    ASSERT_CUDA(cudaStreamSynchronize(stream));
    EXPECT_EQ(back, sent);
    EXPECT_CUDA(cudaMemset(memory, 0, kBytes));
  }
  cudaMemcpyAttributes wrong = How(cudaMemcpySrcAccessOrderInvalid);
  EXPECT_CUDA_ERROR(cudaMemcpyWithAttributesAsync(memory, sent.data(), 4, &wrong, stream),
                    cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaMemcpyWithAttributesAsync(memory, sent.data(), 4, nullptr, stream),
                    cudaErrorInvalidValue);
}

}  // namespace
}  // namespace cuspan
