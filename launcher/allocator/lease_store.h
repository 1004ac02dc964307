// Where leases are kept, as a run's head agent sees it.
//
// A store has one place for each host of a run, with a queue of its own. All calls return at once;
// answers come later, from the same thread, to a LeaseEvents. What a store must do:
//
//   Enter   puts the run's ticket into a place's queue, and from then on tells of every change
//   Look    the same once, without a ticket
//   Take    all of these GPUs or none, and none while a run with a smaller (order, run) waits there
//   GiveBack, Settle  see below; unanswered
//
// and it gives back by itself all that a run has when the run's processes die.
//
// Node locks (node_locks.h) do it with file locks on each host, asked by messages between agents.
// Others fit the same calls. etcd: a ticket and a lease are keys under a time-to-live that the
// agents of the run keep alive; Enter is a put and a watch on the host's prefix, Take one
// transaction that compares "no such lease, no smaller ticket" and puts the leases. Slurm: the
// allocation is Slurm's, hosts and GPUs come from its environment; nobody else is ever seen, and
// every Take is granted.
#pragma once

#include <string>
#include <vector>

#include "ops.gen.h"

namespace cuspan {

// What a store tells. `host` is the place's number.
class LeaseEvents {
 public:
  virtual ~LeaseEvents() = default;
  // What the place says now: after Enter or Look, whenever it has changed, and soon after a Take
  // that was refused. A problem there ends the attempt of the run.
  virtual void TakeView(std::uint32_t host, const LeaseView& view) = 0;
  virtual void TakeAnswer(std::uint32_t host, const LeaseTaken& answer) = 0;
};

// One thread.
class LeaseStore {
 public:
  virtual ~LeaseStore() = default;
  // `gpus`: those that concern the run, by the names that the store has for them.
  virtual void Enter(std::uint32_t host, const std::vector<std::string>& gpus) = 0;
  virtual void Look(std::uint32_t host, const std::vector<std::string>& gpus) = 0;
  // After Enter. `attempt` comes back with the answer.
  virtual void Take(std::uint32_t host, std::uint32_t attempt,
                    const std::vector<std::string>& gpus) = 0;
  // What was taken there; the run keeps its place in the queue.
  virtual void GiveBack(std::uint32_t host) = 0;
  // The run has all that it wants: it leaves the queue, and the place if it has nothing there.
  virtual void Settle(std::uint32_t host) = 0;
};

}  // namespace cuspan
