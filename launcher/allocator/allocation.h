// Allocation of GPUs to a run. It enters the queues of the run's hosts, chooses from the free GPUs
// by the policy, and takes these on all hosts or on none. After a refusal or a change it starts
// over. It uses no processes and no messages. The order of service is explained in node_locks.h.
#pragma once

#include <optional>

#include "launcher/allocator/lease_store.h"
#include "launcher/allocator/policy.h"

namespace cuspan {

// Input of an allocation.
struct AllocationPlan {
  GpuPool pool;
  std::vector<std::string> keys;   // Key in the store, by GPU; empty if not leased.
  std::vector<std::string> hosts;  // Name for messages, by host of the pool.
  AllocationRequest request;
  std::uint64_t order = 0;  // Position in every queue: LeaseTicket::order.
  std::string run;          // Id, for runs of equal order.
  // The run's batch job, owner of all GPUs of the pool, and the names of these on their hosts, by
  // GPU. Both are empty without a batch job.
  std::string job;
  std::vector<std::string> names;
  bool wait = true;  // False: fails if the GPUs are not free now.
};

// Threads: one.
class Allocation : public LeaseEvents {
 public:
  // Both must outlive it. `plan.request` must be possible at some time (Decide).
  Allocation(const AllocationPlan& plan, LeaseStore& store);

  void Start();
  void ReceiveView(std::uint32_t host, const LeaseView& view) override;
  void ReceiveAnswer(std::uint32_t host, const LeaseTaken& answer) override;
  // Fails the attempt with the reason `why`, unless it is done.
  void GiveUp(const std::string& why);

  bool done() const { return outcome_.has_value(); }
  // Requires done(). The GPUs now held by the run, or the reason for failure.
  const Result<std::vector<std::uint32_t>>& outcome() const { return *outcome_; }
  // True if the requested GPUs were not available at the last attempt.
  bool waiting() const { return state_ == State::kWaiting && !done(); }
  // The requested GPUs and their holders, as the end of a sentence: "2 GPUs of n1, n2: …".
  std::string WaitedFor() const;
  // A sentence about the first GPU of this run's batch job leased to a run of another job, and
  // about the remedy. Otherwise empty.
  std::string Disagreement() const;

 private:
  enum class State { kQuerying, kWaiting, kTaking };
  struct Host {
    bool entered = false;
    std::optional<LeaseView> view;
    bool asked = false;  // True while a Take of this attempt is unanswered.
    bool taken = false;  // Granted in this attempt.
  };

  // Decides once every host entered has sent a view.
  void Try();
  void Take(const std::vector<std::uint32_t>& gpus);
  void Finish(Result<std::vector<std::uint32_t>> outcome);
  void ReturnAll();
  PoolLeases Leases() const;
  void AddLoad(const PoolHost& host, const SharedGpu& shared, PoolLeases& leases) const;
  bool IsAhead(const LeaseTicket& ticket) const;
  std::uint32_t HostOf(std::uint32_t gpu) const;

  const AllocationPlan& plan_;
  LeaseStore& store_;
  State state_ = State::kQuerying;
  std::vector<Host> hosts_;
  std::uint32_t attempt_ = 0;
  std::vector<std::uint32_t> wanted_;  // GPUs of this attempt.
  std::optional<Result<std::vector<std::uint32_t>>> outcome_;
};

// "2 GPUs", "all GPUs", "a GPU".
std::string AmountText(const AllocationRequest& request);

}  // namespace cuspan
