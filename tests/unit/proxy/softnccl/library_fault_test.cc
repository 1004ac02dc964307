// Tests errors, and their reporting to ranks.
#include <cstring>

#include "tests/unit/proxy/softnccl/library_harness.h"

namespace cuspan::softnccl {
namespace {

// Waits until the communicator reports a failure.
nccl::Result AwaitFailure(Handle* communicator) {
  nccl::Result error = nccl::kSuccess;
  while (error == nccl::kSuccess) {
    EXPECT_NCCL(ncclCommGetAsyncError(communicator, &error));
    std::this_thread::yield();
  }
  return error;
}

TEST(Faults, ARankThatIsGoneIsAnErrorOfAllOthers) {
  RunRanks(3, [](Rank& rank) {
    const Integers values({1});
    if (rank.rank() == 2) {
      EXPECT_NCCL(ncclCommAbort(rank.Release()));
      return;
    }
    EXPECT_NCCL(ncclAllReduce(values.get(), values.get(), 1, kInts, nccl::kSum, rank.communicator(),
                              rank.stream()));
    EXPECT_EQ(AwaitFailure(rank.communicator()), nccl::kRemoteError);
    EXPECT_NE(std::strstr(ncclGetLastError(rank.communicator()), "gone"), nullptr);
    rank.Wait();  // The stream continues.
    EXPECT_EQ(ncclAllReduce(values.get(), values.get(), 1, kInts, nccl::kSum, rank.communicator(),
                            rank.stream()),
              nccl::kRemoteError);
  });
}

TEST(Faults, AnAbortEndsWhatWaits) {
  RunRanks(2, [](Rank& rank) {
    const Integers values({1});
    // Rank 1 never calls.
    if (rank.rank() == 0) {
      EXPECT_NCCL(ncclAllReduce(values.get(), values.get(), 1, kInts, nccl::kSum,
                                rank.communicator(), rank.stream()));
      EXPECT_NCCL(ncclCommAbort(rank.Release()));
    }
    rank.Wait();
  });
}

TEST(Faults, WhoWaitsForRanksThatNeverComeCanAbort) {
  ConfigureDevices();
  nccl::UniqueId id{};
  ASSERT_NCCL(ncclGetUniqueId(&id));
  UseDevice(0);
  nccl::Config config;
  config.blocking = 0;
  Handle* communicator = nullptr;
  ASSERT_EQ(ncclCommInitRankConfig(&communicator, 2, id, 0, &config), nccl::kInProgress);
  nccl::Result error = nccl::kSuccess;
  EXPECT_NCCL(ncclCommGetAsyncError(communicator, &error));
  EXPECT_EQ(error, nccl::kInProgress);
  int count = 0;
  EXPECT_EQ(ncclCommCount(communicator, &count), nccl::kInProgress);
  Handle* part = nullptr;
  EXPECT_EQ(ncclCommSplit(communicator, 0, 0, &part, nullptr), nccl::kInvalidUsage);
  EXPECT_EQ(part, nullptr);
  EXPECT_NCCL(ncclCommAbort(communicator));
}

TEST(Faults, WithoutBlockingJoiningEndsLater) {
  ConfigureDevices();
  nccl::UniqueId id{};
  ASSERT_NCCL(ncclGetUniqueId(&id));
  UseDevice(0);
  nccl::Config config;
  config.blocking = 0;
  Handle* communicators[2] = {};
  for (int rank = 0; rank < 2; ++rank)
    ASSERT_EQ(ncclCommInitRankConfig(&communicators[rank], 2, id, rank, &config),
              nccl::kInProgress);
  for (Handle* const communicator : communicators) {
    nccl::Result error = nccl::kInProgress;
    while (error == nccl::kInProgress) {
      EXPECT_NCCL(ncclCommGetAsyncError(communicator, &error));
      std::this_thread::yield();
    }
    EXPECT_EQ(error, nccl::kSuccess);
  }
  for (Handle* const communicator : communicators) EXPECT_NCCL(ncclCommDestroy(communicator));
}

TEST(Faults, WrongArgumentsAreRefused) {
  RunRanks(1, [](Rank& rank) {
    const Integers values({1});
    Handle* const communicator = rank.communicator();
    void* const data = values.get();
    const auto all_reduce = [&](void* send, std::size_t count, int type, int op, Handle* handle) {
      return ncclAllReduce(send, data, count, type, op, handle, rank.stream());
    };
    EXPECT_EQ(all_reduce(data, 1, kInts, nccl::kSum, nullptr), nccl::kInvalidArgument);
    EXPECT_EQ(all_reduce(nullptr, 1, kInts, nccl::kSum, communicator), nccl::kInvalidArgument);
    EXPECT_EQ(all_reduce(data, 1, nccl::kDataTypes, nccl::kSum, communicator),
              nccl::kInvalidArgument);
    EXPECT_EQ(all_reduce(data, 1, -1, nccl::kSum, communicator), nccl::kInvalidArgument);
    EXPECT_EQ(all_reduce(data, 1, kInts, -1, communicator), nccl::kInvalidArgument);
    EXPECT_EQ(all_reduce(data, 1, kInts, nccl::kReduceOps, communicator), nccl::kInvalidArgument);
    EXPECT_EQ(all_reduce(data, SIZE_MAX, kInts, nccl::kSum, communicator), nccl::kInvalidArgument);
    for (const int root : {-1, 1}) {
      EXPECT_EQ(ncclBroadcast(data, data, 1, kInts, root, communicator, rank.stream()),
                nccl::kInvalidArgument);
      EXPECT_EQ(ncclSend(data, 1, kInts, root, communicator, rank.stream()),
                nccl::kInvalidArgument);
    }
    EXPECT_EQ(ncclGroupEnd(), nccl::kInvalidUsage);
    EXPECT_EQ(ncclRedOpDestroy(nccl::kReduceOps, communicator), nccl::kInvalidArgument);
    // These errors have no effect on the communicator.
    EXPECT_NCCL(all_reduce(data, 1, kInts, nccl::kSum, communicator));
    rank.Wait();
    EXPECT_EQ(values.Read(), (std::vector{1}));
  });
}

TEST(Faults, ARefusedCallFailsItsGroup) {
  RunRanks(1, [](Rank& rank) {
    const Integers values({1});
    EXPECT_NCCL(ncclGroupStart());
    EXPECT_NCCL(ncclAllReduce(values.get(), values.get(), 1, kInts, nccl::kSum, rank.communicator(),
                              rank.stream()));
    EXPECT_EQ(
        ncclAllReduce(values.get(), values.get(), 1, kInts, nccl::kSum, nullptr, rank.stream()),
        nccl::kInvalidArgument);
    EXPECT_EQ(ncclGroupEnd(), nccl::kInvalidArgument);
    // The next group is not affected.
    EXPECT_NCCL(ncclGroupStart());
    EXPECT_NCCL(ncclGroupEnd());
  });
}

TEST(Faults, WhatTheDriverRefusesIsAnErrorOfAllRanks) {
  RunRanks(2, [](Rank& rank) {
    const Integers values({1});
    nccl::Result expected = nccl::kRemoteError;
    if (rank.rank() == 0) {
      void* const nowhere = reinterpret_cast<void*>(std::uintptr_t{0x10});
      expected = nccl::kUnhandledCudaError;
      EXPECT_EQ(
          ncclAllReduce(nowhere, nowhere, 1, kInts, nccl::kSum, rank.communicator(), rank.stream()),
          expected);
    } else {
      const nccl::Result result = ncclAllReduce(values.get(), values.get(), 1, kInts, nccl::kSum,
                                                rank.communicator(), rank.stream());
      EXPECT_EQ(result, nccl::kSuccess);
    }
    EXPECT_EQ(AwaitFailure(rank.communicator()), expected);
    rank.Wait();
  });
}

TEST(Faults, AnAbortIsHeardOfThoughItsOwnStreamIsElsewhere) {
  RunRanks(2, [](Rank& rank) {
    const Integers values({1}), word({0});
    if (rank.rank() == 1) {
      EXPECT_NCCL(ncclAllReduce(values.get(), values.get(), 1, kInts, nccl::kSum,
                                rank.communicator(), rank.stream()));
      EXPECT_EQ(AwaitFailure(rank.communicator()), nccl::kRemoteError);
      rank.Wait();
      return;
    }
    // The stream waits for a value written only after the communicator is aborted.
    CUstreamBatchMemOpParams wait = {};
    wait.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    wait.waitValue.address = reinterpret_cast<CUdeviceptr>(word.get());
    wait.waitValue.value = 1;
    ASSERT_CUDA(cuStreamBatchMemOp(rank.stream(), 1, &wait, 0));
    EXPECT_NCCL(ncclAllReduce(values.get(), values.get(), 1, kInts, nccl::kSum, rank.communicator(),
                              rank.stream()));
    EXPECT_NCCL(ncclCommAbort(rank.Release()));
    CUstream other = nullptr;
    ASSERT_CUDA(cuStreamCreateWithPriority(&other, CU_STREAM_NON_BLOCKING, 0));
    ASSERT_CUDA(cuMemsetD32Async(reinterpret_cast<CUdeviceptr>(word.get()), 1, 1, other));
    rank.Wait();
    ASSERT_CUDA(cuStreamDestroy(other));
  });
}

TEST(Faults, AGroupThatFailsLeavesNoCommunicator) {
  ConfigureDevices();
  UseDevice(0);
  nccl::UniqueId id{};
  ASSERT_NCCL(ncclGetUniqueId(&id));
  Handle* communicator = nullptr;
  ASSERT_NCCL(ncclGroupStart());
  // The other rank never joins.
  ASSERT_NCCL(ncclCommInitRankConfig(&communicator, 2, id, 0, nullptr));
  EXPECT_EQ(ncclCommInitRankConfig(&communicator, 2, id, 2, nullptr), nccl::kInvalidArgument);
  EXPECT_EQ(ncclGroupEnd(), nccl::kInvalidArgument);
  EXPECT_EQ(communicator, nullptr);
  EXPECT_STREQ(ncclGetLastError(nullptr), "no rank 2 in a communicator of 2");
}

TEST(Faults, OfTwoRanksThatAreTheSameTheGroupFails) {
  ConfigureDevices();
  UseDevice(0);
  nccl::UniqueId id{};
  ASSERT_NCCL(ncclGetUniqueId(&id));
  Handle* communicators[2] = {};
  nccl::Config config;
  config.blocking = 0;
  ASSERT_EQ(ncclCommInitRankConfig(&communicators[0], 2, id, 0, &config), nccl::kInProgress);
  ASSERT_EQ(ncclCommInitRankConfig(&communicators[1], 2, id, 0, &config), nccl::kInProgress);
  // One of them fails; the other waits for the missing rank.
  nccl::Result errors[2] = {nccl::kInProgress, nccl::kInProgress};
  while (errors[0] == nccl::kInProgress && errors[1] == nccl::kInProgress) {
    for (int i = 0; i < 2; ++i) EXPECT_NCCL(ncclCommGetAsyncError(communicators[i], &errors[i]));
    std::this_thread::yield();
  }
  const int refused = errors[0] == nccl::kInProgress ? 1 : 0;
  EXPECT_EQ(errors[refused], nccl::kInvalidUsage);
  EXPECT_STREQ(ncclGetLastError(communicators[refused]),
               "two ranks have the number 0 and the same id");
  for (Handle* const communicator : communicators) EXPECT_NCCL(ncclCommAbort(communicator));
}

TEST(Faults, AGroupAfterTheEndOfItsCommunicatorIsRefused) {
  RunRanks(1, [](Rank& rank) {
    const Integers values({1});
    EXPECT_NCCL(ncclGroupStart());
    EXPECT_NCCL(ncclAllReduce(values.get(), values.get(), 1, kInts, nccl::kSum, rank.communicator(),
                              rank.stream()));
    EXPECT_NCCL(ncclCommDestroy(rank.Release()));
    EXPECT_EQ(ncclGroupEnd(), nccl::kInvalidUsage);
    rank.Wait();
  });
}

TEST(Faults, CommunicatorsThatCanNotBe) {
  ConfigureDevices();
  nccl::UniqueId id{};
  ASSERT_NCCL(ncclGetUniqueId(&id));
  Handle* communicator = nullptr;
  for (const auto& [size, rank] : {std::pair{0, 0}, {1, 1}, {2, -1}, {-1, 0}, {1 << 30, 0}})
    EXPECT_EQ(ncclCommInitRankConfig(&communicator, size, id, rank, nullptr),
              nccl::kInvalidArgument);
  nccl::Config config;
  config.magic = 0;
  EXPECT_EQ(ncclCommInitRankConfig(&communicator, 1, id, 0, &config), nccl::kInvalidArgument);
  std::thread without_context([&] {
    EXPECT_EQ(ncclCommInitRankConfig(&communicator, 1, id, 0, nullptr), nccl::kUnhandledCudaError);
    EXPECT_STREQ(ncclGetLastError(nullptr), "the calling thread has no CUDA context");
  });
  without_context.join();
}

}  // namespace
}  // namespace cuspan::softnccl
