// Nonblocking communicators of NCCL, ends of communicators, and lost devices.
#include <filesystem>

#include "tests/unit/interpose/loopback/nccl_fixture.h"

namespace cuspan {
namespace {

using nccl::Config;
using proxy::NcclCall;

class NcclEndsTest : public NcclFixture {
 protected:
  // A nonblocking communicator with the current device only, not created yet.
  static ncclComm* NewUnready() {
    library().Hold("ncclCommInitRankConfig");
    Config config = Nonblocking();
    ncclComm* made = nullptr;
    EXPECT_EQ(ncclCommInitRankConfig(&made, 1, NewId(), 0, &config), nccl::kInProgress);
    EXPECT_TRUE(library().WaitForCalls("ncclCommInitRankConfig"));
    return made;
  }
  // The same, created.
  static ncclComm* NewNonblocking() {
    Config config = Nonblocking();
    ncclComm* made = nullptr;
    const int result = ncclCommInitRankConfig(&made, 1, NewId(), 0, &config);
    EXPECT_THAT(result, testing::AnyOf(nccl::kSuccess, nccl::kInProgress));
    EXPECT_EQ(AwaitState(made), nccl::kSuccess);
    return made;
  }
};

TEST_F(NcclEndsTest, ANonblockingCreationIsPolled) {
  ncclComm* const one = NewUnready();
  EXPECT_EQ(library().Calls("ncclCommInitRankConfig").at(0).config.blocking, 0);
  ASSERT_NE(one, nullptr);
  EXPECT_EQ(StateOf(one), nccl::kInProgress);
  library().Let("ncclCommInitRankConfig");
  EXPECT_EQ(AwaitState(one), nccl::kSuccess);
  int count = 0;
  EXPECT_NCCL(ncclCommCount(one, &count));
  EXPECT_EQ(count, 1);
  EXPECT_NCCL(ncclCommDestroy(one));
}

// No other function may use it before.
TEST_F(NcclEndsTest, AnUnreadyCommunicatorIsRefused) {
  ncclComm* const one = NewUnready();
  ncclComm* part = nullptr;
  std::uint32_t* const words = NewWords(1);
  int value = 0;
  float factor = 0.5F;
  for (const auto query : {ncclCommCount, ncclCommUserRank, ncclCommCuDevice})
    EXPECT_EQ(query(one, &value), nccl::kInvalidArgument);
  EXPECT_EQ(ncclAllReduce(words, words, 1, nccl::kInt32, nccl::kSum, one, nullptr),
            nccl::kInvalidArgument);
  EXPECT_EQ(ncclBroadcast(words, words, 1, nccl::kInt32, 0, one, nullptr), nccl::kInvalidArgument);
  EXPECT_EQ(
      ncclRedOpCreatePreMulSum(&value, &factor, nccl::kFloat32, nccl::kScalarHostImmediate, one),
      nccl::kInvalidArgument);
  EXPECT_EQ(ncclCommSplit(one, 0, 0, &part, nullptr), nccl::kInvalidArgument);
  EXPECT_EQ(ncclCommFinalize(one), nccl::kInvalidArgument);
  EXPECT_NCCL(ncclCommAbort(one));
  library().Let("ncclCommInitRankConfig");
  EXPECT_TRUE(library().WaitForCommunicators(0));
}

TEST_F(NcclEndsTest, AGroupOfNonblockingCreationsDoesNotWait) {
  library().Hold("ncclCommInitRankConfig");
  Config config = Nonblocking();
  ncclComm* ranks[2] = {};
  const nccl::UniqueId id = NewId();
  EXPECT_NCCL(ncclGroupStart());
  for (const int rank : {0, 1}) {
    EXPECT_CUDA(cudaSetDevice(rank));
    EXPECT_THAT(ncclCommInitRankConfig(&ranks[rank], 2, id, rank, &config),
                testing::AnyOf(nccl::kSuccess, nccl::kInProgress));
  }
  EXPECT_EQ(ncclGroupEnd(), nccl::kInProgress);
  for (ncclComm* const rank : ranks) EXPECT_EQ(StateOf(rank), nccl::kInProgress);
  library().Let("ncclCommInitRankConfig");
  for (ncclComm* const rank : ranks) EXPECT_EQ(AwaitState(rank), nccl::kSuccess);
  Destroy({ranks[0], ranks[1]});
}

TEST_F(NcclEndsTest, AFailedNonblockingCreationIsReported) {
  library().Refuse("ncclCommInitRankConfig", nccl::kSystemError, "no memory");
  Config config = Nonblocking();
  ncclComm* made = nullptr;
  const int result = ncclCommInitRankConfig(&made, 1, NewId(), 0, &config);
  EXPECT_THAT(result, testing::AnyOf(nccl::kInProgress, nccl::kSystemError));
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(AwaitState(made), nccl::kSystemError);
  EXPECT_NCCL(ncclCommAbort(made));
}

// Programs poll the communicator that is split. The part exists when it is ready again.
TEST_F(NcclEndsTest, ANonblockingSplitIsPolledAtTheWhole) {
  ncclComm* const whole = NewNonblocking();
  ncclComm* part = nullptr;
  library().Hold("ncclCommSplit");
  EXPECT_THAT(ncclCommSplit(whole, 0, 0, &part, nullptr),
              testing::AnyOf(nccl::kSuccess, nccl::kInProgress));
  EXPECT_EQ(StateOf(whole), nccl::kInProgress);
  library().Let("ncclCommSplit");
  EXPECT_EQ(AwaitState(whole), nccl::kSuccess);
  ASSERT_NE(part, nullptr);
  int count = 0;
  EXPECT_NCCL(ncclCommCount(part, &count));
  EXPECT_EQ(count, 1);
  Destroy({part, whole});
}

// Inside a group nothing is in progress yet.
TEST_F(NcclEndsTest, AGroupMaySplitANonblockingCommunicatorTwice) {
  ncclComm* const whole = NewNonblocking();
  std::uint32_t* const words = NewWords(1);
  ncclComm* parts[2] = {};
  EXPECT_NCCL(ncclGroupStart());
  for (ncclComm*& part : parts)
    EXPECT_THAT(ncclCommSplit(whole, 0, 0, &part, nullptr),
                testing::AnyOf(nccl::kSuccess, nccl::kInProgress));
  EXPECT_THAT(ncclAllReduce(words, words, 1, nccl::kInt32, nccl::kSum, whole, nullptr),
              testing::AnyOf(nccl::kSuccess, nccl::kInProgress));
  EXPECT_EQ(ncclGroupEnd(), nccl::kInProgress);
  EXPECT_EQ(AwaitState(whole), nccl::kSuccess);
  for (ncclComm* const part : parts) EXPECT_EQ(AwaitState(part), nccl::kSuccess);
  Destroy({parts[0], parts[1], whole});
}

TEST_F(NcclEndsTest, APartAbortedInItsGroupLeavesTheWhole) {
  ncclComm* const whole = NewNonblocking();
  ncclComm* part = nullptr;
  EXPECT_NCCL(ncclGroupStart());
  EXPECT_THAT(ncclCommSplit(whole, 0, 0, &part, nullptr),
              testing::AnyOf(nccl::kSuccess, nccl::kInProgress));
  ASSERT_NE(part, nullptr);
  EXPECT_NCCL(ncclCommAbort(part));
  ncclGroupEnd();
  EXPECT_EQ(AwaitState(whole), nccl::kSuccess);
  Destroy({whole});
}

TEST_F(NcclEndsTest, AFailedNonblockingSplitIsAnErrorOfTheWhole) {
  ncclComm* const whole = NewNonblocking();
  ncclComm* part = nullptr;
  library().Refuse("ncclCommSplit", nccl::kSystemError, "no memory");
  EXPECT_THAT(ncclCommSplit(whole, 0, 0, &part, nullptr),
              testing::AnyOf(nccl::kSuccess, nccl::kInProgress, nccl::kSystemError));
  EXPECT_EQ(AwaitState(whole), nccl::kSystemError);
  EXPECT_NCCL(ncclCommAbort(part));
  EXPECT_NCCL(ncclCommAbort(whole));
}

// An abort while the whole waits for other ranks ends the part, too.
TEST_F(NcclEndsTest, AnAbortDuringASplitEndsBoth) {
  ncclComm* const whole = NewNonblocking();
  ncclComm* part = nullptr;
  library().Hold("ncclCommSplit");
  EXPECT_THAT(ncclCommSplit(whole, 0, 0, &part, nullptr),
              testing::AnyOf(nccl::kSuccess, nccl::kInProgress));
  EXPECT_TRUE(library().WaitForCalls("ncclCommSplit"));
  EXPECT_NCCL(ncclCommAbort(part));
  EXPECT_NCCL(ncclCommAbort(whole));
  library().Let("ncclCommSplit");
}

// --- Ends.

TEST_F(NcclEndsTest, AFinalizedCommunicatorIsDestroyed) {
  ncclComm* const one = NewAlone();
  EXPECT_NCCL(ncclCommFinalize(one));
  EXPECT_NCCL(ncclCommDestroy(one));
  EXPECT_TRUE(library().WaitForCommunicators(0));
  EXPECT_EQ(library().Calls("ncclCommFinalize").size(), 1U);
  EXPECT_EQ(library().Calls("ncclCommDestroy").size(), 1U);
  EXPECT_EQ(library().Calls("ncclCommAbort").size(), 0U);
}

TEST_F(NcclEndsTest, AFinalizeOfABlockingCommunicatorLeavesNothingInProgress) {
  ncclComm* const one = NewAlone();
  library().Hold("ncclCommFinalize");
  EXPECT_NCCL(ncclCommFinalize(one));
  EXPECT_EQ(StateOf(one), nccl::kSuccess);
  library().Let("ncclCommFinalize");
  EXPECT_NCCL(ncclCommDestroy(one));
}

TEST_F(NcclEndsTest, ANonblockingFinalizeIsPolled) {
  ncclComm* const one = NewNonblocking();
  library().Hold("ncclCommFinalize");
  EXPECT_EQ(ncclCommFinalize(one), nccl::kInProgress);
  EXPECT_EQ(StateOf(one), nccl::kInProgress);
  EXPECT_TRUE(library().WaitForCalls("ncclCommFinalize"));
  library().Let("ncclCommFinalize");
  EXPECT_EQ(AwaitState(one), nccl::kSuccess);
  EXPECT_NCCL(ncclCommDestroy(one));
}

TEST_F(NcclEndsTest, ACommunicatorIsFinalizedOnce) {
  ncclComm* const one = NewAlone();
  EXPECT_NCCL(ncclCommFinalize(one));
  EXPECT_EQ(ncclCommFinalize(one), nccl::kInvalidArgument);
  EXPECT_NCCL(ncclCommDestroy(one));
  EXPECT_TRUE(library().WaitForCommunicators(0));
  EXPECT_EQ(library().Calls("ncclCommFinalize").size(), 1U);
}

TEST_F(NcclEndsTest, ThereMayBeNothingToEnd) {
  EXPECT_NCCL(ncclCommFinalize(nullptr));
  EXPECT_NCCL(ncclCommDestroy(nullptr));
  EXPECT_NCCL(ncclCommAbort(nullptr));
  EXPECT_NCCL(ncclCommRevoke(nullptr, 0));
}

TEST_F(NcclEndsTest, AbortEndsWithoutTheOthers) {
  const std::vector<ncclComm*> ranks = NewOnAll();
  EXPECT_NCCL(ncclCommAbort(ranks[1]));
  EXPECT_TRUE(library().WaitForCalls("ncclCommAbort"));
  EXPECT_EQ(library().Calls("ncclCommAbort").at(0).rank, 1);
  EXPECT_NCCL(ncclCommAbort(ranks[0]));
  EXPECT_TRUE(library().WaitForCommunicators(0));
}

// The other rank never joins.
TEST_F(NcclEndsTest, AbortEndsTheWaitForOtherRanks) {
  Config config = Nonblocking();
  ncclComm* one = nullptr;
  EXPECT_EQ(ncclCommInitRankConfig(&one, 2, NewId(), 0, &config), nccl::kInProgress);
  EXPECT_EQ(StateOf(one), nccl::kInProgress);
  EXPECT_NCCL(ncclCommAbort(one));
  EXPECT_EQ(library().Calls("ncclCommInitRankConfig").size(), 0U);
}

TEST_F(NcclEndsTest, AnEndedCommunicatorIsRefused) {
  std::uint32_t* const words = NewWords(1);
  ncclComm* part = nullptr;
  int value = 0;
  const auto expect_refused = [&](ncclComm* ended) {
    EXPECT_EQ(ncclAllReduce(words, words, 1, nccl::kInt32, nccl::kSum, ended, nullptr),
              nccl::kInvalidArgument);
    EXPECT_EQ(ncclCommSplit(ended, 0, 0, &part, nullptr), nccl::kInvalidArgument);
    EXPECT_EQ(ncclCommCount(ended, &value), nccl::kInvalidArgument);
    EXPECT_EQ(ncclCommGetAsyncError(ended, &value), nccl::kInvalidArgument);
    EXPECT_EQ(ncclCommFinalize(ended), nccl::kInvalidArgument);
    EXPECT_EQ(ncclCommDestroy(ended), nccl::kInvalidArgument);
    EXPECT_EQ(ncclCommAbort(ended), nccl::kInvalidArgument);
  };
  ncclComm* const destroyed = NewAlone();
  EXPECT_NCCL(ncclCommDestroy(destroyed));
  expect_refused(destroyed);
  ncclComm* const aborted = NewAlone();
  EXPECT_NCCL(ncclCommAbort(aborted));
  expect_refused(aborted);
}

// Work of a destroyed communicator is complete before NCCL destroys it.
TEST_F(NcclEndsTest, DestroyFollowsTheCalls) {
  ncclComm* const one = NewAlone();
  std::uint32_t* const words = NewWords(1);
  for (int i = 0; i < 10; ++i)
    EXPECT_NCCL(ncclAllReduce(words, words, 1, nccl::kInt32, nccl::kSum, one, nullptr));
  EXPECT_NCCL(ncclCommDestroy(one));
  EXPECT_TRUE(library().WaitForCalls("ncclCommDestroy"));
  const std::vector<NcclCall> calls = library().Calls();
  ASSERT_FALSE(calls.empty());
  EXPECT_EQ(calls.back().function, "ncclCommDestroy");
  EXPECT_EQ(library().Calls("ncclAllReduce").size(), 10U);
}

TEST_F(NcclEndsTest, ARevokedCommunicatorIsFinal) {
  ncclComm* const one = NewAlone();
  EXPECT_EQ(ncclCommRevoke(one, 1), nccl::kInvalidArgument);
  EXPECT_NCCL(ncclCommRevoke(one, 0));
  EXPECT_EQ(library().Calls("ncclCommRevoke").size(), 1U);
  // It is neither revoked nor finalized again.
  EXPECT_EQ(ncclCommRevoke(one, 0), nccl::kInvalidArgument);
  EXPECT_EQ(ncclCommFinalize(one), nccl::kInvalidArgument);
  std::uint32_t* const words = NewWords(1);
  EXPECT_EQ(ncclAllReduce(words, words, 1, nccl::kInt32, nccl::kSum, one, nullptr),
            nccl::kInvalidUsage);
  EXPECT_NCCL(ncclCommDestroy(one));
}

// --- Failures.

TEST_F(NcclEndsTest, AFailureOfTheNetworkIsReported) {
  ncclComm* const one = NewAlone();
  EXPECT_EQ(StateOf(one), nccl::kSuccess);
  library().Fail(nccl::kRemoteError);
  EXPECT_EQ(AwaitError(one), nccl::kRemoteError);
  std::uint32_t* const words = NewWords(1);
  EXPECT_EQ(ncclAllReduce(words, words, 1, nccl::kInt32, nccl::kSum, one, nullptr),
            nccl::kRemoteError);
  EXPECT_NCCL(ncclCommAbort(one));
}

TEST_F(NcclEndsTest, ALostDeviceIsReportedToAllRanks) {
  const std::vector<ncclComm*> ranks = NewOnAll();
  std::uint32_t* const words = NewWords(1);
  LoseProxy(1);
  EXPECT_EQ(AwaitError(ranks[0]), nccl::kRemoteError);
  EXPECT_EQ(ncclAllReduce(words, words, 1, nccl::kInt32, nccl::kSum, ranks[0], nullptr),
            nccl::kRemoteError);
  EXPECT_THAT(ncclAllReduce(words, words, 1, nccl::kInt32, nccl::kSum, ranks[1], nullptr),
              testing::AnyOf(nccl::kRemoteError, nccl::kSystemError));
  ncclComm* part = nullptr;
  for (ncclComm* const rank : ranks)
    EXPECT_THAT(ncclCommSplit(rank, 0, 0, &part, nullptr),
                testing::AnyOf(nccl::kRemoteError, nccl::kSystemError));
  // The error does not affect other communicators.
  ncclComm* const other = NewAlone();
  EXPECT_NCCL(ncclAllReduce(words, words, 1, nccl::kInt32, nccl::kSum, other, nullptr));
  EXPECT_CUDA(cudaDeviceSynchronize());
  EXPECT_NCCL(ncclCommAbort(ranks[0]));
  EXPECT_NCCL(ncclCommAbort(ranks[1]));
  EXPECT_NCCL(ncclCommDestroy(other));
}

TEST_F(NcclEndsTest, TheLossOfADeviceEndsTheWaitForOtherRanks) {
  EXPECT_CUDA(cudaSetDevice(1));
  const nccl::UniqueId id = NewId();
  ncclComm* one = nullptr;
  std::thread joining([&] {
    EXPECT_CUDA(cudaSetDevice(1));
    EXPECT_THAT(ncclCommInitRank(&one, 2, id, 0),
                testing::AnyOf(nccl::kRemoteError, nccl::kSystemError));
    EXPECT_EQ(one, nullptr);
  });
  LoseProxy(1);
  joining.join();
}

// --- Growth.

// Number of open files and threads of the process.
struct Resources {
  std::size_t files = Entries("fd");
  std::size_t threads = Entries("task");

  static std::size_t Entries(const char* folder) {
    const std::filesystem::directory_iterator entries(std::string("/proc/self/") + folder);
    return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
  }
  // Waits until there are not more than these; false after a time-out. Threads of the proxies end
  // after the program's last call.
  bool WaitForReturn() const {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < limit) {
      const Resources now;
      if (now.files <= files && now.threads <= threads) return true;
      std::this_thread::yield();
    }
    return false;
  }
};

TEST_F(NcclEndsTest, DestroyedPartsLeaveNothing) {
  ncclComm* const whole = NewAlone();
  const Resources before;
  constexpr int kRounds = 10'000;
  for (int round = 0; round < kRounds; ++round) {
    ncclComm* part = nullptr;
    ASSERT_NCCL(ncclCommSplit(whole, round, 0, &part, nullptr));
    ASSERT_NCCL(ncclCommDestroy(part));
  }
  EXPECT_TRUE(library().WaitForCommunicators(1));
  EXPECT_EQ(session().communicators().count(), 1U);
  EXPECT_TRUE(before.WaitForReturn());
  EXPECT_NCCL(ncclCommDestroy(whole));
}

// Each communicator has its own id, whose proxy watches the ranks.
TEST_F(NcclEndsTest, EndedCommunicatorsLeaveNothing) {
  ncclComm* const first = NewAlone();
  const Resources before;
  Config nonblocking = Nonblocking();
  Config wrong;
  wrong.magic = 0;
  for (int round = 0; round < 500; ++round) {
    ncclComm* one = NewAlone();
    ASSERT_NCCL(ncclCommFinalize(one));
    ASSERT_NCCL(ncclCommDestroy(one));
    ASSERT_NCCL(ncclCommAbort(NewAlone()));
    ASSERT_EQ(ncclCommInitRankConfig(&one, 2, NewId(), round % 2, &nonblocking), nccl::kInProgress);
    ASSERT_NCCL(ncclCommAbort(one));
    ASSERT_EQ(ncclCommSplit(first, 0, 0, &one, &wrong), nccl::kInvalidArgument);
    ASSERT_NCCL(ncclCommSplit(first, nccl::kNoColor, 0, &one, nullptr));
  }
  EXPECT_TRUE(library().WaitForCommunicators(1));
  EXPECT_EQ(session().communicators().count(), 1U);
  EXPECT_TRUE(before.WaitForReturn());
  EXPECT_NCCL(ncclCommDestroy(first));
}

}  // namespace
}  // namespace cuspan
