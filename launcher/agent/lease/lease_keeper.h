// The locks of an agent's host, for its run: does with node locks what the home agent asks, and
// tells it of changes.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/base/poller.h"
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
  void SetAnswers(Answers answers) { answers_ = std::move(answers); }
  // Called once when this process is asked to end (SIGTERM) while the run has a ticket here; what
  // the run has is given back behind it, and the process ends by that signal.
  void SetTerminate(std::function<void()> terminate) { terminate_ = std::move(terminate); }

  // A message of the home agent; false when it is none for a keeper.
  bool TakeControl(std::uint32_t rank, const Frame& frame);
  void Enter(const LeaseEnter& enter);
  void Look(const LeaseLook& look);
  void Take(const LeaseTake& take);
  void GiveBack();
  void Settle();

  // Gives back everything: the run is over here, and nothing of it uses a GPU any more.
  void Leave();
  // The lock of a GPU that the run has, which the proxies on it inherit; -1 if it has it not.
  int LeaseFd(const DeviceDescription& device) const;

 private:
  // One thing to do; false when it has to be tried again.
  using Step = std::function<bool()>;
  void Add(Step step);
  void Run();
  // After a step that found the queue locked.
  void LookWhoIsBusy();
  // Names the process that has had the queue for too long, once.
  void TellBusy();
  Status Open();
  // Sends a view if it differs from the last, or in any case.
  bool SendView(bool in_any_case);
  void SendProblem(const Status& problem);
  void Watch();
  void StopWatching();
  void TakeChanges();
  void PollLater();
  void LookLater(std::chrono::milliseconds delay, bool in_any_case);
  void WatchSignal();
  void Terminate();

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
