// The locks of an agent's host, for its run: does with node locks what the head agent asks, and
// tells it of changes.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/base/poller.h"
#include "launcher/agent/base/roles.h"
#include "launcher/allocator/node_locks.h"
#include "ops.gen.h"
#include "protocol/wire/frame.h"

namespace cuspan {

// One thread. Nothing here waits: what another run is at just now is tried again soon. While the
// run waits, changes in the folder are noticed by inotify, and the deaths of other runs, which
// change no file, by looking four times a second.
class LeaseKeeper {
 public:
  struct Answers {
    std::function<void(const LeaseView&)> view;
    std::function<void(const LeaseTaken&)> taken;
  };

  // `poller` outlives it; `host` is this node's name.
  LeaseKeeper(Poller& poller, std::string host) : poller_(poller), host_(std::move(host)) {}
  ~LeaseKeeper();
  // Where answers go: later, from the poller, never from within a call.
  void SetAnswers(Answers answers) CUSPAN_REQUIRES(agent_thread) { answers_ = std::move(answers); }
  // Called once when this process is asked to end (SIGTERM) while the run has a ticket here; what
  // the run has is given back behind it, and the process ends by that signal.
  void SetTerminate(std::function<void()> terminate) CUSPAN_REQUIRES(agent_thread) {
    terminate_ = std::move(terminate);
  }

  // A message of the head agent; false when it is none for a keeper.
  bool TakeControl(std::uint32_t rank, const Frame& frame) CUSPAN_REQUIRES(agent_thread);
  void Enter(const LeaseEnter& enter) CUSPAN_REQUIRES(agent_thread);
  void Look(const LeaseLook& look) CUSPAN_REQUIRES(agent_thread);
  void Take(const LeaseTake& take) CUSPAN_REQUIRES(agent_thread);
  void GiveBack() CUSPAN_REQUIRES(agent_thread);
  void Settle() CUSPAN_REQUIRES(agent_thread);

  // Gives back everything: the run is over here, and nothing of it uses a GPU any more.
  void Leave() CUSPAN_REQUIRES(agent_thread);
  // The lock of a GPU that the run has, which the proxies on it inherit; -1 if it has it not.
  int LeaseFd(const DeviceDescription& device) const CUSPAN_REQUIRES(agent_thread);

 private:
  // One thing to do; false when it has to be tried again.
  using Step = std::function<bool()>;
  void Add(Step step) CUSPAN_REQUIRES(agent_thread);
  void Run() CUSPAN_REQUIRES(agent_thread);
  // After a step that found the queue locked.
  void LookWhoIsBusy() CUSPAN_REQUIRES(agent_thread);
  // Names the process that has had the queue for too long, once.
  void TellBusy() CUSPAN_REQUIRES(agent_thread);
  Status Open() CUSPAN_REQUIRES(agent_thread);
  // Sends a view if it differs from the last, or in any case.
  bool SendView(bool in_any_case) CUSPAN_REQUIRES(agent_thread);
  void SendProblem(const Status& problem) CUSPAN_REQUIRES(agent_thread);
  void Watch() CUSPAN_REQUIRES(agent_thread);
  void StopWatching() CUSPAN_REQUIRES(agent_thread);
  void TakeChanges() CUSPAN_REQUIRES(agent_thread);
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
  bool entering_ = false;  // False: the process only looks, as cuspan queue does.
  std::optional<std::chrono::steady_clock::time_point> busy_since_;  // Of the first step.
  std::string busy_holder_;                                          // Has the queue since then.
  bool told_busy_ = false;
  Poller::TimerId steps_timer_ = 0;  // 0: none.
  Poller::TimerId look_timer_ = 0;
  Poller::TimerId poll_timer_ = 0;
  UniqueFd changes_;  // Of the folder; also without it the run is told, later.
  UniqueFd signal_;
  bool watching_ = false;
  std::vector<std::byte> last_view_;
};

}  // namespace cuspan
