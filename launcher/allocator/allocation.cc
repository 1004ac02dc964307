#include "launcher/allocator/allocation.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "common/format.h"
#include "common/scheduling/time_slices.h"

namespace cuspan {
namespace {

// Maximum number of runs or reasons in a message; there may be hundreds.
constexpr std::size_t kMaxNamed = 3;

template <typename Strings>
std::string Joined(const Strings& parts, const char* separator) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : separator) + part;
  return text;
}

}  // namespace

std::string AmountText(const AllocationRequest& request) {
  switch (request.amount) {
    case AllocationRequest::Amount::kAll:
      return "all GPUs";
    case AllocationRequest::Amount::kAllFree:
      return "a GPU";
    case AllocationRequest::Amount::kNumber:
      break;
  }
  return request.number == 1 ? "1 GPU" : Format("{} GPUs", request.number);
}

Allocation::Allocation(const AllocationPlan& plan, LeaseStore& store)
    : plan_(plan), store_(store), hosts_(plan.pool.hosts.size()) {}

std::uint32_t Allocation::HostOf(std::uint32_t gpu) const {
  const auto after = std::upper_bound(
      plan_.pool.hosts.begin(), plan_.pool.hosts.end(), gpu,
      [](std::uint32_t wanted, const PoolHost& host) { return wanted < host.first + host.count; });
  return static_cast<std::uint32_t>(after - plan_.pool.hosts.begin());
}

void Allocation::Start() {
  bool entered = false;
  for (std::uint32_t number = 0; number < hosts_.size(); ++number) {
    const PoolHost& host = plan_.pool.hosts[number];
    std::vector<std::string> keys;
    for (std::uint32_t gpu = host.first; gpu < host.first + host.count; ++gpu)
      if (!plan_.keys[gpu].empty() && Fits(plan_.pool.gpus[gpu], plan_.request))
        keys.push_back(plan_.keys[gpu]);
    // A host without GPUs for this run does not delay it.
    if (keys.empty()) continue;
    hosts_[number].entered = entered = true;
    store_.Enter(number, keys);
  }
  if (!entered) Try();
}

bool Allocation::IsAhead(const LeaseTicket& ticket) const {
  return ticket.waiting && std::tie(ticket.order, ticket.run) < std::tie(plan_.order, plan_.run);
}

PoolLeases Allocation::Leases() const {
  PoolLeases leases(plan_.pool);
  for (std::uint32_t number = 0; number < hosts_.size(); ++number) {
    if (!hosts_[number].view) continue;
    const LeaseView& view = *hosts_[number].view;
    const std::set<std::string> held(view.held.begin(), view.held.end());
    const PoolHost& host = plan_.pool.hosts[number];
    for (std::uint32_t gpu = host.first; gpu < host.first + host.count; ++gpu)
      leases.held[gpu] = held.contains(plan_.keys[gpu]);
    for (const SharedGpu& shared : view.shared) AddLoad(host, shared, leases);
    leases.closed[number] =
        std::any_of(view.tickets.begin(), view.tickets.end(),
                    [this](const LeaseTicket& ticket) { return IsAhead(ticket); });
  }
  return leases;
}

void Allocation::AddLoad(const PoolHost& host, const SharedGpu& shared, PoolLeases& leases) const {
  const auto first = plan_.keys.begin() + host.first;
  const auto found = std::find(first, first + host.count, shared.gpu);
  if (found == first + host.count) return;
  if (leases.loads.empty()) leases.loads.resize(plan_.pool.gpus.size());
  GpuLoad& load = leases.loads[static_cast<std::size_t>(found - plan_.keys.begin())];
  for (const SharingRun& run : shared.runs)
    load.Add(std::min(run.terms.quota, scheduling::kWhole), std::max(run.terms.memory, run.memory),
             scheduling::BottleneckOf(run.bottleneck));
}

void Allocation::ReceiveView(std::uint32_t host, const LeaseView& view) {
  if (done() || host >= hosts_.size() || !hosts_[host].entered) return;
  if (!view.problem.empty()) {
    ReturnAll();
    return Finish(Status::Unavailable("the GPUs of host {}: {}", plan_.hosts[host], view.problem));
  }
  hosts_[host].view = view;
  if (state_ != State::kTaking) Try();
}

void Allocation::Try() {
  for (const Host& host : hosts_)
    if (host.entered && !host.view) return;
  Decision decision = Decide(plan_.pool, Leases(), plan_.request);
  if (decision.verdict == Decision::Verdict::kChosen) return Take(decision.gpus);
  state_ = State::kWaiting;
  if (plan_.wait) return;
  const std::string why = WaitedFor();
  ReturnAll();
  Finish(Status::Unavailable("not available now: {}; omit --no-wait to wait", why));
}

void Allocation::Take(const std::vector<std::uint32_t>& gpus) {
  state_ = State::kTaking;
  wanted_ = gpus;
  ++attempt_;
  std::map<std::uint32_t, std::vector<std::string>> keys;
  for (const std::uint32_t gpu : gpus)
    if (!plan_.keys[gpu].empty()) keys[HostOf(gpu)].push_back(plan_.keys[gpu]);
  for (Host& host : hosts_) host.asked = host.taken = false;
  for (const auto& [host, unused] : keys) hosts_[host].asked = true;
  if (keys.empty()) return Finish(wanted_);
  for (const auto& [host, wanted] : keys) store_.Take(host, attempt_, wanted);
}

void Allocation::ReceiveAnswer(std::uint32_t host, const LeaseTaken& answer) {
  if (done() || state_ != State::kTaking || answer.attempt != attempt_ || host >= hosts_.size() ||
      !hosts_[host].asked)
    return;
  if (!answer.problem.empty()) {
    ReturnAll();
    return Finish(
        Status::Unavailable("the GPUs of host {}: {}", plan_.hosts[host], answer.problem));
  }
  hosts_[host].asked = false;
  hosts_[host].taken = answer.taken;
  // After a refusal, the store sends a new view; the attempt continues from it.
  if (!answer.taken) hosts_[host].view.reset();
  if (std::any_of(hosts_.begin(), hosts_.end(), [](const Host& other) { return other.asked; }))
    return;
  const bool refused = std::any_of(hosts_.begin(), hosts_.end(),
                                   [](const Host& other) { return other.entered && !other.view; });
  if (!refused) return Finish(wanted_);
  state_ = State::kWaiting;
  for (std::uint32_t number = 0; number < hosts_.size(); ++number)
    if (hosts_[number].taken) store_.GiveBack(number);
  Try();
}

void Allocation::ReturnAll() {
  // Anything left, including the tickets, is released at the end of the run.
  for (std::uint32_t number = 0; number < hosts_.size(); ++number)
    if (hosts_[number].entered) store_.GiveBack(number);
}

void Allocation::Finish(Result<std::vector<std::uint32_t>> outcome) {
  // If the run holds nothing, Settle leaves the queue.
  for (std::uint32_t number = 0; number < hosts_.size(); ++number)
    if (hosts_[number].entered) store_.Settle(number);
  outcome_ = std::move(outcome);
}

void Allocation::GiveUp(const std::string& why) {
  if (done()) return;
  const std::string text = WaitedFor();
  ReturnAll();
  Finish(Status::Unavailable("{}: {}", why, text));
}

std::string Allocation::Disagreement() const {
  if (plan_.job.empty()) return {};
  std::string text;
  std::size_t more = 0;
  for (std::uint32_t number = 0; number < hosts_.size(); ++number) {
    if (!hosts_[number].view) continue;
    const LeaseView& view = *hosts_[number].view;
    const std::set<std::string> held(view.held.begin(), view.held.end());
    const PoolHost& host = plan_.pool.hosts[number];
    for (std::uint32_t gpu = host.first; gpu < host.first + host.count; ++gpu) {
      if (!held.contains(plan_.keys[gpu])) continue;
      const auto holder =
          std::find_if(view.tickets.begin(), view.tickets.end(), [&](const LeaseTicket& ticket) {
            return ticket.job != plan_.job && std::find(ticket.gpus.begin(), ticket.gpus.end(),
                                                        plan_.keys[gpu]) != ticket.gpus.end();
          });
      if (holder == view.tickets.end() || !text.empty()) {
        more += holder == view.tickets.end() ? 0 : 1;
        continue;
      }
      const std::string job =
          holder->job.empty() ? std::string("no job") : Format("job {}", holder->job);
      text = Format(
          "the batch system gave {} of host {} to job {}, but run {} of {} ({}, {}) holds a lease "
          "of it: end that run, or start it in its own job",
          plan_.names[gpu], plan_.hosts[number], plan_.job, holder->run, holder->user,
          holder->program.empty() ? "unknown program" : holder->program, job);
    }
  }
  if (more != 0) AppendFormat(text, " (and {} more GPUs likewise)", more);
  return text;
}

std::string Allocation::WaitedFor() const {
  std::vector<std::string> names;
  std::map<std::pair<std::uint64_t, std::string>, std::string> ahead;  // Value: the user.
  struct Holding {
    std::string text;
    std::set<std::string> hosts;
  };
  std::map<std::pair<std::uint64_t, std::string>, Holding> holders;
  std::set<std::string> full;  // Reasons for shared GPUs being unavailable.
  std::size_t unnamed = 0;
  for (std::uint32_t number = 0; number < hosts_.size(); ++number) {
    if (!hosts_[number].entered) continue;
    names.push_back(plan_.hosts[number]);
    if (!hosts_[number].view) continue;
    const LeaseView& view = *hosts_[number].view;
    const std::set<std::string> held(view.held.begin(), view.held.end());
    // A shared GPU has several holders.
    std::set<std::string> without_holder = held;
    full.insert(view.full.begin(), view.full.end());
    for (const LeaseTicket& ticket : view.tickets) {
      if (IsAhead(ticket)) ahead[{ticket.order, ticket.run}] = ticket.user;
      bool holds = false;
      for (const std::string& gpu : ticket.gpus) {
        holds = holds || held.contains(gpu);
        without_holder.erase(gpu);
      }
      if (!holds) continue;
      Holding& holding = holders[{ticket.order, ticket.run}];
      holding.text = Format("run {} of {} ({})", ticket.run, ticket.user,
                            ticket.program.empty() ? "unknown program" : ticket.program);
      holding.hosts.insert(plan_.hosts[number]);
    }
    unnamed += without_holder.size();
  }
  std::vector<std::string> reasons;
  for (const auto& [unused, holding] : holders) {
    if (reasons.size() == kMaxNamed) {
      reasons.push_back(Format("{} more runs", holders.size() - kMaxNamed));
      break;
    }
    reasons.push_back(Format("{} on {}", holding.text, Joined(holding.hosts, ", ")));
  }
  // If another process holds a lock, `full` names it below.
  if (unnamed != 0)
    reasons.push_back(full.empty()
                          ? Format("{} GPUs held by runs that are starting or ending", unnamed)
                          : Format("others ({} GPUs)", unnamed));
  std::string text = Format("{} of {}", AmountText(plan_.request), Joined(names, ", "));
  if (!reasons.empty()) text += ": held by " + Joined(reasons, ", ");
  if (full.size() > kMaxNamed) full.erase(std::next(full.begin(), kMaxNamed), full.end());
  if (!full.empty()) AppendFormat(text, " ({})", Joined(full, "; "));
  if (!ahead.empty())
    AppendFormat(text, "{} {} ahead in the queue", reasons.empty() ? ":" : ";",
                 ahead.size() == 1
                     ? Format("run {} of {} is", ahead.begin()->first.second, ahead.begin()->second)
                     : Format("{} runs are", ahead.size()));
  if (const std::string disagreement = Disagreement(); !disagreement.empty())
    AppendFormat(text, "; {}", disagreement);
  return text;
}

}  // namespace cuspan
