// How a run comes to its GPUs: enters the queues of its hosts, lets the policy choose from what is
// free, takes that on all hosts or nowhere, and begins again when something has changed. Knows no
// processes and no messages; the order of service is argued in node_locks.h.
#pragma once

#include <optional>

#include "launcher/allocator/lease_store.h"
#include "launcher/allocator/policy.h"

namespace cuspan {

// What an allocation is about.
struct AllocationPlan {
  GpuPool pool;
  std::vector<std::string> keys;   // By GPU: its name in the store; empty where it is not leased.
  std::vector<std::string> hosts;  // By host of the pool: its name, for people.
  AllocationRequest request;
  std::uint64_t order = 0;  // The run's place in every queue,
  std::string run;          // and its id, which tells runs of the same moment apart.
  // The batch job of the run, owner of all GPUs of the pool, and their names on their hosts, by
  // GPU; empty without such a job.
  std::string job;
  std::vector<std::string> names;
  bool wait = true;  // Otherwise what can not be had at once is a failure.
};

// One thread.
class Allocation : public LeaseEvents {
 public:
  // Both outlive it. `plan.request` can be met some time (Decide).
  Allocation(const AllocationPlan& plan, LeaseStore& store);

  void Start();
  void TakeView(std::uint32_t host, const LeaseView& view) override;
  void TakeAnswer(std::uint32_t host, const LeaseTaken& answer) override;
  // No longer than this: fails unless it is done.
  void GiveUp(const std::string& why);

  bool done() const { return outcome_.has_value(); }
  // When done: the GPUs, which the run has now, or why there are none.
  const Result<std::vector<std::uint32_t>>& outcome() const { return *outcome_; }
  // Whether it has looked and could not have what it wants.
  bool waiting() const { return state_ == State::kWaiting && !done(); }
  // What it waits for and who has it, as the end of a sentence: "2 GPUs of n1, n2: …".
  std::string WaitedFor() const;
  // A sentence about the first GPU of this run's batch job with a lease of a run from elsewhere,
  // and about the remedy. Otherwise empty.
  std::string Disagreement() const;

 private:
  enum class State { kLooking, kWaiting, kTaking };
  struct Host {
    bool entered = false;
    std::optional<LeaseView> view;
    bool asked = false;  // In this attempt,
    bool taken = false;  // and granted.
  };

  // With a view of each place.
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
  State state_ = State::kLooking;
  std::vector<Host> hosts_;
  std::uint32_t attempt_ = 0;
  std::vector<std::uint32_t> wanted_;  // Of this attempt.
  std::optional<Result<std::vector<std::uint32_t>>> outcome_;
};

// "2 GPUs", "all GPUs", "a GPU".
std::string AmountText(const AllocationRequest& request);

}  // namespace cuspan
