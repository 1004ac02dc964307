// The head agent's part in a run: its launcher, its workers, and their messages.
#include "launcher/agent/head_agent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/unit/launcher/agent/control/agents.h"
#include "tests/unit/launcher/agent/control/raw_agent.h"

namespace cuspan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// Ranks of the agents serving the devices, in the order of device numbers.
std::vector<std::uint32_t> AgentsOf(const RunReady& ready) {
  std::vector<std::uint32_t> agents;
  for (const DeviceDescription& device : ready.devices) agents.push_back(device.agent);
  return agents;
}

// A worker played by the test, with one device.
class RawWorker : public RawAgent {
 public:
  RawWorker(Agents& run, std::uint32_t rank) : RawAgent(run.network(), rank, run.count()) {}
  // Answers the invitation of the head agent, which it returns.
  AgentHello Meet() {
    const Result<std::vector<std::byte>> bytes = transport().ReceiveWhole(0);
    AgentHello hello = *ParseMessage<AgentHello>(*ParseFrame(*bytes, kMaxControlBytes));
    AgentHello own = hello;
    own.rank = transport().rank();
    own.host = "raw";
    EXPECT_TRUE(transport().SendWhole(0, MakeFrame(own)).ok());
    DeviceDescription device;
    device.name = "Raw";
    device.memory_bytes = std::uint64_t{1} << 30;
    device.software = true;
    device.attributes.resize(80);
    AgentInventory inventory;
    inventory.rank = own.rank;
    inventory.devices = {device};
    inventory.limit = kAllDevices;
    EXPECT_TRUE(transport().SendWhole(0, MakeFrame(inventory)).ok());
    return hello;
  }
  // Takes part in the end of the run.
  void Leave() {
    for (int end = 0; end < 2; ++end) {
      Await<AgentShutdown>(0);
      Send(0, AgentShutdown{});
    }
  }
};

TEST(HeadAgent, ARunOfOneAgentHasItsDevices) {
  Agents run({.devices = 3});
  const Result<RunReady> ready = run.Ready();
  ASSERT_TRUE(ready.ok()) << ready.status().message();
  EXPECT_THAT(AgentsOf(*ready), ElementsAre(0, 0, 0));
  EXPECT_EQ(ready->relay, "") << "there are no other agents";
}

TEST(HeadAgent, DevicesOfAllAgentsAreInTheRun) {
  Agents run({.workers = 2, .devices = 2});
  const Result<RunReady> ready = run.Ready();
  ASSERT_TRUE(ready.ok()) << ready.status().message();
  EXPECT_THAT(AgentsOf(*ready), ElementsAre(0, 0, 1, 1, 2, 2));
  EXPECT_EQ(ready->relay, "test");
}

TEST(HeadAgent, TheHeadAgentsNodeComesAtItsPlaceAmongTheHosts) {
  AgentOptions head = OptionsOfRun();
  head.place = 1;
  Agents run({.workers = 2, .head = head});
  const Result<RunReady> ready = run.Ready();
  ASSERT_TRUE(ready.ok()) << ready.status().message();
  EXPECT_THAT(AgentsOf(*ready), ElementsAre(1, 0, 2));
}

TEST(HeadAgent, ARequestThatNobodyCanMeetIsRefusedWithTheReason) {
  AgentOptions head = OptionsOfRun();
  head.request.all = false;
  head.request.number = 7;
  Agents run({.workers = 1, .head = head});
  const Result<RunReady> ready = run.Ready();
  ASSERT_FALSE(ready.ok());
  EXPECT_THAT(ready.status().message(), HasSubstr("7"));
  run.Join();  // Without a word of the launcher.
  EXPECT_FALSE(run.failure().ok());
}

TEST(HeadAgent, ANodeWithoutDevicesIsNamedWithItsProblem) {
  Agents run({.devices = 0});
  const Result<RunReady> ready = run.Ready();
  ASSERT_FALSE(ready.ok());
  EXPECT_THAT(ready.status().message(), HasSubstr("the software GPU's library not found"));
}

TEST(HeadAgent, ALauncherWithAnotherSecretIsNoLauncher) {
  Agents run({});
  run.launcher().Admit({Key128{}, kOpTableHash});
  run.Join();
  EXPECT_THAT(run.failure().message(), HasSubstr("does not know this run's secret"));
}

TEST(HeadAgent, ALauncherOfAnotherVersionIsNamed) {
  Agents run({});
  run.launcher().Admit({run.key().secret, kOpTableHash + 1});
  run.Join();
  EXPECT_THAT(run.failure().message(), HasSubstr("have different versions"));
}

TEST(HeadAgent, TheEndOfTheLauncherEndsAllAgents) {
  Agents run({.workers = 2});
  ASSERT_TRUE(run.Ready().ok());
  run.launcher().HangUp();
  run.Join();
}

// Reads the reports of the run, up to the empty message at their end.
std::vector<DeviceReport> ReportsOf(Agents& run) {
  run.launcher().Send(RunEnd{});
  std::vector<DeviceReport> all;
  for (;;) {
    const Result<RunStatistics> piece = run.launcher().Expect<RunStatistics>();
    if (!piece.ok() || piece->reports.empty()) return all;
    all.insert(all.end(), piece->reports.begin(), piece->reports.end());
  }
}

TEST(HeadAgent, TheEndOfTheRunIsAnsweredByTheReportsOfItsSessions) {
  Agents run({.workers = 1});
  ASSERT_TRUE(run.Ready().ok());
  {
    RawClient program = run.Program();
    ASSERT_THAT(program.Introduce().devices, SizeIs(2));
    for (std::uint32_t number : {0U, 1U}) {
      RawDevice device = program.Open(number);
      ASSERT_EQ(device.opened.result, 0) << device.opened.message;
      EXPECT_EQ(device.opened.relayed, number == 1);
      program.Call(device, MemoryInfo{});
    }
  }
  const std::vector<DeviceReport> reports = ReportsOf(run);
  std::set<std::pair<std::uint32_t, bool>> devices;
  for (const DeviceReport& report : reports) devices.insert({report.device, report.relayed});
  EXPECT_THAT(devices, ElementsAre(std::pair(0U, false), std::pair(1U, true)));
  run.Join();
}

TEST(HeadAgent, ARunWithoutSessionsHasNoReports) {
  Agents run({});
  ASSERT_TRUE(run.Ready().ok());
  EXPECT_THAT(ReportsOf(run), IsEmpty());
  run.Join();
}

TEST(HeadAgent, AQuestionForMetricsIsAnsweredForEachAgent) {
  Agents run({.workers = 2});
  ASSERT_TRUE(run.Ready().ok());
  RawClient program = run.Program();
  program.Introduce();
  for (std::uint32_t number = 7; number < 9; ++number) {
    run.launcher().Send(MetricsAsk{number});
    std::uint32_t sessions = 0;
    for (int agent = 0; agent < 3; ++agent) {
      const Result<MetricsPart> part = run.launcher().Expect<MetricsPart>();
      ASSERT_TRUE(part.ok()) << part.status().message();
      EXPECT_EQ(part->number, number);
      EXPECT_TRUE(part->last);
      sessions += part->agent.sessions;
    }
    EXPECT_EQ(sessions, 1U);
    const Result<MetricsEnd> end = run.launcher().Expect<MetricsEnd>();
    ASSERT_TRUE(end.ok()) << end.status().message();
    EXPECT_EQ(end->number, number);
  }
}

TEST(HeadAgent, AnUnknownQuestionOfTheLauncherEndsTheRun) {
  Agents run({});
  ASSERT_TRUE(run.Ready().ok());
  run.launcher().Send(QueryAgain{});  // Only for agents that just query.
  run.Join();
}

TEST(HeadAgent, AgentsThatJustQueryAnswerAgainAndAgain) {
  AgentOptions head = OptionsOfRun();
  head.request.look = true;
  Agents run({.workers = 1, .head = head});
  Result<RunReady> found = run.Ready();
  for (int time = 0; time < 3; ++time) {
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_THAT(found->devices, SizeIs(2));
    EXPECT_THAT(found->held, ElementsAre(0, 0));
    run.launcher().Send(QueryAgain{});
    found = run.launcher().Expect<RunReady>();
  }
}

TEST(HeadAgent, ThePlanGoesToTheWorkersInPieces) {
  // More devices than fit in one message.
  Agents run({.devices = 70, .fake_workers = 1});
  RawWorker worker(run, 1);
  std::thread meeting([&] { worker.Meet(); });
  const Result<RunReady> ready = run.Ready();
  meeting.join();
  ASSERT_TRUE(ready.ok()) << ready.status().message();
  EXPECT_THAT(ready->devices, SizeIs(71));
  std::vector<DeviceDescription> devices;
  std::vector<AddressWindow> windows;
  for (;;) {
    const RunPlan piece = worker.Await<RunPlan>(0);
    devices.insert(devices.end(), piece.devices.begin(), piece.devices.end());
    windows.insert(windows.end(), piece.windows.begin(), piece.windows.end());
    if (piece.last) break;
  }
  ASSERT_THAT(devices, SizeIs(71));
  ASSERT_THAT(windows, SizeIs(71));
  std::set<std::uint64_t> bases;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    EXPECT_EQ(devices[i].agent, ready->devices[i].agent);
    bases.insert(windows[i].base);
  }
  EXPECT_THAT(bases, SizeIs(71));
  run.launcher().HangUp();
  worker.Leave();
  run.Join();
}

TEST(HeadAgent, TheInvitationHasTheSecretAndTheRunsTerms) {
  AgentOptions head = OptionsOfRun();
  head.request.share.memory = 1 << 20;
  Agents run({.fake_workers = 1, .head = head});
  RawWorker worker(run, 1);
  AgentHello hello;
  std::thread meeting([&] { hello = worker.Meet(); });
  const Result<RunReady> ready = run.Ready();
  meeting.join();
  EXPECT_TRUE(SameSecret(hello.secret, run.key().secret));
  EXPECT_EQ(hello.run, run.key().Id());
  EXPECT_EQ(hello.terms.memory, 1U << 20);
  // Programs see no more memory than the run may use.
  ASSERT_TRUE(ready.ok());
  for (const DeviceDescription& device : ready->devices) EXPECT_EQ(device.memory_bytes, 1U << 20);
  run.launcher().HangUp();
  worker.Leave();
}

TEST(HeadAgent, ASilentWorkerIsLeftOutOfMetrics) {
  Agents run({.fake_workers = 1});
  RawWorker worker(run, 1);
  std::thread meeting([&] { worker.Meet(); });
  ASSERT_TRUE(run.Ready().ok());
  meeting.join();
  run.launcher().Send(MetricsAsk{1});
  ASSERT_TRUE(run.launcher().Expect<MetricsPart>().ok());
  EXPECT_TRUE(run.launcher().Expect<MetricsEnd>().ok());
  worker.Await<MetricsAsk>(0);
  run.launcher().HangUp();
  worker.Leave();
}

TEST(HeadAgent, AnAgentLostMidRunTakesOnlyItsDevicesWithIt) {
  Agents run({.workers = 1, .fake_workers = 1});
  RawWorker worker(run, 2);
  std::thread meeting([&] { worker.Meet(); });
  const Result<RunReady> ready = run.Ready();
  meeting.join();
  ASSERT_TRUE(ready.ok());
  ASSERT_THAT(AgentsOf(*ready), ElementsAre(0, 1, 2));
  RawClient program = run.Program();
  program.Introduce();
  RawDevice here = program.Open(0);
  RawDevice there = program.Open(1);
  // The third device is being opened when its agent is lost.
  ASSERT_TRUE(program.socket().Send(OpenDevice{2, 2}).ok());
  const RemoteOpen open = worker.Await<RemoteOpen>(0);
  EXPECT_EQ(open.context, 2U);
  run.network().Lose(2);
  const Result<DeviceOpened> refused = program.socket().Expect<DeviceOpened>(kLimit);
  ASSERT_TRUE(refused.ok()) << refused.status().message();
  EXPECT_NE(refused->result, 0);
  EXPECT_THAT(refused->message, HasSubstr("is gone: the test lost it"));
  // The others work, and the lost one cannot be opened again.
  program.Call(here, MemoryInfo{});
  program.Call(there, MemoryInfo{});
  EXPECT_THAT(program.Open(2).opened.message, HasSubstr("its host was lost"));
  run.launcher().Send(RunEnd{});
  run.Join();
}

TEST(HeadAgent, MessagesAboutAnotherAgentsDevicesAreIgnored) {
  Agents run({.workers = 1, .fake_workers = 1});
  RawWorker worker(run, 2);
  std::thread meeting([&] { worker.Meet(); });
  ASSERT_TRUE(run.Ready().ok());
  meeting.join();
  RawClient program = run.Program();
  const Welcome welcome = program.Introduce();
  RawDevice there = program.Open(1);
  ASSERT_EQ(there.opened.result, 0) << there.opened.message;
  // Agent 2 has no part in device 1.
  worker.Send(0, RemoteLost{welcome.session, 1, "a lie"});
  worker.Send(0, RemoteOpened{welcome.session, 1, 0, "", {}, false, "", 0});
  worker.Send(0, RemoteJoin{welcome.session, 1, 1, 1, 1, false});
  worker.Send(0, SessionReports{});
  program.Call(there, MemoryInfo{});
  run.launcher().HangUp();
  worker.Leave();
}

// Each op of the class is for the head agent, or for workers. Refused ops are in the log.
TEST(HeadAgent, TogetherWithWorkersItAcceptsAllMessagesBetweenAgents) {
  testing::internal::CaptureStderr();
  {
    Agents run({.workers = 1, .fake_workers = 1});
    RawWorker sender(run, 2);
    std::thread meeting([&] { sender.Meet(); });
    ASSERT_TRUE(run.Ready().ok());
    meeting.join();
    // Another endpoint with the head agent's rank sends to the worker.
    const std::unique_ptr<Transport> head = run.network().Join(0, run.count());
    for (const Op op : kAllOps) {
      bool between_agents = false;
      WithOp(op, [&]<typename T>() { between_agents = T::kClass == OpClass::kAgents; });
      if (!between_agents || op == Op::kAgentShutdown) continue;
      FrameHeader header;
      header.op = static_cast<std::uint16_t>(op);
      BatchWriter batch(kTestLimits.message_bytes);
      ASSERT_TRUE(batch.Append({0, 0}, header, {}));
      ASSERT_TRUE(sender.transport().TrySend(0, batch.bytes()));
      ASSERT_TRUE(head->TrySend(1, batch.bytes()));
    }
    run.launcher().HangUp();
    sender.Leave();
    run.Join();
  }
  const std::string log = testing::internal::GetCapturedStderr();
  for (const Op op : kAllOps) {
    bool between_agents = false;
    WithOp(op, [&]<typename T>() { between_agents = T::kClass == OpClass::kAgents; });
    const auto refused_from = [&](int rank) {
      return log.find(Format("agent {} sent op {} ({})", rank, static_cast<int>(op), OpName(op))) !=
             std::string::npos;
    };
    EXPECT_FALSE(between_agents && refused_from(0) && refused_from(2)) << OpName(op);
  }
  EXPECT_NE(log.find("agent 2 sent op 18 (RunPlan)"), std::string::npos)
      << "the log does not show refusals";
}

TEST(HeadAgent, RecordsOfTracesAreIgnoredInARunWithoutTrace) {
  Agents run({.fake_workers = 1});
  RawWorker worker(run, 1);
  std::thread meeting([&] { worker.Meet(); });
  ASSERT_TRUE(run.Ready().ok());
  meeting.join();
  // The run is not traced.
  worker.Send(0, TraceClock{1, 2});
  worker.Send(0, TracePart{1, 1, "raw", "", 1, 1, 1, true, 0, {}});
  run.launcher().Send(MetricsAsk{1});
  EXPECT_TRUE(run.launcher().Expect<MetricsPart>().ok());
  run.launcher().HangUp();
  worker.Leave();
}

}  // namespace
}  // namespace cuspan
