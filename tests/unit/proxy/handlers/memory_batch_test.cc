// Tests stream memory operations in a whole session over the fake GPU.
#include "common/format.h"
#include "tests/unit/proxy/loopback/server_fixture.h"

namespace cuspan::proxy {
namespace {

using MemoryBatchTest = ServerTest;

constexpr std::uint32_t kWait = CU_STREAM_MEM_OP_WAIT_VALUE_32;
constexpr std::uint32_t kWrite = CU_STREAM_MEM_OP_WRITE_VALUE_32;

TEST_F(MemoryBatchTest, AWaitHoldsUpNothingButItsStream) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t waiting = loopback.NewStream();
  const std::uint64_t other = loopback.NewStream();
  client.Post(Memset{other, block, 0, 4, 2});
  EXPECT_EQ(client.Call(StreamSynchronize{other}).result, CUDA_SUCCESS);
  client.Post(MemoryBatch{waiting, {{kWait, block, 3, CU_STREAM_WAIT_VALUE_GEQ}}});
  PostAdd(waiting, block + 4, 1, 10);
  EXPECT_EQ(client.Call(StreamQuery{waiting}).result, CUDA_ERROR_NOT_READY);
  EXPECT_EQ(client.Call(LimitGet{CU_LIMIT_STACK_SIZE}).result, CUDA_SUCCESS);
  EXPECT_EQ(ReadWord(other, block + 4), 0U);
  PostAdd(other, block, 1, 3);
  EXPECT_EQ(client.Call(StreamSynchronize{waiting}).result, CUDA_SUCCESS);
  EXPECT_EQ(ReadWord(other, block + 4), 10U);
}

// More ops than the driver accepts for a stream before it blocks the calling thread.
TEST_F(MemoryBatchTest, MuchBehindAWaitHoldsUpNothingEither) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t waiting = loopback.NewStream();
  const std::uint64_t other = loopback.NewStream();
  client.Post(Memset{other, block, 0, 4, 2});
  EXPECT_EQ(client.Call(StreamSynchronize{other}).result, CUDA_SUCCESS);
  client.Post(MemoryBatch{waiting, {{kWait, block, 3, CU_STREAM_WAIT_VALUE_EQ}}});
  for (int i = 0; i < 2000; ++i) PostAdd(waiting, block + 4, 1, 1);
  EXPECT_EQ(ReadWord(other, block + 4), 0U);
  EXPECT_LT(Count(gpu.Log(), "add 1"), 1000U);
  client.Post(MemoryBatch{other, {{kWrite, block, 3, 0}}});
  EXPECT_EQ(client.Call(StreamSynchronize{waiting}).result, CUDA_SUCCESS);
  EXPECT_EQ(ReadWord(other, block + 4), 2000U);
  EXPECT_EQ(Count(gpu.Log(), "add 1"), 2000U);
}

TEST_F(MemoryBatchTest, OperationsAreDoneInTheirOrder) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t stream = loopback.NewStream();
  client.Post(Memset{stream, block, 0, 4, 4});
  client.Post(MemoryBatch{stream,
                          {{kWrite, block, 1, 0},
                           {kWait, block, 1, CU_STREAM_WAIT_VALUE_EQ},
                           {CU_STREAM_MEM_OP_BARRIER, 0, 0, CU_STREAM_MEMORY_BARRIER_TYPE_GPU},
                           {kWrite, block, 2, 0},
                           {CU_STREAM_MEM_OP_WRITE_VALUE_64, block + 8, 0x5'0000'0006, 0}}});
  EXPECT_EQ(ReadWord(stream, block), 2U);
  EXPECT_EQ(ReadWord(stream, block + 8), 6U);
  EXPECT_EQ(ReadWord(stream, block + 12), 5U);
}

TEST_F(MemoryBatchTest, WhatIsNotTheClientsIsRefusedAndTheSessionLives) {
  const std::uint64_t block = loopback.Map();
  client.Post(MemoryBatch{0, {{kWrite, block, 1, 0}, {kWrite, block + kWindowBytes, 1, 0}}});
  client.Post(MemoryBatch{0, {{CU_STREAM_MEM_OP_WAIT_VALUE_64, 4096, 1, 0}}});
  EXPECT_TRUE(client.Await([](const Received& received) { return received.failures.size() == 2; }));
  for (const PostedFailure& failure : client.Now().failures)
    EXPECT_EQ(failure.result, CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Count(gpu.Log(), "write-value 0"), 0U) << "none of a batch is done";
  EXPECT_EQ(client.Call(StreamSynchronize{0}).result, CUDA_SUCCESS);
}

TEST_F(MemoryBatchTest, ADriverWithoutThemIsReported) {
  const std::uint64_t block = loopback.Map();
  gpu.Refuse("cuStreamBatchMemOp", CUDA_ERROR_NOT_SUPPORTED);
  client.Post(MemoryBatch{0, {{kWrite, block, 1, 0}}});
  EXPECT_TRUE(client.Await([](const Received& received) { return received.failures.size() == 1; }));
  EXPECT_EQ(client.Now().failures[0].result, CUDA_ERROR_NOT_SUPPORTED);
}

TEST_F(MemoryBatchTest, AGraphHasThemAsNodes) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t graph = loopback.NewHandle();
  client.Post(GraphCreate{graph});
  client.Post(GraphMemoryBatch{graph,
                               {},
                               {{kWrite, block, 1, 0},
                                {CU_STREAM_MEM_OP_BARRIER, 0, 0, CU_STREAM_MEMORY_BARRIER_TYPE_GPU},
                                {CU_STREAM_MEM_OP_WRITE_VALUE_64, block + 8, 0x5'0000'0006, 0}}});
  client.Post(GraphMemoryBatch{graph, {0}, {{kWait, block, 1, CU_STREAM_WAIT_VALUE_EQ}}});
  const std::uint64_t exec = loopback.NewHandle();
  EXPECT_EQ(client.Call(GraphInstantiate{graph, exec}).result, CUDA_SUCCESS);
  client.Post(GraphExecDestroy{exec});
  const auto log = gpu.Log();
  EXPECT_EQ(Count(log, Format("node write-value 4 {} 1 0", block)), 1U);
  EXPECT_EQ(Count(log, "node barrier"), 1U);
  EXPECT_EQ(Count(log, Format("node write-value 8 {} {} 0", block + 8, 0x5'0000'0006)), 1U);
  EXPECT_EQ(Count(log, Format("node wait-value 4 {} 1 {}", block, CU_STREAM_WAIT_VALUE_EQ)), 1U);
  // Memory not owned by the client is refused.
  const std::uint64_t wrong = loopback.NewHandle();
  client.Post(GraphCreate{wrong});
  client.Post(GraphMemoryBatch{wrong, {}, {{kWrite, block + kWindowBytes, 1, 0}}});
  EXPECT_EQ(client.Call(GraphInstantiate{wrong, loopback.NewHandle()}).result,
            CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace cuspan::proxy
