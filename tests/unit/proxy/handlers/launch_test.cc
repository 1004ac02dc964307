// Tests launches arriving faster than they are submitted. They are submitted in batches, with the
// same effects and errors as one by one.
#include "tests/unit/proxy/loopback/server_fixture.h"

namespace cuspan::proxy {
namespace {

// More launches than a proxy submits ahead of the device, with enough left to form batches.
constexpr std::uint32_t kFlood = 1000;

class LaunchTest : public ServerTest {
 protected:
  void SetUp() override { ASSERT_EQ(client.Call(StreamSynchronize{stream}).result, CUDA_SUCCESS); }
  // Posts launches. All wait at the proxy before the first of them runs.
  void Flood(std::uint32_t launches = kFlood) {
    gpu.Hold(kStream);
    for (std::uint32_t i = 0; i < launches; ++i) PostAdd(stream, block, 1, 1);
  }
  void Let() {
    EXPECT_EQ(client.Call(MemoryInfo{}).result, CUDA_SUCCESS);  // All have arrived.
    gpu.Let(kStream);
  }
  // Posts a flood and waits until its graphs exist. Returns the number of additions to the word.
  std::uint32_t FloodOnce() {
    Flood();
    Let();
    EXPECT_EQ(client.Call(StreamSynchronize{stream}).result, CUDA_SUCCESS);
    for (int i = 0; i < kFramesForGraphs; ++i)
      EXPECT_EQ(client.Call(StreamSynchronize{stream}).result, CUDA_SUCCESS);
    return kFlood;
  }
  std::size_t Batches() const { return Count(gpu.Log(), "graph 1"); }

  static constexpr int kStream = 1;
  // While the device has no work, the proxy makes its graphs after this many frames at most.
  static constexpr int kFramesForGraphs = 64;
  const std::uint64_t block = loopback.Map();
  const std::uint64_t stream = loopback.NewStream();
};

TEST_F(LaunchTest, AFloodIsHandedOverInBatches) {
  const std::uint32_t first = FloodOnce();
  const std::size_t before = Batches();
  Flood();
  Let();
  EXPECT_EQ(ReadWord(stream, block), first + kFlood);
  EXPECT_GT(Batches(), before + kFlood / 2 / 32);
  EXPECT_TRUE(client.Now().failures.empty());
}

TEST_F(LaunchTest, AFewLaunchesAreNot) {
  FloodOnce();
  const std::size_t before = Batches();
  for (int i = 0; i < 8; ++i) {
    PostAdd(stream, block, 1, 1);
    EXPECT_EQ(client.Call(StreamSynchronize{stream}).result, CUDA_SUCCESS);
  }
  EXPECT_EQ(ReadWord(stream, block), kFlood + 8);
  EXPECT_EQ(Batches(), before);
}

// The order of the stream holds: each launch sees the result of the previous, and so do copies
// between them.
TEST_F(LaunchTest, WhatComesBetweenStaysThere) {
  FloodOnce();
  const std::size_t before = Batches();
  gpu.Hold(kStream);
  std::uint32_t sum = kFlood;
  for (std::uint32_t i = 0; i < 40; ++i) {
    for (std::uint32_t k = 0; k < i; ++k) PostAdd(stream, block, 1, 1);
    client.Post(CopyOnDevice{stream, block + 4096 + 4ULL * i, block, 4});
  }
  Let();
  for (std::uint32_t i = 0; i < 40; ++i)
    EXPECT_EQ(ReadWord(stream, block + 4096 + 4ULL * i), sum += i);
  EXPECT_GT(Batches(), before);
}

TEST_F(LaunchTest, ARefusedLaunchFailsByItselfAndTheOthersRun) {
  const std::uint64_t refused = loopback.FindKernel(module(), "refused");
  FloodOnce();
  const std::size_t before = Batches();
  Flood(500);
  PostLaunch(stream, refused, {}, 7);
  for (int i = 0; i < 100; ++i) PostAdd(stream, block, 1, 1);
  Let();
  EXPECT_EQ(ReadWord(stream, block), kFlood + 600);
  EXPECT_GT(Batches(), before);
  const Received received = client.Now();
  ASSERT_EQ(received.failures.size(), 1U);
  EXPECT_EQ(received.failures[0].result, CUDA_ERROR_INVALID_VALUE);
}

class RefusingDriverTest : public LaunchTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(RefusingDriverTest, GetsThemOneByOne) {
  gpu.Refuse(GetParam(), CUDA_ERROR_OUT_OF_MEMORY);
  FloodOnce();
  Flood();
  Let();
  EXPECT_EQ(ReadWord(stream, block), 2 * kFlood);
  EXPECT_EQ(Batches(), 0U);
  EXPECT_TRUE(client.Now().failures.empty());
}

INSTANTIATE_TEST_SUITE_P(Launches, RefusingDriverTest,
                         ::testing::Values("cuGraphCreate", "cuGraphAddNode", "cuGraphInstantiate",
                                           "cuGraphExecNodeSetParams", "cuGraphLaunch"),
                         [](const auto& test) { return std::string(test.param); });

TEST_F(LaunchTest, AModuleGoesWithWhatWasMadeOfItsKernels) {
  FloodOnce();
  Flood();
  client.Post(ModuleUnload{module()});  // After the launches.
  EXPECT_EQ(client.Call(LimitGet{CU_LIMIT_STACK_SIZE}).result, CUDA_SUCCESS);
  std::size_t before = Batches();
  gpu.Let(kStream);
  EXPECT_EQ(ReadWord(stream, block), 2 * kFlood);
  EXPECT_EQ(client.Call(MemoryInfo{}).result, CUDA_SUCCESS);  // The worker has unloaded the module.
  EXPECT_EQ(Batches(), before) << "launches of kernels that go are submitted one by one";
  module_ = add_ = 0;
  FloodOnce();
  before = Batches();
  Flood();
  Let();
  EXPECT_EQ(ReadWord(stream, block), 4 * kFlood);
  EXPECT_GT(Batches(), before);
}

TEST_F(LaunchTest, AStreamGoesAfterItsBatches) {
  FloodOnce();
  const std::size_t before = Batches();
  Flood();
  client.Post(StreamDestroy{stream});
  Let();
  EXPECT_EQ(client.Call(DeviceSynchronize{}).result, CUDA_SUCCESS);
  EXPECT_EQ(ReadWord(0, block), 2 * kFlood);
  EXPECT_GT(Batches(), before);
}

// Graphs are made once, and used by streams created later.
TEST_F(LaunchTest, ANewStreamUsesTheBatchesOfAnother) {
  FloodOnce();
  const std::uint64_t next = loopback.NewStream();
  EXPECT_EQ(client.Call(StreamSynchronize{next}).result, CUDA_SUCCESS);
  gpu.Hold(kStream + 1);
  for (std::uint32_t i = 0; i < 100; ++i) PostAdd(next, block, 1, 1);
  EXPECT_EQ(client.Call(MemoryInfo{}).result, CUDA_SUCCESS);
  gpu.Let(kStream + 1);
  EXPECT_EQ(ReadWord(next, block), kFlood + 100);
  EXPECT_GT(Count(gpu.Log(), "graph 2"), 1U);
}

// Short batches fill no chain: they are not a reason for more graphs.
TEST_F(LaunchTest, FewLaunchesAtATimeNeedNoMoreGraphs) {
  FloodOnce();
  gpu.Refuse("cuGraphInstantiate", CUDA_ERROR_OUT_OF_MEMORY);  // All batches would end with these.
  for (int i = 0; i < 200; ++i) {
    gpu.Hold(kStream);
    for (int k = 0; k < 8 + 3; ++k) PostAdd(stream, block, 1, 1);
    Let();
  }
  EXPECT_EQ(ReadWord(stream, block), kFlood + 200 * 11);
  const std::size_t before = Batches();
  Flood();
  Let();
  EXPECT_EQ(ReadWord(stream, block), 2 * kFlood + 200 * 11);
  EXPECT_GT(Batches(), before);
}

// A stream does not change graphs still running in another one.
TEST_F(LaunchTest, SeveralStreamsHaveBatchesAtTheSameTime) {
  FloodOnce();
  constexpr std::uint64_t kStreams = 5;
  std::vector<std::uint64_t> others;
  for (std::uint64_t i = 0; i < kStreams; ++i) others.push_back(loopback.NewStream());
  EXPECT_EQ(client.Call(MemoryInfo{}).result, CUDA_SUCCESS);
  for (std::uint64_t round = 1; round <= 4; ++round) {
    for (std::uint64_t i = 0; i < kStreams; ++i) gpu.Hold(static_cast<int>(kStream + 1 + i));
    for (std::uint32_t k = 0; k < kFlood; ++k)
      for (std::uint64_t i = 0; i < kStreams; ++i)
        PostAdd(others[i], block + 64 * i + 64, 1, 1 + i);
    EXPECT_EQ(client.Call(MemoryInfo{}).result, CUDA_SUCCESS);
    gpu.LetAll();
    for (std::uint64_t i = 0; i < kStreams; ++i)
      EXPECT_EQ(ReadWord(others[i], block + 64 * i + 64), round * kFlood * (1 + i));
  }
  for (std::uint64_t i = 0; i < kStreams; ++i)
    EXPECT_GT(Count(gpu.Log(), "graph " + std::to_string(kStream + 1 + i)), 1U);
}

TEST_F(LaunchTest, AStreamMayGoBeforeItsGraphsAreMade) {
  add();
  gpu.HoldModules();
  const std::uint64_t other = loopback.NewHandle();
  const std::vector<std::byte> image = AnyImage();
  client.Post(ModuleImage{other, image.size(), 0, image});
  const std::uint32_t loading = client.Ask(ModuleLoad{other, {}});  // The worker blocks here.
  Flood();
  client.Post(StreamDestroy{stream});
  // More launches are submitted now. Their number would cause graphs to be made, but the stream is
  // being destroyed.
  gpu.LetNext(kStream, 200);
  gpu.LetModulesLoad();
  client.AwaitReply<ModuleLoad>(loading);
  gpu.Let(kStream);
  EXPECT_EQ(client.Call(DeviceSynchronize{}).result, CUDA_SUCCESS);
  EXPECT_EQ(ReadWord(0, block), kFlood);
}

// Graphs made before are not used any more: the fake GPU would abort.
TEST_F(LaunchTest, ALimitIsSetForBatchesToo) {
  FloodOnce();
  EXPECT_EQ(client.Call(LimitSet{CU_LIMIT_STACK_SIZE, 4096}).result, CUDA_SUCCESS);
  FloodOnce();
  const std::size_t before = Batches();
  Flood();
  Let();
  EXPECT_EQ(ReadWord(stream, block), 3 * kFlood);
  EXPECT_GT(Batches(), before);
}

}  // namespace
}  // namespace cuspan::proxy
