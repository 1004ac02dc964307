// Interface of a store of leases, as used by a run's head agent.
//
// A store has a queue for each host of a run. All calls return at once; answers come later, in the
// same thread, through LeaseEvents. Requirements:
//
//   Enter     puts the run's ticket into a host's queue, and from then on reports every change
//   Look      reports once, without a ticket
//   Take      takes all of these GPUs or none; none while a run with a smaller (order, run) waits
//   GiveBack, Settle  see below; without an answer
//
// When the processes of a run die, the store releases everything held by the run.
//
// Node locks (node_locks.h) implement this with file locks on each host, used through messages
// between agents. Other implementations are possible. etcd: tickets and leases are keys with a time
// to live, kept alive by the run's agents. Enter is a put and a watch on the host's prefix. Take is
// one transaction: it compares "no such lease, no smaller ticket" and puts the leases. Slurm: hosts
// and GPUs come from the allocation's environment, other runs are never visible, and every Take is
// granted.
#pragma once

#include <string>
#include <vector>

#include "ops.gen.h"

namespace cuspan {

// Receiver of a store's reports. `host` is the number of the host in the pool.
class LeaseEvents {
 public:
  virtual ~LeaseEvents() = default;
  // Receives the state of a host: after Enter or Look, after every change, and soon after a Take
  // was refused. A problem in it ends the run's attempt.
  virtual void ReceiveView(std::uint32_t host, const LeaseView& view) = 0;
  virtual void ReceiveAnswer(std::uint32_t host, const LeaseTaken& answer) = 0;
};

// Threads: one.
class LeaseStore {
 public:
  virtual ~LeaseStore() = default;
  // `gpus`: keys, in the store, of the GPUs relevant to the run.
  virtual void Enter(std::uint32_t host, const std::vector<std::string>& gpus) = 0;
  virtual void Query(std::uint32_t host, const std::vector<std::string>& gpus) = 0;
  // Requires Enter. The answer contains `attempt`.
  virtual void Take(std::uint32_t host, std::uint32_t attempt,
                    const std::vector<std::string>& gpus) = 0;
  // Releases the GPUs taken there; the run keeps its position in the queue.
  virtual void GiveBack(std::uint32_t host) = 0;
  // The run has all its GPUs: it leaves the queue, and the host if it holds nothing there.
  virtual void Settle(std::uint32_t host) = 0;
};

}  // namespace cuspan
