// NCCL's collectives, sends, receives and reductions defined by programs: the calls that reach the
// library of the proxy.
#include "tests/unit/interpose/loopback/nccl_fixture.h"

namespace cuspan {
namespace {

using proxy::NcclCall;

// A communicator with all devices, and memory of the first one.
class NcclCollectivesTest : public NcclFixture {
 protected:
  ~NcclCollectivesTest() override { Destroy(ranks); }

  // Waits for the work of all devices. Returns the only call of this function.
  static NcclCall Only(const std::string& function) {
    Synchronize();
    const std::vector<NcclCall> calls = library().Calls(function);
    EXPECT_EQ(calls.size(), 1U) << function;
    return calls.empty() ? NcclCall() : calls[0];
  }
  // Number of calls that move data.
  static std::size_t Submitted() {
    Synchronize();
    std::size_t number = 0;
    for (const NcclCall& call : library().Calls()) number += call.stream != nullptr ? 1 : 0;
    return number;
  }
  void ExpectBuffers(const NcclCall& call, const void* from, const void* to) const {
    EXPECT_EQ(call.send, from);
    EXPECT_EQ(call.receive, to);
    EXPECT_EQ(call.size, kDevices);
    EXPECT_EQ(call.rank, 0);
    EXPECT_EQ(call.group, 0U);
    EXPECT_NE(call.stream, nullptr);
  }

  const std::vector<ncclComm*> ranks = NewOnAll();
  const cudaStream_t stream = NewStream();
  std::uint32_t* const send = NewWords(64);
  std::uint32_t* const receive = NewWords(64);
};

TEST_F(NcclCollectivesTest, EachReductionIsOneCall) {
  EXPECT_NCCL(ncclAllReduce(send, receive, 5, nccl::kFloat16, nccl::kMaximum, ranks[0], stream));
  NcclCall call = Only("ncclAllReduce");
  ExpectBuffers(call, send, receive);
  EXPECT_EQ(call.count, 5U);
  EXPECT_EQ(call.type, nccl::kFloat16);
  EXPECT_EQ(call.operation, nccl::kMaximum);

  EXPECT_NCCL(ncclReduce(send, receive, 6, nccl::kInt64, nccl::kProduct, 1, ranks[0], stream));
  call = Only("ncclReduce");
  ExpectBuffers(call, send, receive);
  EXPECT_EQ(call.count, 6U);
  EXPECT_EQ(call.type, nccl::kInt64);
  EXPECT_EQ(call.operation, nccl::kProduct);
  EXPECT_EQ(call.peer, 1);

  EXPECT_NCCL(
      ncclReduceScatter(send, receive, 7, nccl::kBfloat16, nccl::kAverage, ranks[0], stream));
  call = Only("ncclReduceScatter");
  ExpectBuffers(call, send, receive);
  EXPECT_EQ(call.count, 7U);
  EXPECT_EQ(call.type, nccl::kBfloat16);
  EXPECT_EQ(call.operation, nccl::kAverage);
  EXPECT_EQ(Submitted(), 3U);
}

TEST_F(NcclCollectivesTest, EachCopyIsOneCall) {
  EXPECT_NCCL(ncclBroadcast(send, receive, 1, nccl::kInt8, 1, ranks[0], stream));
  NcclCall call = Only("ncclBroadcast");
  ExpectBuffers(call, send, receive);
  EXPECT_EQ(call.count, 1U);
  EXPECT_EQ(call.type, nccl::kInt8);
  EXPECT_EQ(call.peer, 1);

  EXPECT_NCCL(ncclAllGather(send, receive, 2, nccl::kUint8, ranks[0], stream));
  call = Only("ncclAllGather");
  ExpectBuffers(call, send, receive);
  EXPECT_EQ(call.count, 2U);
  EXPECT_EQ(call.type, nccl::kUint8);

  EXPECT_NCCL(ncclAlltoAll(send, receive, 3, nccl::kFloat64, ranks[0], stream));
  call = Only("ncclAlltoAll");
  ExpectBuffers(call, send, receive);
  EXPECT_EQ(call.count, 3U);
  EXPECT_EQ(call.type, nccl::kFloat64);

  EXPECT_NCCL(ncclGather(send, receive, 4, nccl::kFloat8E4M3, 1, ranks[0], stream));
  call = Only("ncclGather");
  ExpectBuffers(call, send, receive);
  EXPECT_EQ(call.count, 4U);
  EXPECT_EQ(call.type, nccl::kFloat8E4M3);
  EXPECT_EQ(call.peer, 1);

  EXPECT_NCCL(ncclScatter(send, receive, 5, nccl::kFloat8E5M2, 0, ranks[0], stream));
  call = Only("ncclScatter");
  ExpectBuffers(call, send, receive);
  EXPECT_EQ(call.count, 5U);
  EXPECT_EQ(call.type, nccl::kFloat8E5M2);
  EXPECT_EQ(call.peer, 0);
  EXPECT_EQ(Submitted(), 5U);
}

// ncclBcast is ncclBroadcast in place.
TEST_F(NcclCollectivesTest, BuffersMayBeTheSame) {
  EXPECT_NCCL(ncclBcast(send, 8, nccl::kFloat32, 0, ranks[0], stream));
  ExpectBuffers(Only("ncclBroadcast"), send, send);
  EXPECT_NCCL(ncclAllReduce(send, send, 8, nccl::kFloat32, nccl::kSum, ranks[0], stream));
  ExpectBuffers(Only("ncclAllReduce"), send, send);
}

TEST_F(NcclCollectivesTest, ASendAndAReceiveOfAGroupAreMadeTogether) {
  EXPECT_NCCL(ncclGroupStart());
  EXPECT_NCCL(ncclSend(send, 3, nccl::kInt32, 1, ranks[0], stream));
  EXPECT_NCCL(ncclRecv(receive, 4, nccl::kUint32, 1, ranks[0], stream));
  EXPECT_EQ(Submitted(), 0U);
  EXPECT_NCCL(ncclGroupEnd());
  const NcclCall sent = Only("ncclSend");
  const NcclCall received = Only("ncclRecv");
  EXPECT_EQ(sent.send, send);
  EXPECT_EQ(sent.count, 3U);
  EXPECT_EQ(sent.type, nccl::kInt32);
  EXPECT_EQ(sent.peer, 1);
  EXPECT_EQ(received.receive, receive);
  EXPECT_EQ(received.count, 4U);
  EXPECT_EQ(received.type, nccl::kUint32);
  EXPECT_EQ(received.peer, 1);
  EXPECT_NE(sent.group, 0U);
  EXPECT_EQ(sent.group, received.group);
  EXPECT_EQ(sent.stream, received.stream);
}

// Each rank's call is made by the proxy of its device.
TEST_F(NcclCollectivesTest, AGroupMayContainAllDevices) {
  EXPECT_CUDA(cudaSetDevice(1));
  std::uint32_t* const other = NewWords(8);
  const cudaStream_t others = NewStream();
  EXPECT_CUDA(cudaSetDevice(0));
  EXPECT_NCCL(ncclGroupStart());
  EXPECT_NCCL(ncclAllReduce(send, send, 8, nccl::kInt32, nccl::kSum, ranks[0], stream));
  EXPECT_NCCL(ncclAllReduce(other, other, 8, nccl::kInt32, nccl::kSum, ranks[1], others));
  EXPECT_NCCL(ncclGroupEnd());
  Synchronize();
  const std::vector<NcclCall> calls = library().Calls("ncclAllReduce");
  ASSERT_EQ(calls.size(), 2U);
  for (const NcclCall& call : calls) EXPECT_EQ(call.send, call.rank == 0 ? send : other);
  EXPECT_NE(calls[0].rank, calls[1].rank);
}

// The work is in the stream of the call: an event of the proxy follows it there.
TEST_F(NcclCollectivesTest, CallsAreInTheirStreams) {
  const cudaStream_t second = NewStream();
  Hold(stream);
  Hold(second);
  EXPECT_NCCL(ncclAllReduce(send, send, 1, nccl::kInt32, nccl::kSum, ranks[0], second));
  EXPECT_TRUE(WaitForWork(second, "record"));
  Let(second);
  EXPECT_CUDA(cudaStreamSynchronize(second));
  const NcclCall first = library().Calls("ncclAllReduce").at(0);
  EXPECT_NCCL(ncclAllReduce(send, send, 1, nccl::kInt32, nccl::kSum, ranks[0], stream));
  EXPECT_TRUE(WaitForWork(stream, "record"));
  Let(stream);
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_NE(library().Calls("ncclAllReduce").at(1).stream, first.stream);
}

TEST_F(NcclCollectivesTest, ACountMayBeZero) {
  EXPECT_NCCL(ncclAllReduce(send, send, 0, nccl::kInt32, nccl::kSum, ranks[0], stream));
  EXPECT_NCCL(ncclAllReduce(nullptr, nullptr, 0, nccl::kInt32, nccl::kSum, ranks[0], stream));
  EXPECT_NCCL(ncclBroadcast(nullptr, nullptr, 0, nccl::kInt32, 1, ranks[0], stream));
  EXPECT_NCCL(ncclAllGather(nullptr, nullptr, 0, nccl::kInt32, ranks[0], stream));
  EXPECT_NCCL(ncclGroupStart());
  EXPECT_NCCL(ncclSend(nullptr, 0, nccl::kInt32, 1, ranks[0], stream));
  EXPECT_NCCL(ncclRecv(nullptr, 0, nccl::kInt32, 1, ranks[0], stream));
  EXPECT_NCCL(ncclGroupEnd());
  Synchronize();
  EXPECT_EQ(StateOf(ranks[0]), nccl::kSuccess);
  // NCCL needs the send of nothing for the receive of nothing at the peer.
  EXPECT_EQ(library().Calls("ncclSend").size(), 1U);
  EXPECT_EQ(library().Calls("ncclRecv").size(), 1U);
}

TEST_F(NcclCollectivesTest, InvalidTypesAreRefused) {
  for (const int type : {-1, int{nccl::kDataTypes}, 1000}) {
    EXPECT_EQ(ncclAllReduce(send, send, 1, type, nccl::kSum, ranks[0], stream),
              nccl::kInvalidArgument);
    EXPECT_EQ(ncclReduce(send, send, 1, type, nccl::kSum, 0, ranks[0], stream),
              nccl::kInvalidArgument);
    EXPECT_EQ(ncclReduceScatter(send, send, 1, type, nccl::kSum, ranks[0], stream),
              nccl::kInvalidArgument);
    EXPECT_EQ(ncclBroadcast(send, send, 1, type, 0, ranks[0], stream), nccl::kInvalidArgument);
    EXPECT_EQ(ncclAllGather(send, send, 1, type, ranks[0], stream), nccl::kInvalidArgument);
    EXPECT_EQ(ncclAlltoAll(send, send, 1, type, ranks[0], stream), nccl::kInvalidArgument);
    EXPECT_EQ(ncclGather(send, send, 1, type, 0, ranks[0], stream), nccl::kInvalidArgument);
    EXPECT_EQ(ncclScatter(send, send, 1, type, 0, ranks[0], stream), nccl::kInvalidArgument);
    EXPECT_EQ(ncclSend(send, 1, type, 1, ranks[0], stream), nccl::kInvalidArgument);
    EXPECT_EQ(ncclRecv(send, 1, type, 1, ranks[0], stream), nccl::kInvalidArgument);
  }
  EXPECT_EQ(Submitted(), 0U);
  EXPECT_EQ(StateOf(ranks[0]), nccl::kSuccess);
}

TEST_F(NcclCollectivesTest, RanksOutsideTheCommunicatorAreRefused) {
  for (const int rank : {-1, int{kDevices}, 1000}) {
    EXPECT_EQ(ncclReduce(send, send, 1, nccl::kInt32, nccl::kSum, rank, ranks[0], stream),
              nccl::kInvalidArgument);
    EXPECT_EQ(ncclBroadcast(send, send, 1, nccl::kInt32, rank, ranks[0], stream),
              nccl::kInvalidArgument);
    EXPECT_EQ(ncclBcast(send, 1, nccl::kInt32, rank, ranks[0], stream), nccl::kInvalidArgument);
    EXPECT_EQ(ncclGather(send, send, 1, nccl::kInt32, rank, ranks[0], stream),
              nccl::kInvalidArgument);
    EXPECT_EQ(ncclScatter(send, send, 1, nccl::kInt32, rank, ranks[0], stream),
              nccl::kInvalidArgument);
    EXPECT_EQ(ncclSend(send, 1, nccl::kInt32, rank, ranks[0], stream), nccl::kInvalidArgument);
    EXPECT_EQ(ncclRecv(send, 1, nccl::kInt32, rank, ranks[0], stream), nccl::kInvalidArgument);
  }
  EXPECT_EQ(Submitted(), 0U);
}

// An operation is NCCL's own, or created for this communicator and not destroyed.
TEST_F(NcclCollectivesTest, UnknownOperationsAreRefused) {
  for (const int operation : {-1, int{nccl::kReduceOps}, 1000}) {
    EXPECT_EQ(ncclAllReduce(send, send, 1, nccl::kInt32, operation, ranks[0], stream),
              nccl::kInvalidArgument);
    EXPECT_EQ(ncclReduce(send, send, 1, nccl::kInt32, operation, 0, ranks[0], stream),
              nccl::kInvalidArgument);
    EXPECT_EQ(ncclReduceScatter(send, send, 1, nccl::kInt32, operation, ranks[0], stream),
              nccl::kInvalidArgument);
  }
  // The communicator is still usable.
  EXPECT_NCCL(ncclAllReduce(send, send, 1, nccl::kInt32, nccl::kSum, ranks[0], stream));
  EXPECT_EQ(Submitted(), 1U);
  EXPECT_EQ(StateOf(ranks[0]), nccl::kSuccess);
}

TEST_F(NcclCollectivesTest, AnOperationHasItsFactor) {
  int operation = 0;
  float half = 0.5F;
  ASSERT_NCCL(ncclRedOpCreatePreMulSum(&operation, &half, nccl::kFloat32,
                                       nccl::kScalarHostImmediate, ranks[0]));
  EXPECT_GE(operation, nccl::kReduceOps);
  // The factor has been read.
  half = 7;
  EXPECT_NCCL(ncclAllReduce(send, send, 4, nccl::kFloat32, operation, ranks[0], stream));
  const NcclCall used = Only("ncclAllReduce");
  const NcclCall made = Only("ncclRedOpCreatePreMulSum");
  float factor = 0;
  std::memcpy(&factor, &made.factor, sizeof factor);
  EXPECT_EQ(factor, 0.5F);
  EXPECT_EQ(made.type, nccl::kFloat32);
  EXPECT_EQ(made.residence, nccl::kScalarHostImmediate);
  EXPECT_EQ(used.operation, made.operation);
  EXPECT_EQ(used.type, nccl::kFloat32);
  EXPECT_EQ(StateOf(ranks[0]), nccl::kSuccess);

  EXPECT_NCCL(ncclRedOpDestroy(operation, ranks[0]));
  EXPECT_TRUE(library().WaitForCalls("ncclRedOpDestroy"));
  EXPECT_EQ(library().Calls("ncclRedOpDestroy").at(0).operation, made.operation);
}

TEST_F(NcclCollectivesTest, AFactorMayBeOnTheDevice) {
  int operation = 0;
  ASSERT_NCCL(
      ncclRedOpCreatePreMulSum(&operation, send, nccl::kInt32, nccl::kScalarDevice, ranks[0]));
  EXPECT_TRUE(library().WaitForCalls("ncclRedOpCreatePreMulSum"));
  const NcclCall made = Only("ncclRedOpCreatePreMulSum");
  EXPECT_EQ(made.send, send);
  EXPECT_EQ(made.residence, nccl::kScalarDevice);
  EXPECT_NCCL(ncclRedOpDestroy(operation, ranks[0]));
}

TEST_F(NcclCollectivesTest, ADestroyedOperationIsUnknown) {
  int operation = 0;
  float half = 0.5F;
  ASSERT_NCCL(ncclRedOpCreatePreMulSum(&operation, &half, nccl::kFloat32,
                                       nccl::kScalarHostImmediate, ranks[0]));
  // It belongs to its communicator.
  EXPECT_EQ(ncclRedOpDestroy(operation, ranks[1]), nccl::kInvalidArgument);
  EXPECT_CUDA(cudaSetDevice(1));
  EXPECT_EQ(ncclAllReduce(send, send, 4, nccl::kFloat32, operation, ranks[1], nullptr),
            nccl::kInvalidArgument);
  EXPECT_CUDA(cudaSetDevice(0));
  // So does the type of its factor.
  EXPECT_EQ(ncclAllReduce(send, send, 4, nccl::kFloat64, operation, ranks[0], stream),
            nccl::kInvalidArgument);
  EXPECT_NCCL(ncclAllReduce(send, send, 4, nccl::kFloat32, operation, ranks[0], stream));
  EXPECT_NCCL(ncclRedOpDestroy(operation, ranks[0]));
  EXPECT_EQ(ncclRedOpDestroy(operation, ranks[0]), nccl::kInvalidArgument);
  EXPECT_EQ(ncclAllReduce(send, send, 4, nccl::kFloat32, operation, ranks[0], stream),
            nccl::kInvalidArgument);
  EXPECT_EQ(Submitted(), 1U);
  EXPECT_EQ(StateOf(ranks[0]), nccl::kSuccess);
}

// An operation may be destroyed when the last function using it has returned, also inside a group.
TEST_F(NcclCollectivesTest, AGroupMayDestroyItsOperations) {
  int operation = 0;
  float half = 0.5F;
  ASSERT_NCCL(ncclRedOpCreatePreMulSum(&operation, &half, nccl::kFloat32,
                                       nccl::kScalarHostImmediate, ranks[0]));
  EXPECT_NCCL(ncclGroupStart());
  EXPECT_NCCL(ncclAllReduce(send, send, 4, nccl::kFloat32, operation, ranks[0], stream));
  EXPECT_NCCL(ncclRedOpDestroy(operation, ranks[0]));
  EXPECT_EQ(ncclRedOpDestroy(operation, ranks[0]), nccl::kInvalidArgument);
  EXPECT_EQ(ncclGroupEnd(), nccl::kInvalidArgument);
  ASSERT_NCCL(ncclRedOpCreatePreMulSum(&operation, &half, nccl::kFloat32,
                                       nccl::kScalarHostImmediate, ranks[0]));
  EXPECT_NCCL(ncclGroupStart());
  EXPECT_NCCL(ncclAllReduce(send, send, 4, nccl::kFloat32, operation, ranks[0], stream));
  EXPECT_NCCL(ncclRedOpDestroy(operation, ranks[0]));
  EXPECT_NCCL(ncclGroupEnd());
  const NcclCall used = Only("ncclAllReduce");
  EXPECT_EQ(used.operation, library().Calls("ncclRedOpCreatePreMulSum").at(1).operation);
  EXPECT_EQ(StateOf(ranks[0]), nccl::kSuccess);
  // Both end, also the one of the group that failed.
  EXPECT_TRUE(library().WaitForCalls("ncclRedOpDestroy", 2));
}

TEST_F(NcclCollectivesTest, OperationsOfNcclAreNotDestroyed) {
  for (int operation = -1; operation <= nccl::kReduceOps; ++operation)
    EXPECT_EQ(ncclRedOpDestroy(operation, ranks[0]), nccl::kInvalidArgument) << operation;
  int operation = 0;
  EXPECT_EQ(ncclRedOpDestroy(nccl::kReduceOps, nullptr), nccl::kInvalidArgument);
  EXPECT_EQ(ncclRedOpCreatePreMulSum(&operation, send, nccl::kInt32, nccl::kScalarDevice, nullptr),
            nccl::kInvalidArgument);
}

// --- Groups and captures.

TEST_F(NcclCollectivesTest, AGroupMayBeLarge) {
  constexpr std::size_t kCalls = 2000;
  EXPECT_NCCL(ncclGroupStart());
  for (std::size_t i = 0; i < kCalls; ++i)
    EXPECT_NCCL(ncclSend(send, i, nccl::kInt8, 1, ranks[0], stream));
  EXPECT_NCCL(ncclGroupEnd());
  Synchronize();
  const std::vector<NcclCall> calls = library().Calls("ncclSend");
  ASSERT_EQ(calls.size(), kCalls);
  for (std::size_t i = 0; i < kCalls; ++i) {
    EXPECT_EQ(calls[i].count, i);
    EXPECT_EQ(calls[i].group, calls[0].group);
  }
}

// The calls start when all their streams reach them, and all streams wait for their end.
TEST_F(NcclCollectivesTest, AGroupJoinsItsStreams) {
  const cudaStream_t second = NewStream();
  Hold(second);
  EXPECT_CUDA(Add(send, 1, 1, second));
  EXPECT_TRUE(WaitForWork(second, "add"));
  EXPECT_NCCL(ncclGroupStart());
  EXPECT_NCCL(ncclSend(send, 1, nccl::kInt32, 1, ranks[0], stream));
  EXPECT_NCCL(ncclRecv(receive, 1, nccl::kInt32, 1, ranks[0], second));
  EXPECT_NCCL(ncclGroupEnd());
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  Let(second);
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_CUDA(cudaStreamSynchronize(second));
  EXPECT_NE(Only("ncclSend").group, 0U);
  EXPECT_EQ(Only("ncclSend").group, Only("ncclRecv").group);
}

TEST_F(NcclCollectivesTest, ACapturedCallIsMadeAtEachLaunch) {
  int operation = 0;
  float half = 0.5F;
  ASSERT_NCCL(ncclRedOpCreatePreMulSum(&operation, &half, nccl::kFloat32,
                                       nccl::kScalarHostImmediate, ranks[0]));
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  EXPECT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  EXPECT_NCCL(ncclGroupStart());
  EXPECT_NCCL(ncclAllReduce(send, send, 4, nccl::kFloat32, operation, ranks[0], stream));
  // The graph keeps it.
  EXPECT_NCCL(ncclRedOpDestroy(operation, ranks[0]));
  EXPECT_NCCL(ncclGroupEnd());
  EXPECT_CUDA(cudaStreamEndCapture(stream, &graph));
  ASSERT_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  EXPECT_EQ(Submitted(), 0U);
  for (int launch = 0; launch < 2; ++launch) EXPECT_CUDA(cudaGraphLaunch(exec, stream));
  Synchronize();
  const std::vector<NcclCall> calls = library().Calls("ncclAllReduce");
  ASSERT_EQ(calls.size(), 2U);
  for (const NcclCall& call : calls) {
    EXPECT_EQ(call.count, 4U);
    EXPECT_EQ(call.operation, Only("ncclRedOpCreatePreMulSum").operation);
  }
  EXPECT_EQ(StateOf(ranks[0]), nccl::kSuccess);
  EXPECT_CUDA(cudaGraphExecDestroy(exec));
  EXPECT_CUDA(cudaGraphDestroy(graph));
}

// --- Failures.

// A failure in a stream is reported for the communicator.
TEST_F(NcclCollectivesTest, AFailureOfTheLibraryBelongsToTheCommunicator) {
  library().Refuse("ncclAllGather", nccl::kInternalError, "the test refuses");
  EXPECT_NCCL(ncclAllGather(send, receive, 1, nccl::kInt32, ranks[0], stream));
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(AwaitError(ranks[0]), nccl::kInternalError);
  EXPECT_STREQ(ncclGetLastError(ranks[0]), "the test refuses");
  EXPECT_EQ(ncclAllGather(send, receive, 1, nccl::kInt32, ranks[0], stream), nccl::kInternalError);
  EXPECT_EQ(StateOf(ranks[1]), nccl::kSuccess);
}

TEST_F(NcclCollectivesTest, ACallNeedsACommunicator) {
  EXPECT_EQ(ncclAllReduce(send, send, 1, nccl::kInt32, nccl::kSum, nullptr, stream),
            nccl::kInvalidArgument);
  EXPECT_EQ(ncclSend(send, 1, nccl::kInt32, 0, nullptr, stream), nccl::kInvalidArgument);
}

}  // namespace
}  // namespace cuspan
