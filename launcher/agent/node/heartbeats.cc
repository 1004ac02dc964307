#include "launcher/agent/node/heartbeats.h"

namespace cuspan {
namespace {

// Number of heartbeats within the silence limit.
constexpr int kTicks = 5;

}  // namespace

Heartbeats::Heartbeats(Poller& poller, Relay& relay, std::chrono::seconds limit, Lost lost)
    : poller_(poller), relay_(relay), limit_(limit), lost_(std::move(lost)), watch_(kTicks) {}

Heartbeats::~Heartbeats() {
  if (timer_ != 0) poller_.Cancel(timer_);
}

void Heartbeats::Ask(std::uint32_t agents) {
  asked_agents_ = agents;
  for (std::uint32_t rank = 1; rank < agents; ++rank) watch_.Add(rank, relay_.message_count(rank));
  // Sent at once: the others start watching this agent before any other work.
  SendQuestions();
  StartTicks();
}

void Heartbeats::SendQuestions() {
  for (std::uint32_t rank = 1; rank < asked_agents_; ++rank) relay_.SendControl(rank, AgentAlive{});
}

void Heartbeats::WatchHead() {
  if (timer_ != 0) return;
  watch_.Add(0, relay_.message_count(0));
  StartTicks();
}

void Heartbeats::StartTicks() {
  timer_ = poller_.After(std::chrono::duration_cast<std::chrono::milliseconds>(limit_) / kTicks,
                         [this]() CUSPAN_REQUIRES(agent_thread) { Tick(); });
}

void Heartbeats::Tick() {
  // Checked before the next heartbeat: the last one had a whole tick to be answered.
  const std::vector<std::uint32_t> silent = watch_.Tick([this](std::uint32_t rank) {
    agent_thread.AssertHeld();
    return relay_.message_count(rank);
  });
  StartTicks();
  SendQuestions();
  for (const std::uint32_t rank : silent) lost_(rank);
}

}  // namespace cuspan
