// Sessions of programs with the agent of their node: opening, closing, and what ends them.
#include "launcher/agent/node/client_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/unit/launcher/agent/control/agents.h"

namespace cuspan {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

class ClientSessionTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(run_.Ready().ok()); }
  // True if the agent has ended the session of the program.
  static bool Ended(RawClient& program) {
    for (;;) {
      const Result<ControlSocket::Message> message = program.socket().Receive(kLimit, "an end");
      if (!message.ok()) return true;
    }
  }
  Agents run_{{.devices = 2}};
};

TEST_F(ClientSessionTest, EachHasItsOwnNumber) {
  RawClient first = run_.Program();
  RawClient second = run_.Program();
  EXPECT_NE(first.Introduce().session, second.Introduce().session);
}

TEST_F(ClientSessionTest, AProgramSeesTheDevicesItAsksFor) {
  RawClient program = run_.Program();
  const int fds[] = {program.bell().fd()};
  ClientHello hello{run_.key().secret, kOpTableHash, 1, "fake"};
  hello.visible = {true, "1", 0, 0};
  ASSERT_TRUE(program.socket().Send(hello, fds).ok());
  const Result<Welcome> welcome = program.socket().Expect<Welcome>(kLimit);
  ASSERT_TRUE(welcome.ok()) << welcome.status().message();
  ASSERT_THAT(welcome->devices, SizeIs(1));
  EXPECT_EQ(welcome->devices[0].ordinal, 1U);
  EXPECT_EQ(welcome->run, run_.key().Id());
}

TEST_F(ClientSessionTest, ADeviceThatIsNotVisibleEndsTheSession) {
  RawClient program = run_.Program();
  program.Introduce();
  ASSERT_TRUE(program.socket().Send(OpenDevice{2, 2}).ok());
  EXPECT_TRUE(Ended(program));
}

TEST_F(ClientSessionTest, AContextOpenedTwiceEndsTheSession) {
  RawClient program = run_.Program();
  program.Introduce();
  ASSERT_EQ(program.Open(0).opened.result, 0);
  ASSERT_TRUE(program.socket().Send(OpenDevice{0, 0}).ok());
  EXPECT_TRUE(Ended(program));
}

TEST_F(ClientSessionTest, APrimaryContextHasTheNumberOfItsDevice) {
  RawClient program = run_.Program();
  program.Introduce();
  ASSERT_TRUE(program.socket().Send(OpenDevice{0, 1}).ok());
  EXPECT_TRUE(Ended(program));
}

TEST_F(ClientSessionTest, ASharedRegionWithoutItsFileEndsTheSession) {
  RawClient program = run_.Program();
  program.Introduce();
  OpenDevice open{0, 0};
  open.shared = {std::uint64_t{1} << 40, 1 << 20, 0};
  ASSERT_TRUE(program.socket().Send(open).ok());
  EXPECT_TRUE(Ended(program));
}

TEST_F(ClientSessionTest, AMessageThatIsNoneOfAProgramEndsOnlyItsSession) {
  RawClient bad = run_.Program();
  bad.Introduce();
  RawClient good = run_.Program();
  good.Introduce();
  ASSERT_TRUE(bad.socket().Send(RunEnd{}).ok());
  EXPECT_TRUE(Ended(bad));
  RawDevice device = good.Open(0);
  good.Call(device, MemoryInfo{});
}

TEST_F(ClientSessionTest, ClosingWhatIsNotOpenEndsTheSession) {
  RawClient program = run_.Program();
  program.Introduce();
  ASSERT_TRUE(program.socket().Send(CloseDevice{0}).ok());
  EXPECT_TRUE(Ended(program));
}

TEST_F(ClientSessionTest, ContextsCanBeOpenedAndClosedAgainAndAgain) {
  RawClient program = run_.Program();
  program.Introduce();
  for (int time = 0; time < 50; ++time) {
    RawDevice device = program.Open(1);
    ASSERT_EQ(device.opened.result, 0) << device.opened.message;
    program.Close(device);
    EXPECT_TRUE(device.channel->closed());
    EXPECT_FALSE(device.channel->lost());
  }
}

TEST_F(ClientSessionTest, TheLossOfAProxyIsReportedWithoutTheEndOfTheSession) {
  RawClient program = run_.Program();
  program.Introduce();
  RawDevice lost = program.Open(0);
  RawDevice other = program.Open(1);
  lost.channel->Post(Memset{0, 0, 0xdead, 1, 1});
  EXPECT_FALSE(program.Next(lost)) << "a frame came";
  EXPECT_TRUE(lost.channel->lost());
  program.Call(other, MemoryInfo{});
  program.Close(lost);
  EXPECT_EQ(program.Open(0).opened.result, 0);
}

TEST_F(ClientSessionTest, TheEndOfAProgramEndsItsProxies) {
  std::unique_ptr<Channel> channel;
  {
    RawClient program = run_.Program();
    program.Introduce();
    RawDevice device = program.Open(0);
    ASSERT_EQ(device.opened.result, 0) << device.opened.message;
    // The proxy's own channel stays open as long as the proxy.
  }
  // The run's end waits for all processes: no proxy holds it up.
  run_.launcher().Send(RunEnd{});
  EXPECT_TRUE(run_.launcher().Expect<RunStatistics>().ok());
  run_.Join();
}

TEST_F(ClientSessionTest, JoinsOfMissingContextsAreNoError) {
  RawClient program = run_.Program();
  program.Introduce();
  RawDevice device = program.Open(0);
  // The program may not know of the loss of the other one yet.
  ASSERT_TRUE(program.socket().Send(JoinDevices{1, 0, 1}).ok());
  program.Call(device, MemoryInfo{});
}

TEST_F(ClientSessionTest, AJoinWithItselfEndsTheSession) {
  RawClient program = run_.Program();
  program.Introduce();
  program.Open(0);
  ASSERT_TRUE(program.socket().Send(JoinDevices{1, 0, 0}).ok());
  EXPECT_TRUE(Ended(program));
}

// Programs of one node in one run; the agent of the other node relays.
TEST(ClientSessionOverAgents, AProxyLostThereIsReportedHere) {
  Agents run({.workers = 1});
  ASSERT_TRUE(run.Ready().ok());
  RawClient program = run.Program();
  program.Introduce();
  RawDevice lost = program.Open(1);
  ASSERT_TRUE(lost.opened.relayed);
  lost.channel->Post(Memset{0, 0, 0xdead, 1, 1});
  EXPECT_FALSE(program.Next(lost)) << "a frame came";
  EXPECT_TRUE(lost.channel->lost());
  program.Close(lost);
  RawDevice again = program.Open(1);
  ASSERT_EQ(again.opened.result, 0) << again.opened.message;
  program.Call(again, MemoryInfo{});
}

TEST(ClientSessionOverAgents, ARefusalThereIsReportedHere) {
  Environment refusing;
  refusing.Set("FAKE_RESULT", "46");
  Agents run({.workers = 1, .environment = refusing});
  ASSERT_TRUE(run.Ready().ok());
  RawClient program = run.Program();
  program.Introduce();
  for (std::uint32_t number : {0U, 1U}) {
    const RawDevice device = program.Open(number);
    EXPECT_EQ(device.opened.result, 46);
    EXPECT_THAT(device.opened.message, HasSubstr("as FAKE_RESULT says"));
  }
}

TEST(ClientSessionOverAgents, ManySessionsShareARelay) {
  Agents run({.workers = 2});
  ASSERT_TRUE(run.Ready().ok());
  std::vector<std::unique_ptr<RawClient>> programs;
  std::vector<RawDevice> devices;
  for (int i = 0; i < 6; ++i) {
    programs.push_back(std::make_unique<RawClient>(run.key().Address(), run.key().secret));
    programs.back()->Introduce();
    devices.push_back(programs.back()->Open(1 + i % 2));
  }
  for (int i = 0; i < 6; ++i) {
    const MemoryInfo::Reply info = programs[i]->Call(devices[i], MemoryInfo{});
    EXPECT_EQ(info.total, devices[i].opened.window.base);
  }
}

}  // namespace
}  // namespace cuspan
