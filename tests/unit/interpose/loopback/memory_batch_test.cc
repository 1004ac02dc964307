// Stream memory operations: in streams, in captures and as nodes of graphs.
#include <cuda.h>

#include "tests/unit/interpose/loopback/loopback.h"

namespace cuspan {
namespace {

using Operations = std::vector<CUstreamBatchMemOpParams>;

CUdeviceptr At(const std::uint32_t* word) { return reinterpret_cast<CUdeviceptr>(word); }

CUstreamBatchMemOpParams Wait(const std::uint32_t* word, unsigned value,
                              unsigned flags = CU_STREAM_WAIT_VALUE_EQ) {
  CUstreamBatchMemOpParams operation{};
  operation.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  operation.waitValue.address = At(word);
  operation.waitValue.value = value;
  operation.waitValue.flags = flags;
  return operation;
}
CUstreamBatchMemOpParams Write(const std::uint32_t* word, unsigned value) {
  CUstreamBatchMemOpParams operation{};
  operation.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  operation.writeValue.address = At(word);
  operation.writeValue.value = value;
  return operation;
}

class MemoryBatchTest : public LoopbackTest {
 protected:
  MemoryBatchTest() {
    EXPECT_EQ(cuInit(0), CUDA_SUCCESS);
    EXPECT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
  }
  ~MemoryBatchTest() override { EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS); }

  static CUresult Batch(CUstream stream, Operations operations) {
    return cuStreamBatchMemOp(stream, static_cast<unsigned>(operations.size()), operations.data(),
                              0);
  }
  // Refers to `operations`. A node keeps its own copy.
  static CUDA_BATCH_MEM_OP_NODE_PARAMS Parameters(Operations& operations) {
    return {nullptr, static_cast<unsigned>(operations.size()), operations.data(), 0};
  }
  CUgraphNode AddNode(Operations operations, const std::vector<CUgraphNode>& before = {}) {
    const auto parameters = Parameters(operations);
    CUgraphNode node = nullptr;
    EXPECT_EQ(cuGraphAddBatchMemOpNode(&node, graph, before.data(), before.size(), &parameters),
              CUDA_SUCCESS);
    return node;
  }
  CUgraphExec Instantiate() {
    CUgraphExec exec = nullptr;
    EXPECT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
    return exec;
  }
  static void RunAndDestroy(CUgraphExec exec) {
    cudaStream_t stream = NewStream();
    EXPECT_EQ(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
    EXPECT_CUDA(cudaStreamSynchronize(stream));
    EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  }

  CUgraph graph = nullptr;
};

TEST_F(MemoryBatchTest, AStreamWaitsForWhatAnotherWrites) {
  std::uint32_t* const words = NewWords(2);
  cudaStream_t waiting = NewStream();
  cudaStream_t writing = NewStream();
  ASSERT_EQ(cuStreamWaitValue32(waiting, At(words), 5, CU_STREAM_WAIT_VALUE_EQ), CUDA_SUCCESS);
  ASSERT_CUDA(Add(words + 1, 1, 7, waiting));
  EXPECT_EQ(cudaStreamQuery(waiting), cudaErrorNotReady);
  EXPECT_EQ(ReadWord(words + 1, writing), 0U);
  ASSERT_EQ(cuStreamWriteValue32(writing, At(words), 5, CU_STREAM_WRITE_VALUE_DEFAULT),
            CUDA_SUCCESS);
  EXPECT_CUDA(cudaStreamSynchronize(waiting));
  EXPECT_EQ(ReadWord(words + 1, writing), 7U);
}

TEST_F(MemoryBatchTest, ValuesOf64Bits) {
  std::uint32_t* const words = NewWords(4);
  cudaStream_t stream = NewStream();
  ASSERT_EQ(cuStreamWriteValue64(stream, At(words), 0x2'0000'0001, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitValue64(stream, At(words), 0x1'ffff'ffff, CU_STREAM_WAIT_VALUE_GEQ),
            CUDA_SUCCESS);
  EXPECT_EQ(Read(words, 4), (std::vector<std::uint32_t>{1, 2, 0, 0}));
}

TEST_F(MemoryBatchTest, ABatchIsDoneInItsOrder) {
  std::uint32_t* const words = NewWords(3);
  cudaStream_t stream = NewStream();
  CUstreamBatchMemOpParams barrier{};
  barrier.memoryBarrier.operation = CU_STREAM_MEM_OP_BARRIER;
  barrier.memoryBarrier.flags = CU_STREAM_MEMORY_BARRIER_TYPE_GPU;
  ASSERT_EQ(Batch(stream,
                  {Write(words, 1), barrier, Wait(words, 1), Write(words, 2), Write(words + 2, 3)}),
            CUDA_SUCCESS);
  EXPECT_EQ(Read(words, 3), (std::vector<std::uint32_t>{2, 0, 3}));
}

TEST_F(MemoryBatchTest, MappedMemoryOfTheHostIsAPlaceAsAnyOther) {
  std::uint32_t* flag = nullptr;
  ASSERT_CUDA(cudaHostAlloc(reinterpret_cast<void**>(&flag), 4096, cudaHostAllocMapped));
  flag[0] = 8;
  flag[1] = 0;
  cudaStream_t stream = NewStream();
  ASSERT_EQ(Batch(stream, {Wait(flag, 8), Write(flag + 1, 9)}), CUDA_SUCCESS);
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(flag[1], 9U);
  EXPECT_CUDA(cudaFreeHost(flag));

  // Registered memory has a separate address for devices.
  std::vector<std::uint32_t> own(1024, 3);
  ASSERT_CUDA(cudaHostRegister(own.data(), own.size() * 4, cudaHostRegisterMapped));
  std::uint32_t* place = nullptr;
  ASSERT_CUDA(cudaHostGetDevicePointer(reinterpret_cast<void**>(&place), own.data(), 0));
  own[0] = 4;
  ASSERT_EQ(Batch(stream, {Wait(place, 4), Write(place + 1, 5)}), CUDA_SUCCESS);
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(own[1], 5U);
  EXPECT_EQ(own[2], 3U);
  EXPECT_CUDA(cudaHostUnregister(own.data()));
}

TEST_F(MemoryBatchTest, WrongPlacesAreRefused) {
  std::uint32_t* const words = NewWords(4);
  const CUdeviceptr end = At(words) + 16;
  std::uint32_t here = 0;
  std::uint32_t* managed = nullptr;
  ASSERT_CUDA(cudaMallocManaged(reinterpret_cast<void**>(&managed), 4096));
  for (const CUdeviceptr wrong :
       {CUdeviceptr{0}, At(words) + 1, At(words) + 2, end, At(&here), At(managed)}) {
    EXPECT_EQ(cuStreamWriteValue32(nullptr, wrong, 1, 0), CUDA_ERROR_INVALID_VALUE) << wrong;
    EXPECT_EQ(cuStreamWaitValue32(nullptr, wrong, 1, 0), CUDA_ERROR_INVALID_VALUE) << wrong;
  }
  EXPECT_EQ(cuStreamWriteValue64(nullptr, At(words + 1), 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamWaitValue64(nullptr, At(words + 1), 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Batch(nullptr, {Write(words, 1), Write(words + 4, 1)}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Read(words, 4), std::vector<std::uint32_t>(4)) << "none of a batch is done";
  EXPECT_CUDA(cudaFree(managed));
}

TEST_F(MemoryBatchTest, WrongFlagsAndOperationsAreRefused) {
  std::uint32_t* const words = NewWords(4);
  EXPECT_EQ(cuStreamWaitValue32(nullptr, At(words), 0, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamWriteValue32(nullptr, At(words), 0, 2), CUDA_ERROR_INVALID_VALUE);
  CUstreamBatchMemOpParams unknown = Write(words, 1);
  unknown.operation = static_cast<CUstreamBatchMemOpType>(77);
  EXPECT_EQ(Batch(nullptr, {unknown}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Batch(nullptr, Operations(256, Write(words, 1))), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Batch(nullptr, Operations(255, Write(words, 1))), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamBatchMemOp(nullptr, 1, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamBatchMemOp(nullptr, 1, &unknown, 1), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(MemoryBatchTest, WhatTheDeviceCanNotDoIsNotSupported) {
  std::uint32_t* const words = NewWords(2);
  int can = 1;
  EXPECT_EQ(cuDeviceGetAttribute(&can, CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 0),
            CUDA_SUCCESS);
  EXPECT_EQ(can, 0);
  EXPECT_EQ(cuStreamWaitValue32(nullptr, At(words), 1, CU_STREAM_WAIT_VALUE_NOR),
            CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuStreamWaitValue32(nullptr, At(words), 0,
                                CU_STREAM_WAIT_VALUE_EQ | unsigned{CU_STREAM_WAIT_VALUE_FLUSH}),
            CUDA_ERROR_NOT_SUPPORTED);
  CUstreamBatchMemOpParams flush{};
  flush.flushRemoteWrites.operation = CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES;
  EXPECT_EQ(Batch(nullptr, {flush}), CUDA_ERROR_NOT_SUPPORTED);
}

// The form before CUDA 11.7, found by programs by its version.
TEST_F(MemoryBatchTest, TheFirstFormKnowsWritesWithoutABarrier) {
  std::uint32_t* const words = NewWords(1);
  using WriteValue = CUresult(CUstream, CUdeviceptr, cuuint32_t, unsigned);
  const auto find = [](int version) {
    void* function = nullptr;
    EXPECT_EQ(cuGetProcAddress("cuStreamWriteValue32", &function, version, 0, nullptr),
              CUDA_SUCCESS);
    return reinterpret_cast<WriteValue*>(function);
  };
  constexpr unsigned kUnordered = CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER;
  EXPECT_EQ(find(9000)(nullptr, At(words), 6, kUnordered), CUDA_SUCCESS);
  EXPECT_EQ(find(12000)(nullptr, At(words), 7, kUnordered), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Read(words, 1), std::vector<std::uint32_t>{6});
}

TEST_F(MemoryBatchTest, ACaptureTakesThemAsNodes) {
  std::uint32_t* const words = NewWords(2);
  cudaStream_t stream = NewStream();
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_EQ(cuStreamWriteValue32(stream, At(words), 4, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamWriteValue32(stream, At(words) + 1, 4, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(Batch(stream, {Wait(words, 4), Write(words + 1, 5)}), CUDA_SUCCESS);
  cudaGraph_t captured = nullptr;
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  EXPECT_EQ(Read(words, 2), (std::vector<std::uint32_t>{0, 0}));
  CUgraphNode nodes[2] = {};
  std::size_t count = 2;
  ASSERT_EQ(cuGraphGetNodes(captured, nodes, &count), CUDA_SUCCESS);
  ASSERT_EQ(count, 2U);
  for (CUgraphNode node : nodes) {
    CUgraphNodeType type{};
    EXPECT_EQ(cuGraphNodeGetType(node, &type), CUDA_SUCCESS);
    EXPECT_EQ(type, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
  }
  CUDA_BATCH_MEM_OP_NODE_PARAMS told{};
  ASSERT_EQ(cuGraphBatchMemOpNodeGetParams(nodes[1], &told), CUDA_SUCCESS);
  EXPECT_EQ(told.count, 2U);
  cudaGraphExec_t exec = nullptr;
  ASSERT_CUDA(cudaGraphInstantiate(&exec, captured, 0));
  RunAndDestroy(exec);
  EXPECT_EQ(Read(words, 2), (std::vector<std::uint32_t>{4, 5}));
  EXPECT_CUDA(cudaGraphDestroy(captured));
}

TEST_F(MemoryBatchTest, ANodeTellsAndTakesItsOperations) {
  std::uint32_t* const words = NewWords(2);
  const CUgraphNode node = AddNode({Write(words, 1)});
  CUDA_BATCH_MEM_OP_NODE_PARAMS told{};
  ASSERT_EQ(cuGraphBatchMemOpNodeGetParams(node, &told), CUDA_SUCCESS);
  ASSERT_EQ(told.count, 1U);
  EXPECT_EQ(told.flags, 0U);
  EXPECT_EQ(told.paramArray[0].operation, CU_STREAM_MEM_OP_WRITE_VALUE_32);
  EXPECT_EQ(told.paramArray[0].writeValue.address, At(words));
  EXPECT_EQ(told.paramArray[0].writeValue.value, 1U);
  // Before instantiation, all parameters may change.
  Operations two{Write(words, 2), Write(words + 1, 3)};
  const auto parameters = Parameters(two);
  ASSERT_EQ(cuGraphBatchMemOpNodeSetParams(node, &parameters), CUDA_SUCCESS);
  RunAndDestroy(Instantiate());
  EXPECT_EQ(Read(words, 2), (std::vector<std::uint32_t>{2, 3}));
  // Returned parameters still belong to the program.
  told.paramArray[0].writeValue.value = 7;
  for (int i = 0; i < 2; ++i) ASSERT_EQ(cuGraphBatchMemOpNodeSetParams(node, &told), CUDA_SUCCESS);
  RunAndDestroy(Instantiate());
  EXPECT_EQ(Read(words, 2), (std::vector<std::uint32_t>{7, 3}));
}

TEST_F(MemoryBatchTest, AfterInstantiationOnlyPlacesAndValuesChange) {
  std::uint32_t* const words = NewWords(3);
  const CUgraphNode node = AddNode({Write(words, 1), Wait(words, 1)});
  CUgraphExec exec = Instantiate();
  Operations other{Write(words + 2, 7), Wait(words + 2, 6, CU_STREAM_WAIT_VALUE_GEQ)};
  const auto changed = Parameters(other);
  EXPECT_EQ(cuGraphExecBatchMemOpNodeSetParams(exec, node, &changed), CUDA_SUCCESS);
  for (Operations wrong : {Operations{Write(words, 1)}, Operations{Wait(words, 1), Write(words, 1)},
                           Operations{Write(words, 1), Wait(words, 1), Write(words, 1)}}) {
    const auto parameters = Parameters(wrong);
    EXPECT_EQ(cuGraphExecBatchMemOpNodeSetParams(exec, node, &parameters),
              CUDA_ERROR_INVALID_VALUE);
  }
  RunAndDestroy(exec);
  EXPECT_EQ(Read(words, 3), (std::vector<std::uint32_t>{0, 0, 7}));
}

TEST_F(MemoryBatchTest, NodesOfAnyKindAreMadeAndSetAlike) {
  std::uint32_t* const words = NewWords(2);
  Operations operations{Write(words, 1)};
  CUgraphNodeParams parameters{};
  parameters.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
  parameters.memOp.count = 1;
  parameters.memOp.paramArray = operations.data();
  CUgraphNode node = nullptr;
  ASSERT_EQ(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &parameters), CUDA_SUCCESS);
  operations[0] = Write(words, 2);
  ASSERT_EQ(cuGraphNodeSetParams(node, &parameters), CUDA_SUCCESS);
  CUgraphExec exec = Instantiate();
  operations[0] = Write(words + 1, 3);
  ASSERT_EQ(cuGraphExecNodeSetParams(exec, node, &parameters), CUDA_SUCCESS);
  RunAndDestroy(exec);
  EXPECT_EQ(Read(words, 2), (std::vector<std::uint32_t>{0, 3}));
  RunAndDestroy(Instantiate());
  EXPECT_EQ(Read(words, 2), (std::vector<std::uint32_t>{2, 3}));

  parameters.memOp.flags = 1;
  EXPECT_EQ(cuGraphNodeSetParams(node, &parameters), CUDA_ERROR_INVALID_VALUE);
  CUDA_BATCH_MEM_OP_NODE_PARAMS told{};
  CUgraphNode empty = nullptr;
  ASSERT_EQ(cuGraphAddEmptyNode(&empty, graph, nullptr, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphBatchMemOpNodeGetParams(empty, &told), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphBatchMemOpNodeGetParams(node, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphBatchMemOpNodeSetParams(empty, nullptr), CUDA_ERROR_INVALID_VALUE);
}

// The branches of a graph are independent.
TEST_F(MemoryBatchTest, AWaitOfOneBranchGetsItsValueFromAnother) {
  std::uint32_t* const words = NewWords(3);
  const CUgraphNode wait = AddNode({Wait(words, 1)});
  const CUgraphNode later = AddNode({Write(words + 1, 2)}, {wait});
  static_cast<void>(later);
  const CUgraphNode first = AddNode({Write(words + 2, 3)});
  AddNode({Write(words, 1)}, {first});
  RunAndDestroy(Instantiate());
  EXPECT_EQ(Read(words, 3), (std::vector<std::uint32_t>{1, 2, 3}));
}

// Each wait is first in one of the two graphs.
TEST_F(MemoryBatchTest, WhatFollowsAWaitMakesTheValueOfAnother) {
  for (const bool first : {true, false}) {
    SCOPED_TRACE(first);
    std::uint32_t* const words = NewWords(3);
    const CUgraphNode one = AddNode({Wait(words + (first ? 0 : 1), 1)});
    const CUgraphNode other = AddNode({Wait(words + (first ? 1 : 0), 1)});
    const CUgraphNode writer = AddNode({Write(words + 1, 1)}, {first ? one : other});
    const CUgraphNode joined = AddNode({Wait(words + 1, 1), Write(words + 2, 4)}, {one, other});
    CUgraphExec exec = Instantiate();
    cudaStream_t stream = NewStream();
    ASSERT_EQ(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
    EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
    ASSERT_EQ(cuStreamWriteValue32(NewStream(), At(words), 1, 0), CUDA_SUCCESS);
    ASSERT_CUDA(cudaStreamSynchronize(stream));
    EXPECT_EQ(Read(words, 3), (std::vector<std::uint32_t>{1, 1, 4}));
    EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
    for (CUgraphNode node : {joined, writer, other, one})
      ASSERT_EQ(cuGraphDestroyNode(node), CUDA_SUCCESS);
  }
}

TEST_F(MemoryBatchTest, AWaitInAGraphInsideHoldsUpNoOtherBranch) {
  std::uint32_t* const words = NewWords(3);
  CUgraph inside = nullptr;
  ASSERT_EQ(cuGraphCreate(&inside, 0), CUDA_SUCCESS);
  std::swap(graph, inside);
  AddNode({Wait(words, 1), Write(words + 2, 5)});
  std::swap(graph, inside);
  CUgraphNode child = nullptr;
  ASSERT_EQ(cuGraphAddChildGraphNode(&child, graph, nullptr, 0, inside), CUDA_SUCCESS);
  const CUgraphNode wait = AddNode({Wait(words + 1, 1)});
  AddNode({Write(words, 1)}, {wait});
  AddNode({Write(words + 1, 1)});
  RunAndDestroy(Instantiate());
  EXPECT_EQ(Read(words, 3), (std::vector<std::uint32_t>{1, 1, 5}));
  EXPECT_EQ(cuGraphDestroy(inside), CUDA_SUCCESS);
}

// The kernels after the two waits run on the same other device.
TEST_F(MemoryBatchTest, WaitsHoldUpNoOtherBranchOnAnotherDevice) {
  std::uint32_t* const words = NewWords(2);
  ASSERT_CUDA(cudaSetDevice(1));
  std::uint32_t* const there = NewWords(2);
  ASSERT_CUDA(cudaSetDevice(0));
  std::vector<CUgraphNode> kernels;
  for (const unsigned i : {0U, 1U}) {
    const CUgraphNode wait = AddNode({Wait(words + i, 1)});
    std::uint32_t* place = there + i;
    std::uint32_t count = 1;
    std::uint32_t value = 7 + i;
    void* arguments[] = {&place, &count, &value};
    cudaKernelNodeParams parameters{};
    parameters.func = const_cast<void*>(Kernel("add"));
    parameters.gridDim = parameters.blockDim = {1, 1, 1};
    parameters.kernelParams = arguments;
    ASSERT_CUDA(cudaSetDevice(1));
    CUgraphNode kernel = nullptr;
    ASSERT_CUDA(cudaGraphAddKernelNode(&kernel, graph, &wait, 1, &parameters));
    kernels.push_back(kernel);
    ASSERT_CUDA(cudaSetDevice(0));
  }
  AddNode({Write(words, 1)}, {kernels[1]});
  CUgraphExec exec = Instantiate();
  cudaStream_t stream = NewStream();
  ASSERT_EQ(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWriteValue32(NewStream(), At(words + 1), 1, 0), CUDA_SUCCESS);
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(Read(there, 2), (std::vector<std::uint32_t>{7, 8}));
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
}

TEST_F(MemoryBatchTest, ANodeOfAnotherDeviceRunsThere) {
  cudaStream_t stream = NewStream();
  ASSERT_CUDA(cudaSetDevice(1));
  std::uint32_t* const words = NewWords(2);
  CUcontext context = nullptr;
  ASSERT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
  ASSERT_CUDA(cudaSetDevice(0));
  Operations operations{Wait(words, 1), Write(words + 1, 2)};
  auto parameters = Parameters(operations);
  parameters.ctx = context;
  CUgraphNode node = nullptr;
  ASSERT_EQ(cuGraphAddBatchMemOpNode(&node, graph, nullptr, 0, &parameters), CUDA_SUCCESS);
  CUDA_BATCH_MEM_OP_NODE_PARAMS told{};
  EXPECT_EQ(cuGraphBatchMemOpNodeGetParams(node, &told), CUDA_SUCCESS);
  EXPECT_EQ(told.ctx, context);
  CUgraphExec exec = Instantiate();
  ASSERT_EQ(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  ASSERT_CUDA(cudaSetDevice(1));
  ASSERT_EQ(cuStreamWriteValue32(NewStream(), At(words), 1, 0), CUDA_SUCCESS);
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(Read(words, 2), (std::vector<std::uint32_t>{1, 2}));
  ASSERT_CUDA(cudaSetDevice(0));
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
}

// Graphs with conditional nodes run on the device as a whole. These nodes are supported there too,
// except in bodies.
TEST_F(MemoryBatchTest, AGraphWithConditionsHasThemButInBodies) {
  std::uint32_t* const words = NewWords(1);
  CUgraphNodeParams parameters{};
  parameters.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  parameters.conditional.type = CU_GRAPH_COND_TYPE_IF;
  parameters.conditional.size = 1;
  ASSERT_EQ(cuGraphConditionalHandleCreate(&parameters.conditional.handle, graph, nullptr, 1, 0),
            CUDA_SUCCESS);
  const CUgraphNode batch = AddNode({Write(words, 1)});
  CUgraphNode branch = nullptr;
  ASSERT_EQ(cuGraphAddNode(&branch, graph, &batch, nullptr, 1, &parameters), CUDA_SUCCESS);
  RunAndDestroy(Instantiate());
  CUgraph body = parameters.conditional.phGraph_out[0];
  std::swap(graph, body);
  AddNode({Write(words, 2)});
  std::swap(graph, body);
  CUgraphExec exec = nullptr;
  EXPECT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(MemoryBatchTest, AnUpdateTakesWhatIsAlike) {
  std::uint32_t* const words = NewWords(2);
  AddNode({Write(words, 1)});
  CUgraphExec exec = Instantiate();
  CUgraph other = nullptr;
  ASSERT_EQ(cuGraphCreate(&other, 0), CUDA_SUCCESS);
  std::swap(graph, other);
  const CUgraphNode node = AddNode({Write(words + 1, 5)});
  CUgraphExecUpdateResultInfo info{};
  EXPECT_EQ(cuGraphExecUpdate(exec, graph, &info), CUDA_SUCCESS);
  Operations wait{Wait(words, 1)};
  const auto parameters = Parameters(wait);
  ASSERT_EQ(cuGraphBatchMemOpNodeSetParams(node, &parameters), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphExecUpdate(exec, graph, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
  RunAndDestroy(exec);
  EXPECT_EQ(Read(words, 2), (std::vector<std::uint32_t>{0, 5}));
  EXPECT_EQ(cuGraphDestroy(other), CUDA_SUCCESS);
}

}  // namespace
}  // namespace cuspan
