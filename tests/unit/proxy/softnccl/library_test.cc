#include <memory>
#include <numeric>

#include "tests/unit/proxy/softnccl/library_harness.h"

namespace cuspan::softnccl {
namespace {

std::vector<int> From(int first, int count) {
  std::vector<int> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), first);
  return values;
}

TEST(Library, EachFunctionDoesWhatItsNameSays) {
  RunRanks(3, [](Rank& rank) {
    Handle* const communicator = rank.communicator();
    const int mine = 10 * rank.rank();
    const Integers all_reduce({mine, 1}), broadcast({mine, mine});
    const Integers gather_in({mine}), all_gather({0, 0, 0}), gather({0, 0, 0});
    const Integers reduce({mine, 1}), three(From(mine, 3)), scattered({0}), one({0}),
        exchanged({0, 0, 0});
    EXPECT_NCCL(ncclAllReduce(all_reduce.get(), all_reduce.get(), 2, kInts, nccl::kSum,
                              communicator, rank.stream()));
    EXPECT_NCCL(
        ncclBroadcast(broadcast.get(), broadcast.get(), 2, kInts, 1, communicator, rank.stream()));
    EXPECT_NCCL(
        ncclAllGather(gather_in.get(), all_gather.get(), 1, kInts, communicator, rank.stream()));
    EXPECT_NCCL(
        ncclGather(gather_in.get(), gather.get(), 1, kInts, 2, communicator, rank.stream()));
    EXPECT_NCCL(ncclReduce(reduce.get(), reduce.get(), 2, kInts, nccl::kMaximum, 0, communicator,
                           rank.stream()));
    EXPECT_NCCL(ncclReduceScatter(three.get(), scattered.get(), 1, kInts, nccl::kSum, communicator,
                                  rank.stream()));
    EXPECT_NCCL(ncclScatter(three.get(), one.get(), 1, kInts, 1, communicator, rank.stream()));
    EXPECT_NCCL(ncclAlltoAll(three.get(), exchanged.get(), 1, kInts, communicator, rank.stream()));
    rank.Wait();
    const int r = rank.rank();
    EXPECT_EQ(all_reduce.Read(), (std::vector{30, 3}));
    EXPECT_EQ(broadcast.Read(), (std::vector{10, 10}));
    EXPECT_EQ(all_gather.Read(), (std::vector{0, 10, 20}));
    EXPECT_EQ(gather.Read(), r == 2 ? (std::vector{0, 10, 20}) : (std::vector{0, 0, 0}));
    EXPECT_EQ(reduce.Read(), r == 0 ? (std::vector{20, 1}) : (std::vector{mine, 1}));
    EXPECT_EQ(scattered.Read(), (std::vector{30 + 3 * r}));
    EXPECT_EQ(one.Read(), (std::vector{10 + r}));
    EXPECT_EQ(exchanged.Read(), (std::vector{r, 10 + r, 20 + r}));
  });
}

TEST(Library, CallsAreWorkOfTheirStream) {
  RunRanks(2, [](Rank& rank) {
    const Integers values({1}), results({0});
    // Many calls, each using the result of the previous one, and a copy after them.
    for (int i = 0; i < 20; ++i)
      EXPECT_NCCL(ncclAllReduce(values.get(), values.get(), 1, kInts, nccl::kSum,
                                rank.communicator(), rank.stream()));
    ASSERT_CUDA(cuMemcpyDtoDAsync(reinterpret_cast<CUdeviceptr>(results.get()),
                                  reinterpret_cast<CUdeviceptr>(values.get()), sizeof(int),
                                  rank.stream()));
    rank.Wait();
    EXPECT_EQ(results.Read(), (std::vector{1 << 20}));
  });
}

TEST(Library, AGroupSendsAndReceivesAtOnce) {
  RunRanks(4, [](Rank& rank) {
    const Integers out(From(100 * rank.rank(), 4)), in({0, 0, 0, 0});
    EXPECT_NCCL(ncclGroupStart());
    for (int peer = 0; peer < 4; ++peer) {
      EXPECT_NCCL(ncclSend(out.get(peer), 1, kInts, peer, rank.communicator(), rank.stream()));
      EXPECT_NCCL(ncclRecv(in.get(peer), 1, kInts, peer, rank.communicator(), rank.stream()));
    }
    EXPECT_NCCL(ncclGroupEnd());
    rank.Wait();
    const int r = rank.rank();
    EXPECT_EQ(in.Read(), (std::vector{r, 100 + r, 200 + r, 300 + r}));
  });
}

TEST(Library, AGroupMayUseSeveralStreamsAndCollectives) {
  RunRanks(2, [](Rank& rank) {
    CUstream other = nullptr;
    ASSERT_CUDA(cuStreamCreateWithPriority(&other, CU_STREAM_NON_BLOCKING, 0));
    const Integers a({rank.rank() + 1}), b({rank.rank() + 5}), c({0});
    EXPECT_NCCL(ncclGroupStart());
    EXPECT_NCCL(ncclGroupStart());
    EXPECT_NCCL(ncclAllReduce(a.get(), a.get(), 1, kInts, nccl::kSum, rank.communicator(), other));
    EXPECT_NCCL(ncclGroupEnd());
    EXPECT_NCCL(ncclAllReduce(b.get(), b.get(), 1, kInts, nccl::kProduct, rank.communicator(),
                              rank.stream()));
    const int peer = 1 - rank.rank();
    EXPECT_NCCL(ncclRecv(c.get(), 1, kInts, peer, rank.communicator(), other));
    const Integers sent({77 + rank.rank()});
    EXPECT_NCCL(ncclSend(sent.get(), 1, kInts, peer, rank.communicator(), other));
    EXPECT_NCCL(ncclGroupEnd());
    rank.Wait();
    ASSERT_CUDA(cuStreamSynchronize(other));
    EXPECT_EQ(a.Read(), (std::vector{3}));
    EXPECT_EQ(b.Read(), (std::vector{30}));
    EXPECT_EQ(c.Read(), (std::vector{77 + peer}));
    ASSERT_CUDA(cuStreamDestroy(other));
  });
}

TEST(Library, OneThreadMayBeAllRanks) {
  ConfigureDevices();
  nccl::UniqueId id{};
  ASSERT_NCCL(ncclGetUniqueId(&id));
  constexpr int kRanks = 2;
  CUstream streams[kRanks] = {};
  Handle* communicators[kRanks] = {};
  std::vector<std::unique_ptr<Integers>> values;
  ASSERT_NCCL(ncclGroupStart());
  for (int rank = 0; rank < kRanks; ++rank) {
    UseDevice(rank);
    ASSERT_CUDA(cuStreamCreateWithPriority(&streams[rank], CU_STREAM_NON_BLOCKING, 0));
    values.push_back(std::make_unique<Integers>(std::vector{rank + 1}));
    ASSERT_NCCL(ncclCommInitRankConfig(&communicators[rank], kRanks, id, rank, nullptr));
  }
  ASSERT_NCCL(ncclGroupEnd());
  ASSERT_NCCL(ncclGroupStart());
  for (int rank = 0; rank < kRanks; ++rank)
    EXPECT_NCCL(ncclAllReduce(values[rank]->get(), values[rank]->get(), 1, kInts, nccl::kSum,
                              communicators[rank], streams[rank]));
  ASSERT_NCCL(ncclGroupEnd());
  for (int rank = 0; rank < kRanks; ++rank) {
    UseDevice(rank);
    ASSERT_CUDA(cuStreamSynchronize(streams[rank]));
    EXPECT_EQ(values[rank]->Read(), (std::vector{3}));
  }
  // Splits into one communicator per rank, and one of both ranks in reverse order. The current
  // context is on the last device.
  Handle *alone[kRanks] = {}, *reversed[kRanks] = {};
  ASSERT_NCCL(ncclGroupStart());
  for (int rank = 0; rank < kRanks; ++rank) {
    ASSERT_NCCL(ncclCommSplit(communicators[rank], rank, 0, &alone[rank], nullptr));
    ASSERT_NCCL(ncclCommSplit(communicators[rank], 0, -rank, &reversed[rank], nullptr));
  }
  ASSERT_NCCL(ncclGroupEnd());
  ASSERT_NCCL(ncclGroupStart());
  for (int rank = 0; rank < kRanks; ++rank)
    EXPECT_NCCL(ncclBroadcast(values[rank]->get(), values[rank]->get(), 1, kInts, 0, alone[rank],
                              streams[rank]));
  ASSERT_NCCL(ncclGroupEnd());
  for (int rank = 0; rank < kRanks; ++rank) {
    int number = -1;
    EXPECT_NCCL(ncclCommUserRank(reversed[rank], &number));
    EXPECT_EQ(number, kRanks - 1 - rank);
    EXPECT_NCCL(ncclCommDestroy(reversed[rank]));
    EXPECT_NCCL(ncclCommDestroy(alone[rank]));
  }
  for (Handle* const communicator : communicators) EXPECT_NCCL(ncclCommDestroy(communicator));
}

TEST(Library, SplitMakesOneForEachColour) {
  RunRanks(5, [](Rank& rank) {
    // Even and odd ranks are separated, in reverse order. The last rank is in none.
    const int color = rank.rank() == 4 ? nccl::kNoColor : rank.rank() % 2;
    Handle* part = nullptr;
    ASSERT_NCCL(ncclCommSplit(rank.communicator(), color, -rank.rank(), &part, nullptr));
    if (color == nccl::kNoColor) {
      EXPECT_EQ(part, nullptr);
      return;
    }
    int count = 0, number = 0;
    EXPECT_NCCL(ncclCommCount(part, &count));
    EXPECT_NCCL(ncclCommUserRank(part, &number));
    EXPECT_EQ(count, 2);
    EXPECT_EQ(number, rank.rank() < 2 ? 1 : 0);
    const Integers own({rank.rank()}), all({0, 0});
    EXPECT_NCCL(ncclAllGather(own.get(), all.get(), 1, kInts, part, rank.stream()));
    rank.Wait();
    EXPECT_EQ(all.Read(), (std::vector{2 + color, color}));
    EXPECT_NCCL(ncclCommDestroy(part));
  });
}

TEST(Library, ShrinkGoesOnWithoutSome) {
  RunRanks(4, [](Rank& rank) {
    if (rank.rank() == 1) return;
    int excluded = 1;
    Handle* rest = nullptr;
    ASSERT_NCCL(ncclCommShrink(rank.communicator(), &excluded, 1, &rest, nullptr, 0));
    const Integers own({rank.rank()}), all({0, 0, 0});
    EXPECT_NCCL(ncclAllGather(own.get(), all.get(), 1, kInts, rest, rank.stream()));
    rank.Wait();
    EXPECT_EQ(all.Read(), (std::vector{0, 2, 3}));
    EXPECT_NCCL(ncclCommDestroy(rest));
  });
}

TEST(Library, AFactorMultipliesWhatARankGives) {
  RunRanks(2, [](Rank& rank) {
    int factor = 3 + rank.rank(), op = 0, op_there = 0;
    const Integers factor_there({0});
    EXPECT_NCCL(ncclRedOpCreatePreMulSum(&op, &factor, kInts, nccl::kScalarHostImmediate,
                                         rank.communicator()));
    EXPECT_NCCL(ncclRedOpCreatePreMulSum(&op_there, factor_there.get(), kInts, nccl::kScalarDevice,
                                         rank.communicator()));
    EXPECT_GE(op, nccl::kReduceOps);
    factor = 0;  // Already read.
    const Integers values({10}), others({10});
    // The factor on the device is read in stream order.
    ASSERT_CUDA(cuMemsetD32Async(reinterpret_cast<CUdeviceptr>(factor_there.get()),
                                 static_cast<unsigned>(rank.rank() + 1), 1, rank.stream()));
    EXPECT_NCCL(ncclAllReduce(values.get(), values.get(), 1, kInts, op, rank.communicator(),
                              rank.stream()));
    EXPECT_NCCL(ncclAllReduce(others.get(), others.get(), 1, kInts, op_there, rank.communicator(),
                              rank.stream()));
    rank.Wait();
    EXPECT_EQ(values.Read(), (std::vector{70}));
    EXPECT_EQ(others.Read(), (std::vector{30}));
    EXPECT_NCCL(ncclRedOpDestroy(op, rank.communicator()));
    EXPECT_EQ(
        ncclAllReduce(values.get(), values.get(), 1, kInts, op, rank.communicator(), rank.stream()),
        nccl::kInvalidArgument);
  });
}

TEST(Library, LargeBuffers) {
  RunRanks(2, [](Rank& rank) {
    constexpr int kCount = 4 << 20;
    const Integers values(From(rank.rank(), kCount));
    EXPECT_NCCL(ncclAllReduce(values.get(), values.get(), kCount, kInts, nccl::kSum,
                              rank.communicator(), rank.stream()));
    rank.Wait();
    const std::vector<int> found = values.Read();
    for (int i = 0; i < kCount; ++i) ASSERT_EQ(found[i], 2 * i + 1);
  });
}

}  // namespace
}  // namespace cuspan::softnccl
