// Tests stream memory operations. (CUDA Driver API, "Stream Memory Operations")
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <vector>

#include "tests/unit/proxy/softgpu/driver/graph_harness.h"

namespace cuspan::softgpu {
namespace {

using Operations = std::vector<CUstreamBatchMemOpParams>;

CUstreamBatchMemOpParams Wait(CUdeviceptr address, std::uint64_t value, unsigned flags,
                              unsigned bits = 32) {
  CUstreamBatchMemOpParams operation{};
  operation.waitValue.operation =
      bits == 32 ? CU_STREAM_MEM_OP_WAIT_VALUE_32 : CU_STREAM_MEM_OP_WAIT_VALUE_64;
  operation.waitValue.address = address;
  operation.waitValue.value64 = value;
  operation.waitValue.flags = flags;
  return operation;
}
CUstreamBatchMemOpParams Write(CUdeviceptr address, std::uint64_t value, unsigned bits = 32) {
  CUstreamBatchMemOpParams operation{};
  operation.writeValue.operation =
      bits == 32 ? CU_STREAM_MEM_OP_WRITE_VALUE_32 : CU_STREAM_MEM_OP_WRITE_VALUE_64;
  operation.writeValue.address = address;
  operation.writeValue.value64 = value;
  return operation;
}
CUresult Batch(CUstream stream, Operations operations) {
  return cuStreamBatchMemOp(stream, static_cast<unsigned>(operations.size()), operations.data(), 0);
}

class MemoryBatchTest : public GraphTest {
 protected:
  CUgraphNode AddBatch(Operations operations, const Nodes& after) {
    CUgraphNodeParams params = {};
    params.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    params.memOp = {context_, static_cast<unsigned>(operations.size()), operations.data(), 0};
    return Add(graph_, &params, after);
  }
  void Put64(std::uint64_t value) {
    TestStream stream;
    EXPECT_CUDA(Batch(stream, {Write(At(0), value, 64)}));
    EXPECT_CUDA(cuStreamSynchronize(stream));
  }
  // Expects a stream with this wait to continue if the memory contains `found`.
  void ExpectGoesOn(std::uint64_t found, const CUstreamBatchMemOpParams& wait) {
    TestStream stream;
    Put64(found);
    EXPECT_CUDA(Batch(stream, {wait}));
    EXPECT_CUDA(cuStreamSynchronize(stream));
  }
  // Expects the stream to wait with `found`, and to continue with `then`.
  void ExpectWaits(std::uint64_t found, const CUstreamBatchMemOpParams& wait, std::uint64_t then) {
    TestStream stream;
    Put64(found);
    EXPECT_CUDA(Batch(stream, {wait}));
    // Once this later work is done, the wait has been evaluated.
    TestStream later;
    EXPECT_CUDA(Batch(later, {Write(At(8), 1)}));
    EXPECT_CUDA(cuStreamSynchronize(later));
    EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY) << found;
    Put64(then);
    EXPECT_CUDA(cuStreamSynchronize(stream));
  }
};

constexpr std::uint64_t kHigh = std::uint64_t{1} << 63;

TEST_F(MemoryBatchTest, ConditionsThatHold) {
  ExpectGoesOn(5, Wait(At(0), 5, CU_STREAM_WAIT_VALUE_GEQ));
  ExpectGoesOn(6, Wait(At(0), 5, CU_STREAM_WAIT_VALUE_GEQ));
  // The comparison is cyclic.
  ExpectGoesOn(1, Wait(At(0), 0xffff'fff0, CU_STREAM_WAIT_VALUE_GEQ));
  ExpectGoesOn(1, Wait(At(0), ~std::uint64_t{0}, CU_STREAM_WAIT_VALUE_GEQ, 64));
  ExpectGoesOn(kHigh, Wait(At(0), kHigh - 1, CU_STREAM_WAIT_VALUE_GEQ, 64));
  ExpectGoesOn(5, Wait(At(0), 5, CU_STREAM_WAIT_VALUE_EQ));
  // A 32-bit wait ignores the upper half.
  ExpectGoesOn(kHigh | 5, Wait(At(0), 5, CU_STREAM_WAIT_VALUE_EQ));
  ExpectGoesOn(kHigh | 5, Wait(At(0), kHigh | 5, CU_STREAM_WAIT_VALUE_EQ, 64));
  ExpectGoesOn(6, Wait(At(0), 3, CU_STREAM_WAIT_VALUE_AND));
  ExpectGoesOn(kHigh, Wait(At(0), kHigh, CU_STREAM_WAIT_VALUE_AND, 64));
  ExpectGoesOn(0xf0, Wait(At(0), 0xf, CU_STREAM_WAIT_VALUE_NOR));
  ExpectGoesOn(kHigh, Wait(At(0), kHigh, CU_STREAM_WAIT_VALUE_NOR, 64));
  ExpectGoesOn(5, Wait(At(0), 5, CU_STREAM_WAIT_VALUE_EQ | unsigned{CU_STREAM_WAIT_VALUE_FLUSH}));
}

TEST_F(MemoryBatchTest, ConditionsThatDoNotHold) {
  ExpectWaits(4, Wait(At(0), 5, CU_STREAM_WAIT_VALUE_GEQ), 5);
  ExpectWaits(0xffff'fff0, Wait(At(0), 1, CU_STREAM_WAIT_VALUE_GEQ), 2);
  ExpectWaits(~std::uint64_t{0}, Wait(At(0), 1, CU_STREAM_WAIT_VALUE_GEQ, 64), 1);
  ExpectWaits(5, Wait(At(0), 4, CU_STREAM_WAIT_VALUE_EQ), 4);
  ExpectWaits(5, Wait(At(0), kHigh | 5, CU_STREAM_WAIT_VALUE_EQ, 64), kHigh | 5);
  ExpectWaits(4, Wait(At(0), 3, CU_STREAM_WAIT_VALUE_AND), 5);
  ExpectWaits(0xffff'fff0, Wait(At(0), 0xf, CU_STREAM_WAIT_VALUE_NOR), 0xffff'ff00);
}

// More waits than slots for suspended blocks. If waits occupied these slots, no kernel could run.
TEST_F(MemoryBatchTest, ManyWaitingStreamsHoldUpNoKernel) {
  constexpr std::size_t kStreams = 100;
  std::deque<TestStream> streams(kStreams);
  for (std::size_t i = 0; i < kStreams; ++i) {
    ASSERT_CUDA(
        Batch(streams[i], {Wait(At(0), i + 1, CU_STREAM_WAIT_VALUE_GEQ), Write(At(10 + i), i)}));
    EXPECT_EQ(cuStreamQuery(streams[i]), CUDA_ERROR_NOT_READY);
  }
  TestStream writing;
  for (std::size_t i = 0; i < kStreams; ++i) {
    ASSERT_CUDA(Launch(Kernel("Increment"), 1, 1, 0, writing, At(0)));
    ASSERT_CUDA(cuStreamSynchronize(streams[i]));
  }
  const std::vector<int> words = memory_->Read<int>(10 + kStreams);
  for (std::size_t i = 0; i < kStreams; ++i) EXPECT_EQ(words[10 + i], static_cast<int>(i));
}

TEST_F(MemoryBatchTest, ACopyAndASetWriteTheValueToo) {
  TestStream waiting;
  TestStream writing;
  ASSERT_CUDA(Batch(
      waiting, {Wait(At(0), 5, CU_STREAM_WAIT_VALUE_EQ), Wait(At(2), 6, CU_STREAM_WAIT_VALUE_EQ)}));
  const int five = 5;
  ASSERT_CUDA(cuMemcpyHtoDAsync(At(0), &five, sizeof five, writing));
  ASSERT_CUDA(cuStreamSynchronize(writing));
  EXPECT_EQ(cuStreamQuery(waiting), CUDA_ERROR_NOT_READY);
  ASSERT_CUDA(cuMemsetD32Async(At(2), 6, 1, writing));
  EXPECT_CUDA(cuStreamSynchronize(waiting));
}

TEST_F(MemoryBatchTest, TheHostWritesTheValueIntoItsRegisteredMemory) {
  alignas(4096) static volatile std::uint32_t flag[1024];
  flag[0] = 0;
  ASSERT_CUDA(cuMemHostRegister(const_cast<std::uint32_t*>(flag), sizeof flag, 0));
  const auto place = reinterpret_cast<CUdeviceptr>(&flag[0]);
  TestStream stream;
  ASSERT_CUDA(Batch(stream, {Wait(place, 1, CU_STREAM_WAIT_VALUE_EQ), Write(place + 4, 2)}));
  EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  flag[0] = 1;
  ASSERT_CUDA(cuStreamSynchronize(stream));
  EXPECT_EQ(flag[1], 2U);
  ASSERT_CUDA(cuMemHostUnregister(const_cast<std::uint32_t*>(flag)));
}

TEST_F(MemoryBatchTest, GraphsHaveThemAsNodes) {
  Operations operations{Wait(At(0), 1, CU_STREAM_WAIT_VALUE_EQ), Write(At(1), 2)};
  CUgraphNodeParams params = {};
  params.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
  params.memOp = {context_, static_cast<unsigned>(operations.size()), operations.data(), 0};
  const CUgraphNode batch = Add(graph_, &params, {});
  AddAppend(graph_, {batch}, 3);
  CUgraphExec exec = Instantiate(graph_);
  TestStream stream;
  ASSERT_CUDA(cuGraphLaunch(exec, stream));
  EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  TestStream other;
  ASSERT_CUDA(Batch(other, {Write(At(0), 1)}));
  ASSERT_CUDA(cuStreamSynchronize(stream));
  EXPECT_EQ(Value(1), 2);
  EXPECT_EQ(ConsumeLog(), std::vector<int>{3});
  EXPECT_CUDA(cuGraphExecDestroy(exec));

  // Bodies can not contain these nodes.
  std::vector<CUgraph> bodies;
  AddConditional(graph_, {}, Condition(graph_), CU_GRAPH_COND_TYPE_IF, 1, &bodies);
  CUgraphNode node = nullptr;
  EXPECT_EQ(cuGraphAddNode(&node, bodies[0], nullptr, nullptr, 0, &params),
            CUDA_ERROR_INVALID_VALUE);
}

// This holds for any order of adding the nodes.
TEST_F(MemoryBatchTest, AWaitOfAGraphHoldsUpNothingThatDoesNotDependOnIt) {
  const CUgraphNode first = AddBatch({Wait(At(0), 1, CU_STREAM_WAIT_VALUE_EQ)}, {});
  const CUgraphNode other =
      AddBatch({Write(At(4), 7), Wait(At(1), 1, CU_STREAM_WAIT_VALUE_EQ), Write(At(2), 1)}, {});
  const CUgraphNode last = AddBatch({Wait(At(2), 1, CU_STREAM_WAIT_VALUE_EQ)}, {});
  AddBatch({Write(At(0), 1)}, {last});
  AddAppend(graph_, {first, other}, 5);
  AddAppend(graph_, {}, 4);
  CUgraphExec exec = Instantiate(graph_);
  for (int round = 0; round < 2; ++round) {
    TestStream stream;
    ASSERT_CUDA(cuGraphLaunch(exec, stream));
    TestStream writing;
    ASSERT_CUDA(Batch(writing, {Wait(At(4), 7, CU_STREAM_WAIT_VALUE_EQ), Write(At(1), 1)}));
    ASSERT_CUDA(cuStreamSynchronize(stream));
    std::vector<int> log = ConsumeLog();
    std::sort(log.begin(), log.end());
    EXPECT_EQ(log, (std::vector<int>{4, 5}));
    memory_->Write(std::vector<int>(kInts));
  }
  EXPECT_CUDA(cuGraphExecDestroy(exec));
}

TEST_F(MemoryBatchTest, WhatIsWrongIsRefused) {
  Operations one{Write(At(0), 1)};
  EXPECT_EQ(cuStreamBatchMemOp(nullptr, 1, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamBatchMemOp(nullptr, 1, one.data(), 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Batch(nullptr, Operations(256, one[0])), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Batch(nullptr, {Write(At(0) + 2, 1)}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Batch(nullptr, {Write(At(1), 1, 64)}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Batch(nullptr, {Write(4096, 1)}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Batch(nullptr, {Wait(At(0), 1, 4)}), CUDA_ERROR_INVALID_VALUE);
  CUstreamBatchMemOpParams barrier{};
  barrier.memoryBarrier.operation = CU_STREAM_MEM_OP_BARRIER;
  EXPECT_CUDA(Batch(nullptr, {barrier}));
  barrier.memoryBarrier.flags = 2;
  EXPECT_EQ(Batch(nullptr, {barrier}), CUDA_ERROR_INVALID_VALUE);
  one[0].operation = static_cast<CUstreamBatchMemOpType>(7);
  EXPECT_EQ(Batch(nullptr, one), CUDA_ERROR_INVALID_VALUE);
}

// A wait for a value never written delays the end of a context no longer than an endless kernel.
TEST_F(MemoryBatchTest, AContextEndsWhileAStreamWaitsForEver) {
  const auto release_while_waiting = [this] {
    TestStream stream;
    EXPECT_CUDA(Batch(stream, {Wait(At(0), 1, CU_STREAM_WAIT_VALUE_EQ)}));
    EXPECT_CUDA(cuDevicePrimaryCtxRelease(0));
    std::exit(HasFailure() ? 1 : 0);
  };
  EXPECT_EXIT(release_while_waiting(), testing::ExitedWithCode(0), "waiting for a value");
}

}  // namespace
}  // namespace cuspan::softgpu
