// Node locks: leases of one run on the GPUs of one host, and its position in the host's queue
// (ticket.h). They are file locks: the kernel releases them when the run's agent there dies
// (lock_folder.h).
//
// Order. A run enters its ticket on every host it could use before it takes any GPU. No run takes a
// GPU on a host while a live ticket with a smaller (order, run) waits there. Each host checks this
// by itself, with its queue locked. Takes are all or nothing: if one host refuses, the run gives
// back the GPUs taken on the others.
//
// Progress. A waiting run holds no GPU, so runs wait only for runs holding GPUs, and these end. Two
// simultaneous takes can refuse each other only while a ticket of either run is still missing on a
// host. Once all tickets are entered, every shared host puts the same run first, since the order is
// the same everywhere. The first waiting run in this order is first on all of its hosts, and gets
// its GPUs as soon as they are free. So there is no cycle of waiting runs, and each becomes the
// first at some time.
//
// A run with a stopped agent keeps its position and its GPUs. The order depends on the clocks of
// the nodes starting the runs.
//
// Sharing. Sharing runs hold a GPU's lock together. Each has a slot in the GPU's table
// (protocol/sharing/share_table.h) with its promised share. If a run finds no room there, it waits
// as for a GPU held by others. Runs with and without sharing wait in the same queue.
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

// Times of arrival (LeaseTicket::order) allowed for tickets of this host. Other users write
// tickets, and an early time is a position at the head of the queue. Default: all.
struct ArrivalTimes {
  std::uint64_t earliest = 0;               // Nanoseconds since 1970.
  std::uint64_t ahead = ~std::uint64_t{0};  // Maximum lead on this host's clock, in ns.

  // Times since this host was started, with 10 minutes of tolerance on both sides: a run's time
  // comes from the clock of the host that started it.
  static ArrivalTimes OfThisHost();
  bool Allow(std::uint64_t order) const;
};

// State of a host's locks at one moment.
struct NodeView {
  // The requested GPUs that others hold and the run cannot have.
  std::vector<std::string> held;
  std::vector<std::string> full;     // Reasons for held GPUs: phrases.
  std::vector<LeaseTicket> tickets;  // Live tickets of other runs, in order of arrival.
  // Shared GPUs with a table readable by this user. Without a ticket: all of them. With a ticket:
  // those the run can share, with only the data its choice depends on.
  std::vector<SharedGpu> shared;
};

// Threads: one. No call blocks: calls that need the host's queue return kBusy if it is locked.
class NodeLocks {
 public:
  enum class Outcome {
    kDone,
    kBusy,     // Another process has locked the queue: nothing was done; call again soon.
    kRefused,  // Take only: a GPU is taken, or a run is ahead.
  };

  // Uses the folders of the settings, for locks and for the tables of shared GPUs. `host` is this
  // node's name.
  static Result<NodeLocks> Open(const std::string& host);
  static Result<NodeLocks> Open(const std::string& host, const std::string& folder,
                                const std::string& share_folder, LeaseLog log,
                                const ArrivalTimes& times = {});
  NodeLocks(NodeLocks&&) = default;
  NodeLocks& operator=(NodeLocks&&) = delete;
  // Gives back everything and removes this run's files.
  ~NodeLocks();

  // Puts the run's ticket into the queue; fills in its host, user and state. Later calls use these
  // terms. `gpu_memory`: bytes of the GPUs, by key, as far as known.
  Result<Outcome> Enter(LeaseTicket ticket, const ShareTerms& terms = {},
                        std::map<std::string, std::uint64_t> gpu_memory = {});
  // Fills `view`. Files of dead runs are removed if permitted. `gpus` are keys (IsGpuKey). Without
  // a ticket, a shared GPU counts as held.
  Result<Outcome> Query(const std::vector<std::string>& gpus, NodeView& view);
  // Takes all of them if no run is ahead. Requires Enter.
  Result<Outcome> Take(const std::vector<std::string>& gpus);
  // Gives back all GPUs taken and stays in the queue.
  void GiveBack();
  // Keeps the GPUs taken and leaves the queue. If there are none, as Leave.
  Status Settle();
  // Gives back everything, including the ticket.
  void Leave();

  // Text for a message after kBusy: the queue's file and the process that has locked it.
  std::string QueueHolder() const;

  // True if no run holds or awaits a lock here.
  bool Unused() const;
  // Descriptor of the lock on a taken GPU, to be inherited by its proxies; -1 if it was not taken.
  int LeaseFd(const std::string& gpu) const;

 private:
  // The run's hold on a GPU.
  struct Lease {
    UniqueFd lock;
    std::optional<ShareTable> table;  // Set if the run shares the GPU.
  };

  NodeLocks(std::string host, LockFolder folder, std::string share_folder, LeaseLog log,
            const ArrivalTimes& times)
      : host_(std::move(host)),
        folder_(std::move(folder)),
        share_folder_(std::move(share_folder)),
        log_(std::move(log)),
        times_(times) {}
  // Locks the queue; empty if another process has locked it.
  Result<std::optional<UniqueFd>> LockQueue();
  // Reads live tickets of other runs; removes dead ones.
  Status ReadTickets(bool waiting, std::vector<LeaseTicket>& tickets);
  Status RemoveDeadLeases();
  // True if an earlier run waits.
  Result<bool> SomebodyAhead();
  // The table of a GPU shared by others, if this run may share it. Empty for a run without sharing.
  Result<std::optional<ShareTable>> TableOfOthers(const std::string& gpu) const;
  // The holder of a held GPU not listed by any run's ticket: a phrase. Empty if runs explain it.
  std::string StrangerWith(const std::string& gpu, const NodeView& view) const;
  // True if the run could not have the GPU now. If others share it, adds to `view` the reason for
  // no room, or their load.
  Result<bool> IsHeld(const std::string& gpu, NodeView& view);
  // The shared GPUs among `gpus` with a table readable by this user, and their runs.
  std::vector<SharedGpu> SharedOf(const std::vector<std::string>& gpus) const;
  // Empty if others hold it.
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
  std::map<std::string, Lease> leases_;  // Key: the GPU.
  std::map<uid_t, std::string> users_;   // Cache of user names.
};

}  // namespace cuspan
