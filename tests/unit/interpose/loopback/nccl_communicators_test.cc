// NCCL's communicators: creation, configuration, queries and splits.
#include <limits>

#include "tests/unit/interpose/loopback/nccl_fixture.h"

namespace cuspan {
namespace {

using nccl::Config;
using nccl::UniqueId;
using proxy::NcclCall;

// No communicator exists at the end of a test: also failed calls leave none.
class NcclCommunicatorsTest : public NcclFixture {
 protected:
  ~NcclCommunicatorsTest() override { EXPECT_TRUE(library().WaitForCommunicators(0)); }

  static void ExpectRank(ncclComm* communicator, int size, int rank, int device) {
    int value = -1;
    EXPECT_NCCL(ncclCommCount(communicator, &value));
    EXPECT_EQ(value, size);
    EXPECT_NCCL(ncclCommUserRank(communicator, &value));
    EXPECT_EQ(value, rank);
    EXPECT_NCCL(ncclCommCuDevice(communicator, &value));
    EXPECT_EQ(value, device);
  }
  // Creates a communicator with this configuration. Returns the configuration of the library.
  static Config Given(Config config) {
    ncclComm* const one = NewAlone(&config);
    EXPECT_NCCL(ncclCommDestroy(one));
    const std::vector<NcclCall> calls = library().Calls("ncclCommInitRankConfig");
    EXPECT_FALSE(calls.empty());
    if (calls.empty()) return {};
    EXPECT_TRUE(calls.back().configured);
    return calls.back().config;
  }
};

TEST_F(NcclCommunicatorsTest, AllDevicesHaveOneRankEach) {
  EXPECT_CUDA(cudaSetDevice(1));
  const std::vector<ncclComm*> ranks = NewOnAll();
  for (int rank = 0; rank < kDevices; ++rank)
    ExpectRank(ranks[static_cast<std::size_t>(rank)], kDevices, rank, rank);
  // The current device is as before.
  int device = -1;
  EXPECT_CUDA(cudaGetDevice(&device));
  EXPECT_EQ(device, 1);
  Destroy(ranks);
}

TEST_F(NcclCommunicatorsTest, ARankIsAtItsPositionInTheListOfDevices) {
  constexpr int kOrder[] = {1, 0};
  ncclComm* ranks[2] = {};
  ASSERT_NCCL(ncclCommInitAll(ranks, 2, kOrder));
  ExpectRank(ranks[0], 2, 0, 1);
  ExpectRank(ranks[1], 2, 1, 0);
  Destroy({ranks[0], ranks[1]});
  ASSERT_NCCL(ncclCommInitAll(ranks, 1, kOrder));
  ExpectRank(ranks[0], 1, 0, 1);
  Destroy({ranks[0]});
}

TEST_F(NcclCommunicatorsTest, InvalidListsOfDevicesAreRefused) {
  ncclComm* ranks[3] = {};
  EXPECT_EQ(ncclCommInitAll(nullptr, 2, nullptr), nccl::kInvalidArgument);
  EXPECT_EQ(ncclCommInitAll(ranks, -1, nullptr), nccl::kInvalidArgument);
  EXPECT_NE(ncclCommInitAll(ranks, kDevices + 1, nullptr), nccl::kSuccess);
  for (const int wrong : {-1, int{kDevices}, 1000}) {
    const int devices[] = {0, wrong};
    EXPECT_EQ(ncclCommInitAll(ranks, 2, devices), nccl::kInvalidArgument);
  }
  // A device listed twice is a wrong use of valid arguments.
  constexpr int kTwice[] = {1, 1, 0};
  EXPECT_EQ(ncclCommInitAll(ranks, 2, kTwice), nccl::kInvalidUsage);
  EXPECT_EQ(ncclCommInitAll(ranks, 3, kTwice), nccl::kInvalidUsage);
  EXPECT_EQ(library().Calls("ncclCommInitRankConfig").size(), 0U);
}

TEST_F(NcclCommunicatorsTest, RanksAreJoinedInAGroup) {
  ncclComm* ranks[2] = {};
  const UniqueId id = NewId();
  EXPECT_NCCL(ncclGroupStart());
  for (const int rank : {0, 1}) {
    EXPECT_CUDA(cudaSetDevice(1 - rank));
    EXPECT_NCCL(ncclCommInitRank(&ranks[rank], 2, id, rank));
  }
  EXPECT_NCCL(ncclGroupEnd());
  ExpectRank(ranks[0], 2, 0, 1);
  ExpectRank(ranks[1], 2, 1, 0);
  Destroy({ranks[0], ranks[1]});
}

// NCCL's queries do not take part in groups, and inside the group a blocking communicator is ready.
TEST_F(NcclCommunicatorsTest, QueriesInsideAGroupDoNotFailIt) {
  ncclComm* made = nullptr;
  int device = -1;
  EXPECT_CUDA(cudaSetDevice(1));
  EXPECT_NCCL(ncclGroupStart());
  EXPECT_NCCL(ncclCommInitRank(&made, 1, NewId(), 0));
  EXPECT_NCCL(ncclCommCuDevice(made, &device));
  EXPECT_EQ(device, 1);
  EXPECT_EQ(ncclCommCuDevice(made, nullptr), nccl::kInvalidArgument);
  EXPECT_NCCL(ncclGroupEnd());
  ExpectRank(made, 1, 0, 1);
  Destroy({made});
}

TEST_F(NcclCommunicatorsTest, RanksOfThreadsWaitForEachOther) {
  ncclComm* ranks[2] = {};
  const UniqueId id = NewId();
  const auto join = [&](int rank) {
    EXPECT_CUDA(cudaSetDevice(rank));
    EXPECT_NCCL(ncclCommInitRank(&ranks[rank], 2, id, rank));
    ExpectRank(ranks[rank], 2, rank, rank);
  };
  std::thread first([&] { join(0); });
  std::thread second([&] { join(1); });
  first.join();
  second.join();
  Destroy({ranks[0], ranks[1]});
}

TEST_F(NcclCommunicatorsTest, InvalidRanksAreRefused) {
  const UniqueId id = NewId();
  ncclComm* made = nullptr;
  EXPECT_EQ(ncclCommInitRank(nullptr, 1, id, 0), nccl::kInvalidArgument);
  EXPECT_EQ(ncclCommInitRankConfig(nullptr, 1, id, 0, nullptr), nccl::kInvalidArgument);
  for (const auto& [size, rank] :
       {std::pair(0, 0), std::pair(-1, 0), std::pair(1, 1), std::pair(2, -1), std::pair(2, 2),
        std::pair(std::numeric_limits<int>::min(), 0)}) {
    EXPECT_EQ(ncclCommInitRank(&made, size, id, rank), nccl::kInvalidArgument) << size << rank;
    EXPECT_EQ(made, nullptr);
    EXPECT_EQ(ncclCommInitRankConfig(&made, size, id, rank, nullptr), nccl::kInvalidArgument);
  }
  EXPECT_EQ(library().Calls("ncclCommInitRankConfig").size(), 0U);
}

TEST_F(NcclCommunicatorsTest, AnErrorInAGroupLeavesNoCommunicator) {
  ncclComm* made = nullptr;
  EXPECT_NCCL(ncclGroupStart());
  EXPECT_NCCL(ncclCommInitRank(&made, 1, NewId(), 0));
  EXPECT_EQ(ncclCommInitRank(&made, 1, NewId(), 1), nccl::kInvalidArgument);
  EXPECT_EQ(ncclGroupEnd(), nccl::kInvalidArgument);
  EXPECT_EQ(made, nullptr);
}

TEST_F(NcclCommunicatorsTest, RanksMayShareSeveralIds) {
  UniqueId ids[3] = {NewId(), NewId(), NewId()};
  ncclComm* made = nullptr;
  for (const int count : {-1, 0, 2})
    EXPECT_EQ(ncclCommInitRankScalable(&made, 1, 0, count, ids, nullptr), nccl::kInvalidArgument);
  EXPECT_EQ(ncclCommInitRankScalable(&made, 1, 0, 1, nullptr, nullptr), nccl::kInvalidArgument);
  EXPECT_EQ(ncclCommInitRankScalable(&made, 2, 2, 1, ids, nullptr), nccl::kInvalidArgument);
  EXPECT_EQ(ncclCommInitRankScalable(nullptr, 1, 0, 1, ids, nullptr), nccl::kInvalidArgument);
  ncclComm* ranks[2] = {};
  EXPECT_NCCL(ncclGroupStart());
  for (const int rank : {0, 1}) {
    EXPECT_CUDA(cudaSetDevice(rank));
    EXPECT_NCCL(ncclCommInitRankScalable(&ranks[rank], 2, rank, 2, ids, nullptr));
  }
  EXPECT_NCCL(ncclGroupEnd());
  ExpectRank(ranks[1], 2, 1, 1);
  EXPECT_EQ(library().Calls("ncclCommInitRankScalable").size(), 2U);
  Destroy({ranks[0], ranks[1]});
}

TEST_F(NcclCommunicatorsTest, AFailureOfTheLibraryIsTheResult) {
  ncclComm* made = nullptr;
  library().Refuse("ncclCommInitRankConfig", nccl::kSystemError, "no memory");
  EXPECT_EQ(ncclCommInitRank(&made, 1, NewId(), 0), nccl::kSystemError);
  EXPECT_STREQ(ncclGetLastError(nullptr), "no memory");
  EXPECT_EQ(made, nullptr);
}

TEST_F(NcclCommunicatorsTest, QueriesNeedACommunicatorAndAPointer) {
  ncclComm* const one = NewAlone();
  int value = 0;
  for (const auto query : {ncclCommCount, ncclCommUserRank, ncclCommCuDevice}) {
    EXPECT_EQ(query(one, nullptr), nccl::kInvalidArgument);
    EXPECT_EQ(query(nullptr, &value), nccl::kInvalidArgument);
  }
  EXPECT_EQ(ncclCommGetAsyncError(one, nullptr), nccl::kInvalidArgument);
  EXPECT_EQ(ncclCommGetAsyncError(nullptr, &value), nccl::kInvalidArgument);
  EXPECT_NCCL(ncclCommDestroy(one));
}

// --- Configurations.

TEST_F(NcclCommunicatorsTest, ConfigurationsNotInitializedAreRefused) {
  const UniqueId id = NewId();
  ncclComm* const whole = NewAlone();
  ncclComm* made = nullptr;
  Config config;
  config.magic = 0;
  EXPECT_EQ(ncclCommInitRankConfig(&made, 1, id, 0, &config), nccl::kInvalidArgument);
  EXPECT_EQ(ncclCommSplit(whole, 0, 0, &made, &config), nccl::kInvalidArgument);
  config = {};
  config.size = 0;
  EXPECT_EQ(ncclCommInitRankConfig(&made, 1, id, 0, &config), nccl::kInvalidArgument);
  EXPECT_EQ(made, nullptr);
  EXPECT_NCCL(ncclCommDestroy(whole));
}

// A communicator is blocking, nonblocking, or does not say.
TEST_F(NcclCommunicatorsTest, OtherModesOfBlockingAreRefused) {
  const UniqueId id = NewId();
  ncclComm* const whole = NewAlone();
  ncclComm* made = nullptr;
  for (const int wrong : {2, -1}) {
    Config config;
    config.blocking = wrong;
    EXPECT_EQ(ncclCommInitRankConfig(&made, 1, id, 0, &config), nccl::kInvalidArgument);
    EXPECT_EQ(ncclCommSplit(whole, 0, 0, &made, &config), nccl::kInvalidArgument);
  }
  EXPECT_EQ(made, nullptr);
  EXPECT_NCCL(ncclCommDestroy(whole));
}

TEST_F(NcclCommunicatorsTest, AConfigurationReachesTheLibrary) {
  Config config;
  config.cga_cluster_size = 2;
  config.min_ctas = 3;
  config.max_ctas = 4;
  config.split_share = 1;
  config.traffic_class = 5;
  config.collnet_enable = 1;
  config.cta_policy = 1;
  config.shrink_share = 1;
  config.nvls_ctas = 6;
  config.channels_per_net_peer = 7;
  config.nvlink_centric_sched = 1;
  const Config given = Given(config);
  EXPECT_EQ(given.blocking, 1);
  EXPECT_EQ(given.cga_cluster_size, 2);
  EXPECT_EQ(given.min_ctas, 3);
  EXPECT_EQ(given.max_ctas, 4);
  EXPECT_EQ(given.split_share, 1);
  EXPECT_EQ(given.traffic_class, 5);
  EXPECT_EQ(given.collnet_enable, 1);
  EXPECT_EQ(given.cta_policy, 1);
  EXPECT_EQ(given.shrink_share, 1);
  EXPECT_EQ(given.nvls_ctas, 6);
  EXPECT_EQ(given.channels_per_net_peer, 7);
  EXPECT_EQ(given.nvlink_centric_sched, 1);
}

// Members added after the release of the program's header have undefined values: padding, or memory
// beyond the structure.
TEST_F(NcclCommunicatorsTest, MembersOfLaterReleasesAreNotRead) {
  constexpr int kUndefined = 1;
  Config config;
  for (int* member :
       {&config.cga_cluster_size, &config.min_ctas, &config.max_ctas, &config.split_share,
        &config.traffic_class, &config.collnet_enable, &config.cta_policy, &config.shrink_share,
        &config.nvls_ctas, &config.channels_per_net_peer, &config.nvlink_centric_sched})
    *member = kUndefined;
  config.blocking = 1;
  // 2.14: the end of the structure is padding.
  config.version = nccl::VersionCode(2, 14, 3);
  config.size = 24;
  Config given = Given(config);
  EXPECT_EQ(given.cga_cluster_size, nccl::kUndefined);
  EXPECT_EQ(given.min_ctas, nccl::kUndefined);
  // 2.18 to 2.25: the same.
  config.version = nccl::VersionCode(2, 25, 1);
  config.size = 48;
  given = Given(config);
  EXPECT_EQ(given.cga_cluster_size, kUndefined);
  EXPECT_EQ(given.split_share, kUndefined);
  EXPECT_EQ(given.traffic_class, nccl::kUndefined);
  EXPECT_EQ(given.collnet_enable, nccl::kUndefined);
  // 2.27 has no members of 2.28.
  config.version = nccl::VersionCode(2, 27, 7);
  config.size = offsetof(Config, channels_per_net_peer);
  given = Given(config);
  EXPECT_EQ(given.traffic_class, kUndefined);
  EXPECT_EQ(given.nvls_ctas, kUndefined);
  EXPECT_EQ(given.channels_per_net_peer, nccl::kUndefined);
  EXPECT_EQ(given.nvlink_centric_sched, nccl::kUndefined);
}

TEST_F(NcclCommunicatorsTest, LaterReleasesMayHaveMoreMembers) {
  struct {
    Config config;
    int more[4] = {1, 1, 1, 1};
  } later;
  later.config.size = sizeof later;
  later.config.version = nccl::VersionCode(2, 30, 0);
  later.config.max_ctas = 8;
  EXPECT_EQ(Given(later.config).max_ctas, 8);
}

// --- Splits.

TEST_F(NcclCommunicatorsTest, APartHasTheRanksOfOneColor) {
  const std::vector<ncclComm*> whole = NewOnAll();
  ncclComm* parts[2] = {};
  // One part, in the order of the keys.
  EXPECT_NCCL(ncclGroupStart());
  for (const int rank : {0, 1})
    EXPECT_NCCL(ncclCommSplit(whole[rank], 7, -rank, &parts[rank], nullptr));
  EXPECT_NCCL(ncclGroupEnd());
  ExpectRank(parts[0], 2, 1, 0);
  ExpectRank(parts[1], 2, 0, 1);
  Destroy({parts[0], parts[1]});
  // Two parts.
  EXPECT_NCCL(ncclGroupStart());
  for (const int rank : {0, 1})
    EXPECT_NCCL(ncclCommSplit(whole[rank], rank, 0, &parts[rank], nullptr));
  EXPECT_NCCL(ncclGroupEnd());
  ExpectRank(parts[0], 1, 0, 0);
  ExpectRank(parts[1], 1, 0, 1);
  Destroy({parts[0], parts[1]});
  for (const NcclCall& call : library().Calls("ncclCommSplit")) EXPECT_FALSE(call.configured);
  Destroy(whole);
}

TEST_F(NcclCommunicatorsTest, ARankWithoutColorIsInNoPart) {
  const std::vector<ncclComm*> whole = NewOnAll();
  ncclComm* parts[2] = {whole[0], whole[1]};
  EXPECT_NCCL(ncclGroupStart());
  EXPECT_NCCL(ncclCommSplit(whole[0], nccl::kNoColor, 0, &parts[0], nullptr));
  EXPECT_NCCL(ncclCommSplit(whole[1], 3, 0, &parts[1], nullptr));
  EXPECT_NCCL(ncclGroupEnd());
  EXPECT_EQ(parts[0], nullptr);
  ExpectRank(parts[1], 1, 0, 1);
  const std::vector<NcclCall> calls = library().Calls("ncclCommSplit");
  ASSERT_EQ(calls.size(), 2U);
  for (const NcclCall& call : calls)
    EXPECT_EQ(call.color, call.rank == 0 ? int{nccl::kNoColor} : 3);
  Destroy({parts[1]});
  Destroy(whole);
}

TEST_F(NcclCommunicatorsTest, InvalidSplitsAreRefused) {
  ncclComm* const whole = NewAlone();
  ncclComm* part = nullptr;
  EXPECT_EQ(ncclCommSplit(nullptr, 0, 0, &part, nullptr), nccl::kInvalidArgument);
  EXPECT_EQ(ncclCommSplit(whole, 0, 0, nullptr, nullptr), nccl::kInvalidArgument);
  EXPECT_EQ(library().Calls("ncclCommSplit").size(), 0U);
  library().Refuse("ncclCommSplit", nccl::kSystemError, "no memory");
  part = whole;
  EXPECT_EQ(ncclCommSplit(whole, 0, 0, &part, nullptr), nccl::kSystemError);
  EXPECT_EQ(part, nullptr);
  EXPECT_NCCL(ncclCommDestroy(whole));
}

TEST_F(NcclCommunicatorsTest, AShrunkCommunicatorHasTheOtherRanks) {
  const std::vector<ncclComm*> whole = NewOnAll();
  ncclComm* part = nullptr;
  int excluded[] = {0};
  ASSERT_NCCL(ncclCommShrink(whole[1], excluded, 1, &part, nullptr, 0));
  ExpectRank(part, 1, 0, 1);
  const std::vector<NcclCall> calls = library().Calls("ncclCommShrink");
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_EQ(calls[0].rank, 1);
  EXPECT_THAT(calls[0].excluded, testing::ElementsAre(0));
  Destroy({part});
  Destroy(whole);
}

TEST_F(NcclCommunicatorsTest, InvalidShrinksAreRefused) {
  const std::vector<ncclComm*> whole = NewOnAll();
  ncclComm* part = nullptr;
  int excluded[] = {0};
  EXPECT_EQ(ncclCommShrink(nullptr, excluded, 1, &part, nullptr, 0), nccl::kInvalidArgument);
  EXPECT_EQ(ncclCommShrink(whole[1], nullptr, 1, &part, nullptr, 0), nccl::kInvalidArgument);
  EXPECT_EQ(ncclCommShrink(whole[1], excluded, 0, &part, nullptr, 0), nccl::kInvalidArgument);
  EXPECT_EQ(ncclCommShrink(whole[1], excluded, -1, &part, nullptr, 0), nccl::kInvalidArgument);
  EXPECT_EQ(ncclCommShrink(whole[1], excluded, 1, nullptr, nullptr, 0), nccl::kInvalidArgument);
  // The caller is not one of the ranks left out.
  excluded[0] = 1;
  EXPECT_EQ(ncclCommShrink(whole[1], excluded, 1, &part, nullptr, 0), nccl::kInvalidArgument);
  EXPECT_EQ(library().Calls("ncclCommShrink").size(), 0U);
  Destroy(whole);
}

}  // namespace
}  // namespace cuspan
