// What goes wrong, and how a rank hears of it.
#include <cstring>

#include "tests/unit/proxy/softnccl/library_harness.h"

namespace cuspan::softnccl {
namespace {

// Until the communicator tells of a failure.
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
    rank.Wait();  // The stream goes on.
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
  nccl::Config config{sizeof(config), nccl::kConfigMagic, nccl::VersionCode(2, 28, 9), 0};
  Handle* communicator = nullptr;
  ASSERT_EQ(ncclCommInitRankConfig(&communicator, 2, id, 0, &config), nccl::kInProgress);
  nccl::Result error = nccl::kSuccess;
  EXPECT_NCCL(ncclCommGetAsyncError(communicator, &error));
  EXPECT_EQ(error, nccl::kInProgress);
  EXPECT_NCCL(ncclCommAbort(communicator));
}

TEST(Faults, WithoutBlockingJoiningEndsLater) {
  ConfigureDevices();
  nccl::UniqueId id{};
  ASSERT_NCCL(ncclGetUniqueId(&id));
  UseDevice(0);
  nccl::Config config{sizeof(config), nccl::kConfigMagic, nccl::VersionCode(2, 28, 9), 0};
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
    // Nothing of that harmed it.
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
    // The next group knows nothing of it.
    EXPECT_NCCL(ncclGroupStart());
    EXPECT_NCCL(ncclGroupEnd());
  });
}

TEST(Faults, WhatTheDriverRefusesIsSaid) {
  RunRanks(1, [](Rank& rank) {
    void* const nowhere = reinterpret_cast<void*>(std::uintptr_t{0x10});
    EXPECT_EQ(
        ncclAllReduce(nowhere, nowhere, 1, kInts, nccl::kSum, rank.communicator(), rank.stream()),
        nccl::kUnhandledCudaError);
    nccl::Result error = nccl::kSuccess;
    EXPECT_NCCL(ncclCommGetAsyncError(rank.communicator(), &error));
    EXPECT_EQ(error, nccl::kUnhandledCudaError);
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
  nccl::Config config{};
  EXPECT_EQ(ncclCommInitRankConfig(&communicator, 1, id, 0, &config), nccl::kInvalidArgument);
  std::thread without_context([&] {
    EXPECT_EQ(ncclCommInitRankConfig(&communicator, 1, id, 0, nullptr), nccl::kUnhandledCudaError);
    EXPECT_STREQ(ncclGetLastError(nullptr), "the calling thread has no CUDA context");
  });
  without_context.join();
}

}  // namespace
}  // namespace cuspan::softnccl
