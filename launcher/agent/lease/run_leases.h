// Lease store based on node locks: the head agent asks the keeper of each host, its own directly
// and the others by messages.
#pragma once

#include <map>
#include <optional>

#include "launcher/agent/base/control_table.h"
#include "launcher/agent/base/roles.h"
#include "launcher/agent/lease/lease_keeper.h"
#include "launcher/agent/lease/run_devices.h"
#include "launcher/agent/relay/relay.h"
#include "launcher/allocator/allocation.h"

namespace cuspan {

// Threads: one. At most one object per agent.
class RunLeases : public LeaseStore {
 public:
  // `own`: this agent's keeper. `relay`: to the others; null in a run of one agent. Both outlive
  // it, like `control`, which calls it for their answers. `ticket`: data about the run shown to
  // others. `terms`: sharing of its GPUs.
  RunLeases(const RunPool& pool, LeaseKeeper& own, Relay* relay, ControlTable& control,
            LeaseTicket ticket, const ShareTerms& terms) CUSPAN_REQUIRES(agent_thread);
  ~RunLeases() override;

  // Receiver of answers; set it before any request.
  void SetEvents(LeaseEvents* events) CUSPAN_REQUIRES(agent_thread) { events_ = events; }

  void Enter(std::uint32_t host, const std::vector<std::string>& gpus)
      CUSPAN_REQUIRES(agent_thread) override;
  void Query(std::uint32_t host, const std::vector<std::string>& gpus)
      CUSPAN_REQUIRES(agent_thread) override;
  void Take(std::uint32_t host, std::uint32_t attempt, const std::vector<std::string>& gpus)
      CUSPAN_REQUIRES(agent_thread) override;
  void GiveBack(std::uint32_t host) CUSPAN_REQUIRES(agent_thread) override;
  void Settle(std::uint32_t host) CUSPAN_REQUIRES(agent_thread) override;

 private:
  // Number of the host with locks kept by this agent, if any.
  std::optional<std::uint32_t> HostOf(std::uint32_t rank) const CUSPAN_REQUIRES(agent_thread);
  // Passes a request to the host's keeper, by `here` or by `message`.
  template <typename Here, typename Message>
  void Ask(std::uint32_t host, Here here, const Message& message) CUSPAN_REQUIRES(agent_thread);

  std::vector<std::uint32_t> keepers_;  // Ranks of agents, by host.
  // Memory sizes of the pool's GPUs in bytes, by host and GPU key.
  std::map<std::pair<std::uint32_t, std::string>, std::uint64_t> memory_;
  LeaseKeeper& own_;
  Relay* const relay_;
  ControlTable& control_;
  const LeaseTicket ticket_;
  const ShareTerms terms_;
  LeaseEvents* events_ = nullptr;
};

// Collects the lock states of a run's hosts without taking anything.
class LeaseSurvey : public LeaseEvents {
 public:
  LeaseSurvey(const RunPool& pool, LeaseStore& store) : pool_(pool), store_(store) {}
  void Start() CUSPAN_REQUIRES(agent_thread);
  void ReceiveView(std::uint32_t host, const LeaseView& view)
      CUSPAN_REQUIRES(agent_thread) override;
  void ReceiveAnswer(std::uint32_t, const LeaseTaken&) CUSPAN_REQUIRES(agent_thread) override {}

  bool done() const CUSPAN_REQUIRES(agent_thread) { return missing_ == 0; }
  const std::vector<LeaseTicket>& tickets() const CUSPAN_REQUIRES(agent_thread) { return tickets_; }
  const std::vector<SharedGpu>& shared() const CUSPAN_REQUIRES(agent_thread) { return shared_; }
  bool Holds(std::uint32_t host, const std::string& key) const CUSPAN_REQUIRES(agent_thread);
  const std::vector<std::string>& problems() const CUSPAN_REQUIRES(agent_thread) {
    return problems_;
  }

 private:
  const RunPool& pool_;
  LeaseStore& store_;
  std::vector<std::optional<LeaseView>> views_;
  std::uint32_t missing_ = 0;
  std::vector<LeaseTicket> tickets_;
  std::vector<SharedGpu> shared_;
  std::vector<std::string> problems_;  // Sentences.
};

}  // namespace cuspan
