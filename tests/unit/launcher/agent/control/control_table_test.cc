#include "launcher/agent/base/control_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/agent/head_agent.h"
#include "launcher/agent/lease/run_leases.h"
#include "launcher/agent/node/agent_node.h"
#include "launcher/agent/worker_agent.h"

namespace cuspan {
namespace {

using testing::HasSubstr;
using From = ControlTable::From;

class ControlTableTest : public testing::Test {
 protected:
  template <typename T>
  Status Receive(std::uint32_t rank, const T& message) {
    const std::vector<std::byte> bytes = MakeFrame(message);
    return table_.Receive(rank, *ParseFrame(bytes, kMaxFrameBytes));
  }
  const AgentThread::Scope role_{agent_thread};
  ControlTable table_;
};

TEST_F(ControlTableTest, AMessageReachesItsHandlerDecoded) {
  RemoteLost got;
  std::uint32_t sender = 0;
  table_.Handle<RemoteLost>(From::kAny, [&](std::uint32_t rank, const RemoteLost& lost) {
    sender = rank;
    got = lost;
  });
  EXPECT_TRUE(Receive(3, RemoteLost{1, 2, "gone"}).ok());
  EXPECT_EQ(sender, 3U);
  EXPECT_EQ(got.context, 2U);
  EXPECT_EQ(got.reason, "gone");
}

TEST_F(ControlTableTest, AMessageWithoutHandlerIsNamed) {
  const Status status = Receive(3, AgentAlive{});
  EXPECT_THAT(status.message(), HasSubstr("agent 3 sent op 58 (AgentAlive)"));
}

TEST_F(ControlTableTest, SendersAreChecked) {
  int calls = 0;
  table_.Handle<AgentShutdown>(From::kHead, [&](std::uint32_t, const AgentShutdown&) { ++calls; });
  table_.Handle<AgentAlive>(From::kWorkers, [&](std::uint32_t, const AgentAlive&) { ++calls; });
  EXPECT_FALSE(Receive(1, AgentShutdown{}).ok());
  EXPECT_FALSE(Receive(0, AgentAlive{}).ok());
  EXPECT_EQ(calls, 0);
  EXPECT_TRUE(Receive(0, AgentShutdown{}).ok());
  EXPECT_TRUE(Receive(2, AgentAlive{}).ok());
  EXPECT_EQ(calls, 2);
}

TEST_F(ControlTableTest, AMalformedMessageReachesNoHandler) {
  bool called = false;
  table_.Handle<RemoteClose>(From::kAny, [&](std::uint32_t, const RemoteClose&) { called = true; });
  std::vector<std::byte> bytes = MakeFrame(RemoteClose{1, 2});
  FrameHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  header.payload_bytes -= 1;
  const Status status =
      table_.Receive(1, {header, std::span(bytes).subspan(sizeof header, header.payload_bytes)});
  EXPECT_THAT(status.message(), HasSubstr("invalid message from agent 1"));
  EXPECT_FALSE(called);
}

TEST_F(ControlTableTest, AnOpThatDoesNotExistIsRefused) {
  FrameHeader header;
  header.op = 60'000;
  EXPECT_THAT(table_.Receive(1, {header, {}}).message(), HasSubstr("60000 (unknown)"));
}

TEST_F(ControlTableTest, AForgottenHandlerIsNotCalled) {
  table_.Handle<AgentAlive>(From::kAny, [](std::uint32_t, const AgentAlive&) { FAIL(); });
  table_.Forget<AgentAlive>();
  EXPECT_FALSE(Receive(1, AgentAlive{}).ok());
}

}  // namespace
}  // namespace cuspan
