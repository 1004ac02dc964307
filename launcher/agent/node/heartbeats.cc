#include "launcher/agent/node/heartbeats.h"

namespace cuspan {
namespace {

// So often in the time for which an agent may be silent.
constexpr int kTicks = 5;

}  // namespace

Heartbeats::Heartbeats(Poller& poller, Relay& relay, std::chrono::seconds limit, Lost lost)
    : poller_(poller), relay_(relay), limit_(limit), lost_(std::move(lost)), watch_(kTicks) {}

Heartbeats::~Heartbeats() {
  if (timer_ != 0) poller_.Cancel(timer_);
}

void Heartbeats::Ask(std::uint32_t agents) {
  asked_agents_ = agents;
  for (std::uint32_t rank = 1; rank < agents; ++rank) watch_.Add(rank, relay_.heard(rank));
  // At once, so that they watch this one before they have anything else to do.
  SendQuestions();
  StartTicks();
}

void Heartbeats::SendQuestions() {
  for (std::uint32_t rank = 1; rank < asked_agents_; ++rank) relay_.SendControl(rank, AgentAlive{});
}

void Heartbeats::WatchHome() {
  if (timer_ != 0) return;
  watch_.Add(0, relay_.heard(0));
  StartTicks();
}

void Heartbeats::StartTicks() {
  timer_ = poller_.After(std::chrono::duration_cast<std::chrono::milliseconds>(limit_) / kTicks,
                         [this]() CUSPAN_REQUIRES(agent_thread) { Tick(); });
}

void Heartbeats::Tick() {
  // Before the next question: what was asked a tick ago had its time to be answered.
  const std::vector<std::uint32_t> silent = watch_.Tick([this](std::uint32_t rank) {
    agent_thread.AssertHeld();
    return relay_.heard(rank);
  });
  StartTicks();
  SendQuestions();
  for (const std::uint32_t rank : silent) lost_(rank);
}

}  // namespace cuspan
