#include "launcher/agent/lease/lease_keeper.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/find_command.h"
#include "common/log.h"
#include "common/settings.h"
#include "launcher/allocator/ticket.h"
#include "launcher/run/lease_key.h"

namespace cuspan {
namespace {

using std::chrono::milliseconds;

// Retry delay for a locked queue: other runs hold it for less than this.
constexpr milliseconds kBusyPause{2};
// If a process holds the queue for longer, it is not a run or was stopped.
constexpr milliseconds kBusyLimit{1'000};
// Delay after a change: several come together, for example when a run releases everything.
constexpr milliseconds kChangePause{1};
constexpr milliseconds kRefusedPause{20};
constexpr milliseconds kPollPause{250};
// Maximum bytes of tickets in a view, leaving room for the rest of the message.
constexpr std::size_t kTicketsBytes = kMaxFrameBytes / 2;

// Writing end of the pipe for SIGTERM, for the only keeper of this process.
int g_signal_pipe = -1;

void HandleSignal(int) {
  const int error = errno;
  const char byte = 1;
  [[maybe_unused]] const ssize_t written = ::write(g_signal_pipe, &byte, 1);
  errno = error;
}

// Waiting runs come first, since their order matters to others; the other tickets follow as far as
// the message has room. Shared GPUs fill the rest of it: for missing ones, the tickets name the
// runs.
LeaseView MakeView(NodeView view) {
  LeaseView made;
  made.held = std::move(view.held);
  made.full = std::move(view.full);
  std::stable_partition(view.tickets.begin(), view.tickets.end(),
                        [](const LeaseTicket& ticket) { return ticket.waiting; });
  std::size_t bytes = 0;
  for (LeaseTicket& ticket : view.tickets) {
    bytes += EncodedSize(ticket);
    if (bytes > kTicketsBytes)
      ++made.more;
    else
      made.tickets.push_back(std::move(ticket));
  }
  bytes = sizeof(FrameHeader) + EncodedSize(made);
  for (SharedGpu& gpu : view.shared) {
    const std::size_t more = EncodedSize(gpu);
    if (bytes + more > kMaxFrameBytes) continue;
    bytes += more;
    made.shared.push_back(std::move(gpu));
  }
  return made;
}

// Software GPUs need no MPS to run several processes at once.
Status CheckMps(const std::vector<std::string>& gpus) {
  if (std::all_of(gpus.begin(), gpus.end(), IsSoftwareKey) || FindMpsControl().ok())
    return Status::Ok();
  return Status::NotFound("--share=pair needs NVIDIA's MPS ({}): install it, or use --share",
                          SettingText(settings::kMpsControl));
}

}  // namespace

LeaseKeeper::~LeaseKeeper() {
  Leave();
  for (const Poller::TimerId timer : {steps_timer_, query_timer_})
    if (timer != 0) poller_.Cancel(timer);
}

void LeaseKeeper::Register(ControlTable& control) {
  using From = ControlTable::From;
  control.Handle<LeaseEnter>(From::kHead, [this](std::uint32_t, const LeaseEnter& enter)
                                              CUSPAN_REQUIRES(agent_thread) { Enter(enter); });
  control.Handle<LeaseQuery>(From::kHead, [this](std::uint32_t, const LeaseQuery& query)
                                              CUSPAN_REQUIRES(agent_thread) { Query(query); });
  control.Handle<LeaseTake>(From::kHead, [this](std::uint32_t, const LeaseTake& take)
                                             CUSPAN_REQUIRES(agent_thread) { Take(take); });
  control.Handle<LeaseGiveBack>(From::kHead, [this](std::uint32_t, const LeaseGiveBack&)
                                                 CUSPAN_REQUIRES(agent_thread) { GiveBack(); });
  control.Handle<LeaseSettle>(From::kHead, [this](std::uint32_t, const LeaseSettle&)
                                               CUSPAN_REQUIRES(agent_thread) { Settle(); });
}

// --- Steps, executed in order.

void LeaseKeeper::Add(Step step) {
  steps_.push_back(std::move(step));
  if (steps_timer_ == 0)
    steps_timer_ =
        poller_.After(milliseconds(0), [this]() CUSPAN_REQUIRES(agent_thread) { Run(); });
}

void LeaseKeeper::Run() {
  steps_timer_ = 0;
  while (!steps_.empty()) {
    if (!steps_.front()()) {
      CheckBusy();
      steps_timer_ = poller_.After(reported_busy_ ? kPollPause : kBusyPause,
                                   [this]() CUSPAN_REQUIRES(agent_thread) { Run(); });
      return;
    }
    busy_since_.reset();
    reported_busy_ = false;
    steps_.pop_front();
  }
}

void LeaseKeeper::CheckBusy() {
  const auto now = std::chrono::steady_clock::now();
  if (!busy_since_) {
    busy_since_ = now;
    busy_holder_ = locks_->QueueHolder();
  }
  if (reported_busy_ || now - *busy_since_ < kBusyLimit) return;
  // Different runs may have held it one after the other, each briefly.
  if (locks_->QueueHolder() == busy_holder_)
    ReportBusy();
  else
    busy_since_.reset();
}

void LeaseKeeper::ReportBusy() {
  reported_busy_ = true;
  if (!entering_) return SendProblem(Status::Unavailable("{}", locks_->QueueHolder()));
  LogWarn("waiting for the GPU locks of host {}: {}", host_, locks_->QueueHolder());
  // Reports all GPUs as held: the run waits, as for other runs' GPUs, or gives up.
  LeaseView view;
  view.held = gpus_;
  view.full = {locks_->QueueHolder()};
  last_view_.clear();
  answers_.view(view);
}

Status LeaseKeeper::Open() {
  if (locks_) return Status::Ok();
  CUSPAN_ASSIGN_OR_RETURN(NodeLocks locks, NodeLocks::Open(host_));
  locks_.emplace(std::move(locks));
  return Status::Ok();
}

void LeaseKeeper::SendProblem(const Status& problem) {
  LeaseView view;
  view.problem = problem.message();
  answers_.view(view);
}

bool LeaseKeeper::SendView(bool in_any_case) {
  NodeView found;
  const Result<NodeLocks::Outcome> looked = locks_->Query(gpus_, found);
  if (!looked.ok()) {
    SendProblem(looked.status());
    return true;
  }
  if (*looked == NodeLocks::Outcome::kBusy) return false;
  const LeaseView view = MakeView(std::move(found));
  std::vector<std::byte> bytes = MakeFrame(view);
  if (!in_any_case && bytes == last_view_) return true;
  last_view_ = std::move(bytes);
  answers_.view(view);
  return true;
}

void LeaseKeeper::Enter(const LeaseEnter& enter) {
  gpus_.clear();
  std::copy_if(enter.gpus.begin(), enter.gpus.end(), std::back_inserter(gpus_), IsGpuKey);
  std::map<std::string, std::uint64_t> memory;
  for (std::size_t i = 0; i < enter.gpus.size() && i < enter.memory.size(); ++i)
    memory[enter.gpus[i]] = enter.memory[i];
  LeaseTicket ticket;
  ticket.order = enter.order;
  ticket.run = enter.run;
  ticket.program = enter.program;
  ticket.job = enter.job;
  ticket.wanted = enter.wanted;
  entering_ = true;
  Add([this, ticket, terms = enter.terms,
       memory = std::move(memory)]() CUSPAN_REQUIRES(agent_thread) {
    Status opened = Open();
    if (opened.ok() && terms.pair) opened = CheckMps(gpus_);
    const Result<NodeLocks::Outcome> entered =
        opened.ok() ? locks_->Enter(ticket, terms, memory) : Result<NodeLocks::Outcome>(opened);
    if (!entered.ok()) {
      SendProblem(entered.status());
      return true;
    }
    if (*entered == NodeLocks::Outcome::kBusy) return false;
    WatchSignal();
    Watch();
    Add([this]() CUSPAN_REQUIRES(agent_thread) { return SendView(true); });
    return true;
  });
}

void LeaseKeeper::Query(const LeaseQuery& query) {
  gpus_.clear();
  std::copy_if(query.gpus.begin(), query.gpus.end(), std::back_inserter(gpus_), IsGpuKey);
  Add([this]() CUSPAN_REQUIRES(agent_thread) {
    const Status opened = Open();
    if (opened.ok()) return SendView(true);
    SendProblem(opened);
    return true;
  });
}

void LeaseKeeper::Take(const LeaseTake& take) {
  Add([this, take]() CUSPAN_REQUIRES(agent_thread) {
    LeaseTaken answer;
    answer.attempt = take.attempt;
    const bool sound = locks_ && std::all_of(take.gpus.begin(), take.gpus.end(), IsGpuKey);
    const Result<NodeLocks::Outcome> taken =
        sound ? locks_->Take(take.gpus)
              : Result<NodeLocks::Outcome>(
                    Status::Invalid("invalid names of GPUs, or no position in the queue"));
    if (!taken.ok()) {
      answer.problem = taken.status().message();
    } else if (*taken == NodeLocks::Outcome::kBusy) {
      return false;
    } else {
      answer.taken = *taken == NodeLocks::Outcome::kDone;
    }
    answers_.taken(answer);
    if (!answer.taken) QueryLater(kRefusedPause, true);
    return true;
  });
}

void LeaseKeeper::GiveBack() {
  Add([this] {
    if (locks_) locks_->GiveBack();
    return true;
  });
}

void LeaseKeeper::Settle() {
  Add([this]() CUSPAN_REQUIRES(agent_thread) {
    StopWatching();
    if (!locks_) return true;
    // On failure the run still has its GPUs; only its state shown to other runs is wrong.
    if (const Status settled = locks_->Settle(); !settled.ok()) LogWarn("{}", settled.message());
    return true;
  });
}

void LeaseKeeper::Leave() {
  StopWatching();
  steps_.clear();
  busy_since_.reset();
  reported_busy_ = false;
  if (locks_) locks_->Leave();
  locks_.reset();
}

int LeaseKeeper::LeaseFd(const DeviceDescription& device) const {
  return locks_ ? locks_->LeaseFd(LeaseKey(device)) : -1;
}

// --- Changes.

void LeaseKeeper::Watch() {
  watching_ = true;
  changes_.Reset(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (changes_.valid() &&
      (::inotify_add_watch(changes_.get(), SettingText(settings::kLeaseFolder),
                           IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ONLYDIR) < 0 ||
       !poller_.Watch(changes_.get(), [this]() CUSPAN_REQUIRES(agent_thread) { ReceiveChanges(); })
            .ok()))
    changes_.Reset();
  if (!changes_.valid()) LogInfo("polling the lock directory: {}", strerror(errno));
  PollLater();
}

void LeaseKeeper::PollLater() {
  if (poll_timer_ != 0) return;
  poll_timer_ = poller_.After(kPollPause, [this]() CUSPAN_REQUIRES(agent_thread) {
    poll_timer_ = 0;
    QueryLater(kChangePause, false);
  });
}

void LeaseKeeper::StopWatching() {
  watching_ = false;
  if (changes_.valid()) poller_.Forget(changes_.get());
  changes_.Reset();
  for (Poller::TimerId* timer : {&query_timer_, &poll_timer_})
    if (*timer != 0) poller_.Cancel(std::exchange(*timer, 0));
}

void LeaseKeeper::ReceiveChanges() {
  alignas(inotify_event) char buffer[8192];
  bool ours = false;
  for (;;) {
    const ssize_t got = ::read(changes_.get(), buffer, sizeof buffer);
    if (got <= 0) break;
    for (ssize_t at = 0; at < got;) {
      inotify_event event{};
      std::memcpy(&event, buffer + at, sizeof event);
      const char* const name = buffer + at + sizeof event;
      if ((event.mask & IN_Q_OVERFLOW) != 0) ours = true;
      if (event.len != 0 && std::string_view(name).starts_with("cuspan-") &&
          !std::string_view(name).starts_with("cuspan-queue-"))
        ours = true;
      at += static_cast<ssize_t>(sizeof event + event.len);
    }
  }
  if (ours) QueryLater(kChangePause, false);
}

void LeaseKeeper::QueryLater(milliseconds delay, bool in_any_case) {
  if (query_timer_ != 0) {
    if (!in_any_case) return;
    poller_.Cancel(query_timer_);
  }
  query_timer_ = poller_.After(delay, [this, in_any_case]() CUSPAN_REQUIRES(agent_thread) {
    query_timer_ = 0;
    if (!watching_) return;
    Add([this, in_any_case]()
            CUSPAN_REQUIRES(agent_thread) { return !watching_ || SendView(in_any_case); });
    PollLater();
  });
}

// --- End of this process.

// Uses a handler and no mask: MPI's threads would receive a signal blocked only in this thread.
void LeaseKeeper::WatchSignal() {
  int ends[2];
  if (signal_.valid() || ::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return;
  signal_.Reset(ends[0]);
  g_signal_pipe = ends[1];
  struct sigaction action {};
  action.sa_handler = HandleSignal;
  action.sa_flags = SA_RESTART;
  if (!poller_.Watch(signal_.get(), [this]() CUSPAN_REQUIRES(agent_thread) { Terminate(); }).ok())
    return;
  ::sigaction(SIGTERM, &action, nullptr);
}

void LeaseKeeper::Terminate() {
  if (terminate_) std::exchange(terminate_, {})();
  Leave();
  ::signal(SIGTERM, SIG_DFL);
  ::raise(SIGTERM);
}

}  // namespace cuspan
