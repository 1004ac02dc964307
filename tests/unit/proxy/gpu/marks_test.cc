// Tests marks: words written by the device at points of its streams.
#include "proxy/gpu/marks.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "common/shared_memory.h"
#include "proxy/gpu/device.h"
#include "tests/unit/proxy/loopback/fake_gpu.h"

namespace cuspan::proxy {
namespace {

class MarksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    constexpr std::uint64_t kBytes = 1 << 20;
    Result<Device> opened = Device::Open(gpu_.driver(), 0, {std::uint64_t{1} << 40, kBytes, 0});
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    device_ = std::make_unique<Device>(std::move(*opened));
  }
  // The first stream has the number 1 in the fake GPU.
  CUstream NewStream() {
    CUstream stream = nullptr;
    EXPECT_EQ(gpu_.driver().cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0),
              CUDA_SUCCESS);
    return stream;
  }

  FakeGpu gpu_;
  std::unique_ptr<Device> device_;
  MarkPool pool_{gpu_.driver()};
};

TEST_F(MarksTest, AreReachedOneAfterTheOther) {
  CUstream stream = NewStream();
  MarkWord word;
  EXPECT_TRUE(word.empty());
  std::uint32_t first = 0;
  std::uint32_t second = 0;
  gpu_.Hold(1);
  ASSERT_TRUE(pool_.Put(stream, word, &first));
  ASSERT_TRUE(pool_.Put(stream, word, &second));
  EXPECT_FALSE(word.Reached(first));
  gpu_.LetNext(1, 1);
  EXPECT_TRUE(word.Reached(first));
  EXPECT_FALSE(word.Reached(second));
  gpu_.LetNext(1, 1);
  EXPECT_TRUE(word.Reached(first));
  EXPECT_TRUE(word.Reached(second));
}

TEST_F(MarksTest, OfOneStreamAreNotThoseOfAnother) {
  CUstream streams[] = {NewStream(), NewStream()};
  MarkWord words[2];
  std::uint32_t marks[2] = {};
  gpu_.Hold(1);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(pool_.Put(streams[i], words[i], &marks[i]));
  EXPECT_FALSE(words[0].Reached(marks[0]));
  EXPECT_TRUE(words[1].Reached(marks[1]));
}

// A word keeps its number for the next stream.
TEST_F(MarksTest, AWordServesStreamAfterStream) {
  CUstream stream = NewStream();
  for (int i = 0; i < 10'000; ++i) {
    MarkWord word;
    std::uint32_t mark = 0;
    ASSERT_TRUE(pool_.Put(stream, word, &mark));
    ASSERT_TRUE(word.Reached(mark));
    ASSERT_FALSE(word.Reached(mark + 1));
  }
  std::vector<MarkWord> words(3000);
  for (MarkWord& word : words) {
    std::uint32_t mark = 0;
    ASSERT_TRUE(pool_.Put(stream, word, &mark));
    ASSERT_TRUE(word.Reached(mark));
  }
}

TEST_F(MarksTest, OutliveTheirWordAndItsPool) {
  CUstream stream = NewStream();
  gpu_.Hold(1);
  {
    MarkPool pool(gpu_.driver());
    MarkWord word;
    std::uint32_t mark = 0;
    ASSERT_TRUE(pool.Put(stream, word, &mark));
    ASSERT_TRUE(pool.Put(stream, word, &mark));
    word = MarkWord();
    gpu_.LetNext(1, 1);
    CUstream stream_of_other = NewStream();
    gpu_.Hold(2);
    MarkWord other;
    ASSERT_TRUE(pool.Put(stream_of_other, other, &mark));
    gpu_.LetNext(1, 1);
    EXPECT_FALSE(other.Reached(mark)) << "the word written now is not given out again";
    gpu_.Let(2);
    EXPECT_TRUE(other.Reached(mark));
    MarkWord last;
    ASSERT_TRUE(pool.Put(stream, last, &mark));
    gpu_.Hold(1);
    ASSERT_TRUE(pool.Put(stream, last, &mark));
  }
  gpu_.Let(1);
}

TEST_F(MarksTest, ARefusalIsForEver) {
  CUstream stream = NewStream();
  MarkWord word;
  std::uint32_t mark = 0;
  gpu_.Refuse("cuStreamBatchMemOp", CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_FALSE(pool_.Put(stream, word, &mark));
  gpu_.Refuse("cuStreamBatchMemOp", CUDA_SUCCESS);
  EXPECT_FALSE(pool_.Put(stream, word, &mark));
}

}  // namespace
}  // namespace cuspan::proxy
