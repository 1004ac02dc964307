// Locks of an agent's host for its run: executes the head agent's requests with NodeLocks, and
// reports changes to it.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/base/control_table.h"
#include "launcher/agent/base/poller.h"
#include "launcher/agent/base/roles.h"
#include "launcher/allocator/node_locks.h"
#include "ops.gen.h"

namespace cuspan {

// Threads: one. No call blocks: if another run has locked the queue, the request is retried soon.
// While the run waits, changes in the folder are reported by inotify. The death of another run
// changes no file and is found by polling, four times a second.
class LeaseKeeper {
 public:
  struct Answers {
    std::function<void(const LeaseView&)> view;
    std::function<void(const LeaseTaken&)> taken;
  };

  // `poller` outlives it; `host`: name of this node.
  LeaseKeeper(Poller& poller, std::string host) : poller_(poller), host_(std::move(host)) {}
  ~LeaseKeeper();
  // Receiver of answers, called later by the poller and never within a call.
  void SetAnswers(Answers answers) CUSPAN_REQUIRES(agent_thread) { answers_ = std::move(answers); }
  // Called once if this process gets SIGTERM while the run has a ticket here. Then the run's locks
  // are released and the process ends by the signal.
  void SetTerminate(std::function<void()> terminate) CUSPAN_REQUIRES(agent_thread) {
    terminate_ = std::move(terminate);
  }

  // Registers the handlers of the head agent's requests.
  void Register(ControlTable& control) CUSPAN_REQUIRES(agent_thread);
  void Enter(const LeaseEnter& enter) CUSPAN_REQUIRES(agent_thread);
  void Query(const LeaseQuery& query) CUSPAN_REQUIRES(agent_thread);
  void Take(const LeaseTake& take) CUSPAN_REQUIRES(agent_thread);
  void GiveBack() CUSPAN_REQUIRES(agent_thread);
  void Settle() CUSPAN_REQUIRES(agent_thread);

  // Releases everything. The run is over here, and none of its processes uses a GPU any more.
  void Leave() CUSPAN_REQUIRES(agent_thread);
  // Descriptor of the lock on a GPU of the run, inherited by its proxies; -1 if the run does not
  // have the GPU.
  int LeaseFd(const DeviceDescription& device) const CUSPAN_REQUIRES(agent_thread);

 private:
  // One action; false if it must be retried.
  using Step = std::function<bool()>;
  void Add(Step step) CUSPAN_REQUIRES(agent_thread);
  void Run() CUSPAN_REQUIRES(agent_thread);
  // Called after a step has found the queue locked.
  void CheckBusy() CUSPAN_REQUIRES(agent_thread);
  // Reports the process holding the queue for too long, once.
  void ReportBusy() CUSPAN_REQUIRES(agent_thread);
  Status Open() CUSPAN_REQUIRES(agent_thread);
  // Sends a view if it differs from the last one, or in any case.
  bool SendView(bool in_any_case) CUSPAN_REQUIRES(agent_thread);
  void SendProblem(const Status& problem) CUSPAN_REQUIRES(agent_thread);
  void Watch() CUSPAN_REQUIRES(agent_thread);
  void StopWatching() CUSPAN_REQUIRES(agent_thread);
  void ReceiveChanges() CUSPAN_REQUIRES(agent_thread);
  void PollLater() CUSPAN_REQUIRES(agent_thread);
  void QueryLater(std::chrono::milliseconds delay, bool in_any_case) CUSPAN_REQUIRES(agent_thread);
  void WatchSignal() CUSPAN_REQUIRES(agent_thread);
  void Terminate() CUSPAN_REQUIRES(agent_thread);

  Poller& poller_;
  const std::string host_;
  Answers answers_;
  std::function<void()> terminate_;
  std::optional<NodeLocks> locks_;
  std::vector<std::string> gpus_;
  std::deque<Step> steps_;
  bool entering_ = false;  // False: only queries, as cuspan queue does.
  std::optional<std::chrono::steady_clock::time_point> busy_since_;  // Set while a step waits.
  std::string busy_holder_;                                          // Holder of the queue then.
  bool reported_busy_ = false;
  Poller::TimerId steps_timer_ = 0;  // 0: not set.
  Poller::TimerId query_timer_ = 0;
  Poller::TimerId poll_timer_ = 0;
  UniqueFd changes_;  // An inotify; without it, changes are found by polling.
  UniqueFd signal_;
  bool watching_ = false;
  std::vector<std::byte> last_view_;
};

}  // namespace cuspan
