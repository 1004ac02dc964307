// Node locks: the leases of one run on the GPUs of one host, as locks that the kernel gives back
// when the run's agent there dies (lock_folder.h), and its place in the host's queue (ticket.h).
//
// Order. A run enters its ticket with every host that it could use before it takes a GPU anywhere.
// Nobody takes a GPU on a host where a live ticket with a smaller (order, run) waits; each host
// checks that by itself, while its queue is locked. Takes are all or nothing: what was taken is
// given back when another host refuses.
//
// Nobody waits for ever. A run that waits holds nothing, so only runs that hold and do not wait are
// waited for, and these end. Two runs that take at the same moment and refuse each other can do so
// only while one of their tickets is not everywhere yet: when both are, each of the hosts that they
// share knows which of them is first, and it is the same one on all, since their order is the same
// everywhere. Of all runs that wait, the one that is first in that order is behind nobody on any
// of its hosts: it gets what it wants as soon as that is free. So there is no circle of waiting
// runs, and each becomes the first one some time.
//
// A run whose agent is stopped keeps its place, as it keeps its GPUs. The order is that of the
// clocks of the nodes where the runs are started.
//
// Sharing. A run that shares its GPUs has their locks together with others that do, and a place in
// each GPU's table (protocol/sharing/share_table.h), which knows what they were promised: who finds
// no room there waits as for a GPU that is taken. Runs that share and runs that do not wait for
// each other in the same queue.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/allocator/lease_log.h"
#include "launcher/allocator/lock_folder.h"
#include "protocol/sharing/share_table.h"
#include "structs.gen.h"

namespace cuspan {

// Which times of arrival (LeaseTicket::order) a ticket of this host may have. Others write tickets,
// and an early time is a place at the head of the queue. Default: all.
struct ArrivalTimes {
  std::uint64_t earliest = 0;               // In nanoseconds since 1970.
  std::uint64_t ahead = ~std::uint64_t{0};  // Of this host's clock, at most so much.

  // Since this host was started; 10 minutes more on both sides, as a run's time is by the clock of
  // the host where it was started.
  static ArrivalTimes OfThisHost();
  bool Allow(std::uint64_t order) const;
};

// What a host's locks say at one moment.
struct NodeView {
  // Of the GPUs that were asked for: those that the run can not have, since others have them.
  std::vector<std::string> held;
  std::vector<std::string> full;     // Why it can not share those that are shared: phrases.
  std::vector<LeaseTicket> tickets;  // Live ones of other runs, in the order of arrival.
  // Those that runs share whose table this user may use: all of them where the run has no ticket,
  // otherwise those that it can have as well, and only what its choice depends on.
  std::vector<SharedGpu> shared;
};

// One thread. No call waits: those that need the host's queue say when another has it.
class NodeLocks {
 public:
  enum class Outcome {
    kDone,
    kBusy,     // Another looks or takes just now: nothing was done; to be called again soon.
    kRefused,  // Of Take: something of it is taken, or a run is ahead.
  };

  // In the folders of the settings: that of the locks, and that of the tables of shared GPUs.
  // `host` is this node's name.
  static Result<NodeLocks> Open(const std::string& host);
  static Result<NodeLocks> Open(const std::string& host, const std::string& folder,
                                const std::string& share_folder, LeaseLog log,
                                const ArrivalTimes& times = {});
  NodeLocks(NodeLocks&&) = default;
  NodeLocks& operator=(NodeLocks&&) = delete;
  // Gives everything back and leaves no file that is ours.
  ~NodeLocks();

  // Puts the run's ticket into the queue. Its host, user and state are filled in. From now on it
  // looks and takes on these terms. `gpu_memory`: bytes that GPUs have, by key, as far as known.
  Result<Outcome> Enter(LeaseTicket ticket, const ShareTerms& terms = {},
                        std::map<std::string, std::uint64_t> gpu_memory = {});
  // Fills `view`. Files of runs that died are removed where we may. `gpus` are keys (IsGpuKey).
  // Without a ticket a GPU that is shared is held.
  Result<Outcome> Look(const std::vector<std::string>& gpus, NodeView& view);
  // Takes all of them, after Enter, if nobody is ahead.
  Result<Outcome> Take(const std::vector<std::string>& gpus);
  // Gives back what was taken and stays in the queue.
  void GiveBack();
  // Keeps what was taken and leaves the queue; without anything leaves altogether.
  Status Settle();
  // Gives back everything, the ticket too.
  void Leave();

  // For a message, after kBusy: the file of the queue, and who has locked it.
  std::string QueueHolder() const;

  // Whether no run has a lock here, or waits for one.
  bool Unused() const;
  // The lock on a GPU that was taken, for its proxies to inherit; -1 if it was not.
  int LeaseFd(const std::string& gpu) const;

 private:
  // What the run has of a GPU.
  struct Lease {
    UniqueFd lock;
    std::optional<ShareTable> table;  // With its place, where it shares the GPU.
  };

  NodeLocks(std::string host, LockFolder folder, std::string share_folder, LeaseLog log,
            const ArrivalTimes& times)
      : host_(std::move(host)),
        folder_(std::move(folder)),
        share_folder_(std::move(share_folder)),
        log_(std::move(log)),
        times_(times) {}
  // The queue's lock; nothing when another has it.
  Result<std::optional<UniqueFd>> LockQueue();
  // Live tickets of other runs; removes dead ones.
  Status ReadTickets(bool waiting, std::vector<LeaseTicket>& tickets);
  Status RemoveDeadLeases();
  // Whether a run that came earlier waits.
  Result<bool> SomebodyAhead();
  // Of a run that shares: the table of a GPU that others share with whom it may.
  Result<std::optional<ShareTable>> TableOfOthers(const std::string& gpu) const;
  // Why a GPU is held that no run says it has: a phrase, empty if runs explain it.
  std::string StrangerWith(const std::string& gpu, const NodeView& view) const;
  // Whether the run could not have the GPU now. Where others share it, `view` is told why there is
  // no room, or what they have of it.
  Result<bool> IsHeld(const std::string& gpu, NodeView& view);
  // Those of the GPUs that runs share whose table this user may use, and what these do.
  std::vector<SharedGpu> SharedOf(const std::vector<std::string>& gpus) const;
  // Nothing when others have it.
  Result<std::optional<Lease>> TakeOne(const std::string& gpu);
  void Drop(const std::string& gpu, Lease& lease);
  void RemoveQueueFile(const UniqueFd& queue);
  LeaseLog::Who Who() const;
  std::string NameOf(uid_t user);

  std::string host_;
  LockFolder folder_;
  std::string share_folder_;
  LeaseLog log_;
  ArrivalTimes times_;
  std::optional<LeaseTicket> ticket_;
  UniqueFd ticket_file_;
  ShareTerms terms_;
  std::map<std::string, std::uint64_t> gpu_memory_;
  std::map<std::string, Lease> leases_;  // By GPU.
  std::map<uid_t, std::string> users_;   // Names that were looked up.
};

}  // namespace cuspan
