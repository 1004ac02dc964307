// Stream memory operations in the driver API: waits for values written by kernels, copies and other
// streams. Also batches, captures and nodes of graphs.
//
//   driver_memops
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "driver_check.h"

namespace {

int failures = 0;

// words[0] = value
constexpr const char* kPtx = R"(
.version 6.0
.target sm_50
.address_size 64
.visible .entry store(.param .u64 words, .param .u32 value)
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [words];
  ld.param.u32 %r1, [value];
  cvta.to.global.u64 %rd2, %rd1;
  st.global.u32 [%rd2], %r1;
  ret;
}
)";

struct Abilities {
  bool wide, nor, flush;
};

bool Can(CUdevice_attribute ability) {
  int can = 0;
  DRIVER(cuDeviceGetAttribute(&can, ability, 0));
  return can != 0;
}

CUstreamBatchMemOpParams Wait(CUdeviceptr address, cuuint64_t value, unsigned flags,
                              bool wide = false) {
  CUstreamBatchMemOpParams operation{};
  operation.waitValue.operation =
      wide ? CU_STREAM_MEM_OP_WAIT_VALUE_64 : CU_STREAM_MEM_OP_WAIT_VALUE_32;
  operation.waitValue.address = address;
  operation.waitValue.value64 = value;
  operation.waitValue.flags = flags;
  return operation;
}

CUstreamBatchMemOpParams Write(CUdeviceptr address, cuuint64_t value, bool wide = false) {
  CUstreamBatchMemOpParams operation{};
  operation.writeValue.operation =
      wide ? CU_STREAM_MEM_OP_WRITE_VALUE_64 : CU_STREAM_MEM_OP_WRITE_VALUE_32;
  operation.writeValue.address = address;
  operation.writeValue.value64 = value;
  return operation;
}

// Objects used while streams wait are created before: creation may wait for the device.
struct Fixture {
  CUstream waiting = nullptr;
  CUstream working = nullptr;
  CUfunction store = nullptr;
  CUdeviceptr words = 0;     // Device memory.
  unsigned* host = nullptr;  // Pinned memory, source of copies.

  static constexpr unsigned kWords = 64;
  CUdeviceptr At(unsigned word) const { return words + word * sizeof(unsigned); }
  void Launch(CUstream stream, CUdeviceptr address, unsigned value) const {
    void* arguments[] = {&address, &value};
    DRIVER(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr));
  }
  void Clear() const {
    DRIVER(cuMemsetD32Async(words, 0, kWords, working));
    DRIVER(cuStreamSynchronize(working));
  }
  std::vector<unsigned> Read(unsigned count) const {
    DRIVER(cuMemcpyDtoHAsync(host, words, count * sizeof(unsigned), working));
    DRIVER(cuStreamSynchronize(working));
    return std::vector<unsigned>(host, host + count);
  }
  void ExpectWord(unsigned word, unsigned value) const {
    const unsigned found = Read(word + 1)[word];
    EXPECT(found == value, "word %u is %u, not %u", word, found, value);
  }

  Fixture() {
    DRIVER(cuStreamCreate(&waiting, CU_STREAM_NON_BLOCKING));
    DRIVER(cuStreamCreate(&working, CU_STREAM_NON_BLOCKING));
    CUmodule module = nullptr;
    DRIVER(cuModuleLoadData(&module, kPtx));
    DRIVER(cuModuleGetFunction(&store, module, "store"));
    DRIVER(cuMemAlloc(&words, kWords * sizeof(unsigned)));
    void* pinned = nullptr;
    DRIVER(cuMemHostAlloc(&pinned, kWords * sizeof(unsigned), 0));
    host = static_cast<unsigned*>(pinned);
    // Loads the kernel before anything waits for it.
    for (CUstream stream : {waiting, working}) Launch(stream, words, 0);
    DRIVER(cuCtxSynchronize());
    Clear();
  }
};

// A stream waits until another one's work has written the value.
void CheckWaits(const Fixture& f) {
  // Another stream's write.
  DRIVER(cuStreamWaitValue32(f.waiting, f.At(0), 5, CU_STREAM_WAIT_VALUE_GEQ));
  f.Launch(f.waiting, f.At(1), 7);
  EXPECT_RESULT(cuStreamQuery(f.waiting), CUDA_ERROR_NOT_READY);
  f.ExpectWord(1, 0);
  DRIVER(cuStreamWriteValue32(f.working, f.At(0), 5, CU_STREAM_WRITE_VALUE_DEFAULT));
  DRIVER(cuStreamSynchronize(f.waiting));
  f.ExpectWord(1, 7);
  // A kernel.
  DRIVER(cuStreamWaitValue32(f.waiting, f.At(0), 6, CU_STREAM_WAIT_VALUE_EQ));
  f.Launch(f.waiting, f.At(1), 8);
  f.ExpectWord(1, 7);
  f.Launch(f.working, f.At(0), 6);
  DRIVER(cuStreamSynchronize(f.waiting));
  f.ExpectWord(1, 8);
  // A copy from the host.
  DRIVER(cuStreamWaitValue32(f.waiting, f.At(0), 8, CU_STREAM_WAIT_VALUE_AND));
  f.Launch(f.waiting, f.At(1), 9);
  f.ExpectWord(1, 8);
  f.host[0] = 24;
  DRIVER(cuMemcpyHtoDAsync(f.At(0), f.host, sizeof(unsigned), f.working));
  DRIVER(cuStreamSynchronize(f.waiting));
  f.ExpectWord(1, 9);
  // A set.
  DRIVER(cuStreamWaitValue32(f.waiting, f.At(0), 77, CU_STREAM_WAIT_VALUE_EQ));
  f.Launch(f.waiting, f.At(1), 10);
  f.ExpectWord(1, 9);
  DRIVER(cuMemsetD32Async(f.At(0), 77, 1, f.working));
  DRIVER(cuStreamSynchronize(f.waiting));
  f.ExpectWord(1, 10);
}

void CheckConditions(const Fixture& f, const Abilities& abilities) {
  struct Case {
    unsigned found, value, flags;
  };
  const Case cases[] = {
      {5, 5, CU_STREAM_WAIT_VALUE_GEQ},          {6, 5, CU_STREAM_WAIT_VALUE_GEQ},
      {1, 0xfffffff0, CU_STREAM_WAIT_VALUE_GEQ}, {9, 9, CU_STREAM_WAIT_VALUE_EQ},
      {6, 3, CU_STREAM_WAIT_VALUE_AND},          {0xf0, 0xf, CU_STREAM_WAIT_VALUE_NOR}};
  for (const Case& one : cases) {
    const bool nor = one.flags == CU_STREAM_WAIT_VALUE_NOR;
    DRIVER(cuStreamWriteValue32(f.waiting, f.At(0), one.found, 0));
    const CUresult result = cuStreamWaitValue32(f.waiting, f.At(0), one.value, one.flags);
    EXPECT(result == (nor && !abilities.nor ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS), "%s",
           Name(result));
    DRIVER(cuStreamSynchronize(f.waiting));
  }
  const CUresult flushed = cuStreamWaitValue32(
      f.waiting, f.At(0), 0xf0, CU_STREAM_WAIT_VALUE_EQ | unsigned{CU_STREAM_WAIT_VALUE_FLUSH});
  EXPECT(flushed == (abilities.flush ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED), "%s",
         Name(flushed));
  DRIVER(cuStreamSynchronize(f.waiting));
  if (!abilities.wide) return;
  constexpr cuuint64_t kLarge = cuuint64_t{5} << 32;
  DRIVER(cuStreamWriteValue64(f.waiting, f.At(0), kLarge | 1, 0));
  DRIVER(cuStreamWaitValue64(f.waiting, f.At(0), kLarge, CU_STREAM_WAIT_VALUE_GEQ));
  DRIVER(cuStreamWaitValue64(f.waiting, f.At(0), kLarge | 1, CU_STREAM_WAIT_VALUE_EQ));
  DRIVER(cuStreamWaitValue64(f.waiting, f.At(0), cuuint64_t{4} << 32, CU_STREAM_WAIT_VALUE_AND));
  DRIVER(cuStreamSynchronize(f.waiting));
  f.ExpectWord(0, 1);
  f.ExpectWord(1, 5);
}

void CheckBatch(const Fixture& f, const Abilities& abilities) {
  f.Clear();
  CUstreamBatchMemOpParams barrier{};
  barrier.memoryBarrier.operation = CU_STREAM_MEM_OP_BARRIER;
  barrier.memoryBarrier.flags = CU_STREAM_MEMORY_BARRIER_TYPE_GPU;
  CUstreamBatchMemOpParams operations[] = {Write(f.At(0), 1),
                                           Wait(f.At(0), 1, CU_STREAM_WAIT_VALUE_EQ), barrier,
                                           Write(f.At(0), 2), Write(f.At(2), 3, abilities.wide)};
  DRIVER(cuStreamBatchMemOp(f.waiting, 5, operations, 0));
  DRIVER(cuStreamSynchronize(f.waiting));
  f.ExpectWord(0, 2);
  f.ExpectWord(2, 3);
  f.ExpectWord(3, 0);
  std::vector<CUstreamBatchMemOpParams> many(255, Write(f.At(4), 4));
  DRIVER(cuStreamBatchMemOp(f.waiting, 255, many.data(), 0));
  DRIVER(cuStreamSynchronize(f.waiting));
  f.ExpectWord(4, 4);
}

// Host memory by its device pointer. A wait sees values written by the host before. After a
// synchronisation, the host sees values written by the stream.
void CheckHostMemory(const Fixture& f, void* memory) {
  auto* const flags = static_cast<volatile unsigned*>(memory);
  CUdeviceptr place = 0;
  DRIVER(cuMemHostGetDevicePointer(&place, memory, 0));
  flags[0] = 31;
  flags[1] = 0;
  DRIVER(cuStreamWaitValue32(f.waiting, place, 31, CU_STREAM_WAIT_VALUE_EQ));
  DRIVER(cuStreamWriteValue32(f.waiting, place + 4, 32, 0));
  DRIVER(cuStreamSynchronize(f.waiting));
  EXPECT(flags[1] == 32, "%u", flags[1]);
  EXPECT_RESULT(cuStreamWriteValue32(f.waiting, place + 2, 1, 0), CUDA_ERROR_INVALID_VALUE);
}

void CheckHostMemory(const Fixture& f) {
  void* pinned = nullptr;
  DRIVER(cuMemHostAlloc(&pinned, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
  CheckHostMemory(f, pinned);
  DRIVER(cuMemFreeHost(pinned));
  void* registered = std::aligned_alloc(4096, 4096);
  std::memset(registered, 0, 4096);
  DRIVER(cuMemHostRegister(registered, 4096, CU_MEMHOSTREGISTER_DEVICEMAP));
  CheckHostMemory(f, registered);
  DRIVER(cuMemHostUnregister(registered));
  std::free(registered);
}

void CheckErrors(const Fixture& f) {
  const CUstream s = f.waiting;
  for (const CUdeviceptr wrong : {CUdeviceptr{0}, f.At(0) + 1, f.At(0) + 2}) {
    EXPECT_RESULT(cuStreamWaitValue32(s, wrong, 0, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuStreamWriteValue32(s, wrong, 0, 0), CUDA_ERROR_INVALID_VALUE);
  }
  EXPECT_RESULT(cuStreamWaitValue32(s, f.At(0), 0, 1U << 20), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuStreamWriteValue32(s, f.At(0), 0, 1U << 20), CUDA_ERROR_INVALID_VALUE);
  CUstreamBatchMemOpParams one = Write(f.At(0), 1);
  EXPECT_RESULT(cuStreamBatchMemOp(s, 1, &one, 1), CUDA_ERROR_INVALID_VALUE);
  std::vector<CUstreamBatchMemOpParams> many(256, one);
  EXPECT_RESULT(cuStreamBatchMemOp(s, 256, many.data(), 0), CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr managed = 0;
  DRIVER(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
  EXPECT(cuStreamWriteValue32(s, managed, 1, 0) != CUDA_SUCCESS, "managed memory");
  DRIVER(cuMemFree(managed));
}

void Run(const Fixture& f, CUgraphExec exec) {
  DRIVER(cuGraphLaunch(exec, f.waiting));
  DRIVER(cuStreamSynchronize(f.waiting));
}

void CheckCapture(const Fixture& f) {
  f.Clear();
  CUgraph graph = nullptr;
  DRIVER(cuStreamBeginCapture(f.waiting, CU_STREAM_CAPTURE_MODE_RELAXED));
  DRIVER(cuStreamWriteValue32(f.waiting, f.At(0), 1, 0));
  f.Launch(f.waiting, f.At(1), 2);
  DRIVER(cuStreamWaitValue32(f.waiting, f.At(1), 2, CU_STREAM_WAIT_VALUE_EQ));
  CUstreamBatchMemOpParams operations[] = {Write(f.At(2), 3), Write(f.At(3), 4)};
  DRIVER(cuStreamBatchMemOp(f.waiting, 2, operations, 0));
  DRIVER(cuStreamEndCapture(f.waiting, &graph));
  CUgraphNode nodes[4] = {};
  std::size_t count = 4;
  DRIVER(cuGraphGetNodes(graph, nodes, &count));
  EXPECT(count == 4, "%zu", count);
  int batches = 0;
  for (std::size_t i = 0; i < count; ++i) {
    CUgraphNodeType type{};
    DRIVER(cuGraphNodeGetType(nodes[i], &type));
    batches += type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
  }
  EXPECT(batches == 3, "%d", batches);
  CUgraphExec exec = nullptr;
  DRIVER(cuGraphInstantiateWithFlags(&exec, graph, 0));
  for (int launch = 0; launch < 2; ++launch) {
    f.Clear();
    Run(f, exec);
    for (unsigned word = 0; word < 4; ++word) f.ExpectWord(word, word + 1);
  }
  DRIVER(cuGraphExecDestroy(exec));
  DRIVER(cuGraphDestroy(graph));
}

void CheckNodes(const Fixture& f, CUcontext context) {
  f.Clear();
  CUgraph graph = nullptr;
  DRIVER(cuGraphCreate(&graph, 0));
  CUstreamBatchMemOpParams operations[] = {Write(f.At(0), 1),
                                           Wait(f.At(0), 1, CU_STREAM_WAIT_VALUE_EQ)};
  CUDA_BATCH_MEM_OP_NODE_PARAMS parameters{};
  parameters.ctx = context;
  parameters.count = 2;
  parameters.paramArray = operations;
  CUgraphNode first = nullptr;
  DRIVER(cuGraphAddBatchMemOpNode(&first, graph, nullptr, 0, &parameters));
  CUDA_BATCH_MEM_OP_NODE_PARAMS told{};
  DRIVER(cuGraphBatchMemOpNodeGetParams(first, &told));
  EXPECT(told.ctx == context && told.count == 2 &&
             told.paramArray[0].writeValue.address == f.At(0) &&
             told.paramArray[1].waitValue.value == 1,
         "%u operations", told.count);
  CUgraphNodeParams generic{};
  CUstreamBatchMemOpParams third = Write(f.At(1), 2);
  generic.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
  generic.memOp.ctx = context;
  generic.memOp.count = 1;
  generic.memOp.paramArray = &third;
  CUgraphNode second = nullptr;
  DRIVER(cuGraphAddNode(&second, graph, &first, nullptr, 1, &generic));
  CUgraphExec exec = nullptr;
  DRIVER(cuGraphInstantiateWithFlags(&exec, graph, 0));
  Run(f, exec);
  f.ExpectWord(0, 1);
  f.ExpectWord(1, 2);
  // The executable graph accepts other addresses and values,
  operations[0] = Write(f.At(2), 7);
  operations[1] = Wait(f.At(2), 6, CU_STREAM_WAIT_VALUE_GEQ);
  DRIVER(cuGraphExecBatchMemOpNodeSetParams(exec, first, &parameters));
  third = Write(f.At(3), 8);
  DRIVER(cuGraphExecNodeSetParams(exec, second, &generic));
  f.Clear();
  Run(f, exec);
  f.ExpectWord(0, 0);
  f.ExpectWord(1, 0);
  f.ExpectWord(2, 7);
  f.ExpectWord(3, 8);
  // but no other operations.
  parameters.count = 1;
  EXPECT(cuGraphExecBatchMemOpNodeSetParams(exec, first, &parameters) != CUDA_SUCCESS,
         "another count");
  DRIVER(cuGraphExecDestroy(exec));
  // The graph accepts any.
  DRIVER(cuGraphBatchMemOpNodeSetParams(first, &parameters));
  DRIVER(cuGraphBatchMemOpNodeGetParams(first, &told));
  EXPECT(told.count == 1, "%u", told.count);
  f.Clear();
  DRIVER(cuGraphInstantiateWithFlags(&exec, graph, 0));
  Run(f, exec);
  f.ExpectWord(1, 2);
  f.ExpectWord(2, 7);
  DRIVER(cuGraphExecDestroy(exec));
  DRIVER(cuGraphDestroy(graph));
}

}  // namespace

int main() {
  DRIVER(cuInit(0));
  CUcontext context = nullptr;
  DRIVER(cuDevicePrimaryCtxRetain(&context, 0));
  DRIVER(cuCtxSetCurrent(context));
  const Abilities abilities{Can(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS),
                            Can(CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR),
                            Can(CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES)};
  const Fixture fixture;
  CheckWaits(fixture);
  CheckConditions(fixture, abilities);
  CheckBatch(fixture, abilities);
  CheckHostMemory(fixture);
  CheckErrors(fixture);
  CheckCapture(fixture);
  CheckNodes(fixture, context);
  DRIVER(cuDevicePrimaryCtxRelease(0));
  std::printf("driver_memops: %s\n", Verdict(failures));
  return ExitStatus(failures);
}
