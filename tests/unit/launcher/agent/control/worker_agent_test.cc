// A worker agent and its device service. The test plays the head agent, and a second worker.
#include "launcher/agent/worker_agent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/unit/launcher/agent/control/agents.h"
#include "tests/unit/launcher/agent/control/raw_agent.h"

namespace cuspan {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::uint32_t kWorker = 1;
constexpr std::uint32_t kOther = 2;
constexpr std::uint32_t kSession = 1;  // A session of the head agent.

class WorkerAgentTest : public testing::Test {
 protected:
  // Starts the worker with `devices` devices, and meets it as the head agent.
  AgentInventory Meet(int devices = 2, const char* result = nullptr) {
    Environment environment = FakeNode(devices);
    if (result != nullptr) environment.Set("FAKE_RESULT", result);
    thread_ = std::thread([this, environment] { RunWorker(network_, kWorker, 3, environment); });
    AgentHello hello;
    hello.secret = key_.secret;
    hello.table_hash = kOpTableHash;
    hello.host = "head";
    hello.address = key_.Address();
    hello.run = key_.Id();
    EXPECT_TRUE(head_.transport().SendWhole(kWorker, MakeFrame(hello)).ok());
    EXPECT_EQ(Whole<AgentHello>().rank, kWorker);
    return Whole<AgentInventory>();
  }
  template <typename T>
  T Whole() {
    const Result<std::vector<std::byte>> bytes = head_.transport().ReceiveWhole(kWorker);
    return *ParseMessage<T>(*ParseFrame(*bytes, kMaxControlBytes));
  }

  static RemoteOpen OpenOf(std::uint32_t context, std::uint32_t ordinal) {
    RemoteOpen open;
    open.session = kSession;
    open.context = context;
    open.ordinal = ordinal;
    open.window = {std::uint64_t{1} << 40, std::uint64_t{1} << 36, 0};
    return open;
  }
  RemoteOpened Open(std::uint32_t context, std::uint32_t ordinal = 0) {
    head_.Send(kWorker, OpenOf(context, ordinal));
    return head_.Await<RemoteOpened>(kWorker);
  }
  // Ends the run in order, unless the test has done so.
  void TearDown() override {
    if (!thread_.joinable()) return;
    for (int end = 0; end < 2; ++end) {
      head_.Send(kWorker, AgentShutdown{});
      head_.Await<AgentShutdown>(kWorker);
    }
    thread_.join();
  }

  const RunKey key_ = *RunKey::Random();
  Network network_;
  RawAgent head_{network_, 0, 3};
  RawAgent other_{network_, kOther, 3};
  std::thread thread_;
};

TEST_F(WorkerAgentTest, ItsInventoryHasItsNodesDevices) {
  const AgentInventory inventory = Meet(2);
  ASSERT_THAT(inventory.devices, SizeIs(2));
  EXPECT_EQ(inventory.devices[1].ordinal, 1U);
  EXPECT_EQ(inventory.rank, kWorker);
  EXPECT_EQ(inventory.problem, "");
}

TEST_F(WorkerAgentTest, ANodeWithoutDevicesSaysWhy) {
  const AgentInventory inventory = Meet(0);
  EXPECT_THAT(inventory.devices, IsEmpty());
  EXPECT_THAT(inventory.problem, HasSubstr("the software GPU's library not found"));
}

TEST_F(WorkerAgentTest, AHeadAgentOfAnotherVersionIsRefused) {
  thread_ = std::thread([this] { RunWorker(network_, kWorker, 3, FakeNode(1)); });
  AgentHello hello;
  hello.table_hash = kOpTableHash + 1;
  hello.host = "head";
  ASSERT_TRUE(head_.transport().SendWhole(kWorker, MakeFrame(hello)).ok());
  EXPECT_THAT(Whole<Refused>().reason, HasSubstr("run different versions of cuspan"));
  thread_.join();
}

TEST_F(WorkerAgentTest, AnInvitationThatIsNoneIsRefused) {
  thread_ = std::thread([this] { RunWorker(network_, kWorker, 3, FakeNode(1)); });
  ASSERT_TRUE(head_.transport().SendWhole(kWorker, MakeFrame(AgentShutdown{})).ok());
  EXPECT_NE(Whole<Refused>().reason, "");
  thread_.join();
}

TEST_F(WorkerAgentTest, ADeviceIsOpenedWithItsWindow) {
  Meet();
  const RemoteOpened opened = Open(5, 1);
  EXPECT_EQ(opened.result, 0) << opened.message;
  EXPECT_EQ(opened.session, kSession);
  EXPECT_EQ(opened.context, 5U);
  EXPECT_EQ(opened.window.base, OpenOf(5, 1).window.base);
}

TEST_F(WorkerAgentTest, ADeviceThatTheNodeDoesNotHaveIsRefused) {
  Meet(2);
  const RemoteOpened opened = Open(0, 2);
  EXPECT_NE(opened.result, 0);
  EXPECT_NE(opened.message, "");
  EXPECT_EQ(Open(1, 1).result, 0);
}

TEST_F(WorkerAgentTest, TheProxysRefusalReachesTheSession) {
  Meet(1, "2");
  const RemoteOpened opened = Open(0);
  EXPECT_EQ(opened.result, 2);
  EXPECT_THAT(opened.message, HasSubstr("as FAKE_RESULT says"));
  // Nothing is left of it.
  EXPECT_EQ(Open(0).result, 2);
}

TEST_F(WorkerAgentTest, AContextOpenedTwiceKeepsItsProxy) {
  Meet();
  ASSERT_EQ(Open(0).result, 0);
  head_.Send(kWorker, OpenOf(0, 0));
  head_.Settle(kWorker);
  EXPECT_FALSE(head_.Has<RemoteOpened>(kWorker));
  EXPECT_FALSE(head_.Has<RemoteLost>(kWorker));
}

TEST_F(WorkerAgentTest, AClosedContextIsConfirmedAndCanBeOpenedAgain) {
  Meet();
  for (int time = 0; time < 20; ++time) {
    ASSERT_EQ(Open(0).result, 0);
    head_.Send(kWorker, RemoteClose{kSession, 0});
    EXPECT_EQ(head_.Await<RemoteLost>(kWorker).context, 0U);
  }
  // Closing it again has no effect.
  head_.Send(kWorker, RemoteClose{kSession, 0});
  head_.Settle(kWorker);
  EXPECT_FALSE(head_.Has<RemoteLost>(kWorker));
}

TEST_F(WorkerAgentTest, OneProxyEndsWithoutTheOthers) {
  Meet();
  ASSERT_EQ(Open(0).result, 0);
  ASSERT_EQ(Open(1).result, 0);
  head_.Send(kWorker, RemoteClose{kSession, 0});
  head_.Await<RemoteLost>(kWorker);
  head_.Settle(kWorker);
  EXPECT_FALSE(head_.Has<RemoteLost>(kWorker));
}

TEST_F(WorkerAgentTest, OnlyTheAgentOfASessionControlsItsDevices) {
  Meet();
  ASSERT_EQ(Open(0).result, 0);
  other_.Send(kWorker, RemoteClose{kSession, 0});
  other_.Send(kWorker, OpenOf(1, 1));
  // Requests of one's own session are served.
  RemoteOpen own = OpenOf(0, 1);
  own.session = kOther * kSessionsOfAgent + 1;
  other_.Send(kWorker, own);
  EXPECT_EQ(other_.Await<RemoteOpened>(kWorker).result, 0);
  EXPECT_FALSE(other_.Has<RemoteOpened>(kWorker));
  head_.Settle(kWorker);
  EXPECT_FALSE(head_.Has<RemoteLost>(kWorker));
}

TEST_F(WorkerAgentTest, AJoinWithAMissingDeviceIsUndone) {
  Meet();
  head_.Send(kWorker, RemoteJoin{kSession, 3, 0, 1, 0, false});
  const RemoteUnjoin unjoin = head_.Await<RemoteUnjoin>(kWorker);
  EXPECT_EQ(unjoin.session, kSession);
  EXPECT_EQ(unjoin.join, 3U);
}

TEST_F(WorkerAgentTest, AJoinIsPassedOnToThePeersAgent) {
  Meet();
  ASSERT_EQ(Open(0).result, 0);
  head_.Send(kWorker, RemoteJoin{kSession, 3, 0, 1, kOther, true});
  const RemoteJoin passed = other_.Await<RemoteJoin>(kWorker);
  EXPECT_EQ(passed.session, kSession);
  EXPECT_EQ(passed.context, 1U);
  EXPECT_EQ(passed.peer, 0U);
  EXPECT_EQ(passed.rank, kWorker);
  EXPECT_FALSE(passed.tell) << "it would be passed on without end";
  other_.Send(kWorker, RemoteUnjoin{kSession, 3});
  head_.Settle(kWorker);
}

TEST_F(WorkerAgentTest, AJoinWithAnAgentThatDoesNotExistIsDropped) {
  Meet();
  ASSERT_EQ(Open(0).result, 0);
  head_.Send(kWorker, RemoteJoin{kSession, 3, 0, 1, 99, true});
  head_.Settle(kWorker);
}

TEST_F(WorkerAgentTest, TheLossOfAnAgentEndsItsSessionsHere) {
  Meet();
  RemoteOpen open = OpenOf(0, 0);
  open.session = kOther * kSessionsOfAgent + 1;
  other_.Send(kWorker, open);
  ASSERT_EQ(other_.Await<RemoteOpened>(kWorker).result, 0);
  ASSERT_EQ(Open(0, 1).result, 0);
  head_.Send(kWorker, AgentLost{kOther, "the test lost it"});
  head_.Settle(kWorker);
  // Messages of a lost agent are ignored.
  other_.Send(kWorker, open);
  head_.Settle(kWorker);
  EXPECT_FALSE(other_.Has<RemoteOpened>(kWorker));
  EXPECT_FALSE(head_.Has<RemoteLost>(kWorker)) << "the head agent's session goes on";
}

TEST_F(WorkerAgentTest, ALossOfItselfOrOfNobodyIsNone) {
  Meet();
  head_.Send(kWorker, AgentLost{kWorker, "a lie"});
  head_.Send(kWorker, AgentLost{99, "a lie"});
  EXPECT_EQ(Open(0).result, 0);
}

TEST_F(WorkerAgentTest, ItAnswersWhatTheHeadAgentAsks) {
  Meet();
  head_.Send(kWorker, AgentAlive{});
  head_.Await<AgentAlive>(kWorker);
  head_.Send(kWorker, MetricsAsk{4});
  EXPECT_EQ(head_.Await<MetricsPart>(kWorker).number, 4U);
  head_.Send(kWorker, TraceClock{17, 0});
  const TraceClock clock = head_.Await<TraceClock>(kWorker);
  EXPECT_EQ(clock.asked, 17U);
  EXPECT_NE(clock.answered, 0U);
}

TEST_F(WorkerAgentTest, OtherWorkersAreNoHeadAgents) {
  Meet();
  ASSERT_EQ(Open(0).result, 0);
  for (int end = 0; end < 2; ++end) other_.Send(kWorker, AgentShutdown{});
  other_.Send(kWorker, AgentLost{0, "a lie"});
  other_.Send(kWorker, MetricsAsk{1});
  other_.Send(kWorker, TraceClock{1, 0});
  other_.Send(kWorker, LeaseQuery{});
  other_.Send(kWorker, AgentAlive{});
  head_.Settle(kWorker);
  EXPECT_EQ(Open(1).result, 0);
  EXPECT_FALSE(other_.Has<MetricsPart>(kWorker));
  EXPECT_FALSE(other_.Has<AgentAlive>(kWorker));
}

TEST_F(WorkerAgentTest, ItListensOnlyAfterTheWholePlan) {
  const AgentInventory inventory = Meet(2);
  RawClient early(key_.Address(), key_.secret);
  RunPlan plan;
  plan.devices = {inventory.devices[0]};
  plan.devices[0].agent = kWorker;
  plan.windows = {{std::uint64_t{1} << 40, std::uint64_t{1} << 36, std::uint64_t{1} << 37}};
  head_.Send(kWorker, plan);
  plan.devices = {inventory.devices[1]};
  plan.devices[0].agent = kWorker;
  plan.windows[0].base += plan.windows[0].bytes;
  plan.last = true;
  head_.Send(kWorker, plan);
  EXPECT_THAT(early.Introduce().devices, SizeIs(2));
  // A program on a worker's node uses its devices without a relay.
  const RawDevice device = early.Open(1);
  EXPECT_EQ(device.opened.result, 0) << device.opened.message;
  EXPECT_FALSE(device.opened.relayed);
}

TEST_F(WorkerAgentTest, APlanWithoutItsWindowsIsRefused) {
  const AgentInventory inventory = Meet(1);
  RunPlan plan;
  plan.devices = inventory.devices;
  plan.last = true;
  head_.Send(kWorker, plan);
  head_.Settle(kWorker);
}

TEST_F(WorkerAgentTest, EachEndIsConfirmed) {
  Meet();
  ASSERT_EQ(Open(0).result, 0);
  head_.Send(kWorker, AgentShutdown{});
  head_.Await<AgentShutdown>(kWorker);
  // Devices end at the second; sessions of other agents may still close theirs.
  head_.Send(kWorker, RemoteClose{kSession, 0});
  EXPECT_EQ(head_.Await<RemoteLost>(kWorker).context, 0U);
  head_.Send(kWorker, AgentShutdown{});
  head_.Await<AgentShutdown>(kWorker);
  thread_.join();
}

// Every op of the protocol with random payloads, from the head agent and from a worker.
TEST_F(WorkerAgentTest, MalformedMessagesAreDropped) {
  Meet();
  ASSERT_EQ(Open(0).result, 0);
  std::mt19937 random(17);
  for (const Op op : kAllOps) {
    // Ends the run, as it should.
    if (op == Op::kAgentShutdown) continue;
    for (RawAgent* agent : {&head_, &other_}) {
      for (const std::size_t bytes : {0, 1, 3, 8, 40}) {
        std::vector<std::byte> payload(bytes);
        for (std::byte& byte : payload) byte = static_cast<std::byte>(random());
        FrameHeader header;
        header.op = static_cast<std::uint16_t>(op);
        header.payload_bytes = static_cast<std::uint32_t>(bytes);
        BatchWriter batch(kTestLimits.message_bytes);
        ASSERT_TRUE(batch.Append({0, 0}, header, payload));
        ASSERT_TRUE(agent->transport().TrySend(kWorker, batch.bytes()));
      }
    }
  }
  head_.Settle(kWorker);
  EXPECT_EQ(Open(1).result, 0);
}

}  // namespace
}  // namespace cuspan
