#include "launcher/agent/lease/run_leases.h"

#include <algorithm>
#include <functional>

namespace cuspan {

RunLeases::RunLeases(const RunPool& pool, LeaseKeeper& own, Relay* relay, ControlTable& control,
                     LeaseTicket ticket, const ShareTerms& terms)
    : own_(own), relay_(relay), control_(control), ticket_(std::move(ticket)), terms_(terms) {
  for (std::uint32_t number = 0; number < pool.hosts.size(); ++number) {
    keepers_.push_back(pool.hosts[number].keeper());
    const PoolHost& host = pool.pool.hosts[number];
    for (std::uint32_t gpu = host.first; gpu < host.first + host.count; ++gpu)
      memory_[{number, pool.keys[gpu]}] = pool.pool.gpus[gpu].memory_bytes;
  }
  const auto view = [this](std::uint32_t rank, const LeaseView& view)
                        CUSPAN_REQUIRES(agent_thread) {
                          if (const auto host = HostOf(rank)) events_->ReceiveView(*host, view);
                        };
  const auto taken = [this](std::uint32_t rank, const LeaseTaken& taken)
                         CUSPAN_REQUIRES(agent_thread) {
                           if (const auto host = HostOf(rank)) events_->ReceiveAnswer(*host, taken);
                         };
  own_.SetAnswers({std::bind_front(view, 0U), std::bind_front(taken, 0U)});
  control_.Handle<LeaseView>(ControlTable::From::kWorkers, view);
  control_.Handle<LeaseTaken>(ControlTable::From::kWorkers, taken);
}

RunLeases::~RunLeases() {
  own_.SetAnswers({[](const LeaseView&) {}, [](const LeaseTaken&) {}});
  control_.Forget<LeaseView>();
  control_.Forget<LeaseTaken>();
}

std::optional<std::uint32_t> RunLeases::HostOf(std::uint32_t rank) const {
  const auto found = std::find(keepers_.begin(), keepers_.end(), rank);
  if (found == keepers_.end()) return std::nullopt;
  return static_cast<std::uint32_t>(found - keepers_.begin());
}

template <typename Here, typename Message>
void RunLeases::Ask(std::uint32_t host, Here here, const Message& message) {
  if (keepers_[host] == 0)
    here(message);
  else
    relay_->SendControl(keepers_[host], message);
}

void RunLeases::Enter(std::uint32_t host, const std::vector<std::string>& gpus) {
  std::vector<std::uint64_t> memory;
  for (const std::string& gpu : gpus) memory.push_back(memory_[{host, gpu}]);
  Ask(
      host, [this](const LeaseEnter& enter) CUSPAN_REQUIRES(agent_thread) { own_.Enter(enter); },
      LeaseEnter{ticket_.order, ticket_.run, ticket_.user, ticket_.program, ticket_.job,
                 ticket_.wanted, gpus, std::move(memory), terms_});
}

void RunLeases::Query(std::uint32_t host, const std::vector<std::string>& gpus) {
  Ask(
      host, [this](const LeaseQuery& query) CUSPAN_REQUIRES(agent_thread) { own_.Query(query); },
      LeaseQuery{gpus});
}

void RunLeases::Take(std::uint32_t host, std::uint32_t attempt,
                     const std::vector<std::string>& gpus) {
  Ask(
      host, [this](const LeaseTake& take) CUSPAN_REQUIRES(agent_thread) { own_.Take(take); },
      LeaseTake{attempt, gpus});
}

void RunLeases::GiveBack(std::uint32_t host) {
  Ask(
      host, [this](const LeaseGiveBack&) CUSPAN_REQUIRES(agent_thread) { own_.GiveBack(); },
      LeaseGiveBack{});
}

void RunLeases::Settle(std::uint32_t host) {
  Ask(
      host, [this](const LeaseSettle&) CUSPAN_REQUIRES(agent_thread) { own_.Settle(); },
      LeaseSettle{});
}

void LeaseSurvey::Start() {
  views_.resize(pool_.hosts.size());
  for (std::uint32_t number = 0; number < pool_.hosts.size(); ++number) {
    const PoolHost& host = pool_.pool.hosts[number];
    std::vector<std::string> keys;
    for (std::uint32_t gpu = host.first; gpu < host.first + host.count; ++gpu)
      if (!pool_.keys[gpu].empty()) keys.push_back(pool_.keys[gpu]);
    if (keys.empty()) continue;
    ++missing_;
    store_.Query(number, keys);
  }
}

void LeaseSurvey::ReceiveView(std::uint32_t host, const LeaseView& view) {
  if (views_[host]) return;
  views_[host] = view;
  --missing_;
  tickets_.insert(tickets_.end(), view.tickets.begin(), view.tickets.end());
  shared_.insert(shared_.end(), view.shared.begin(), view.shared.end());
  if (!view.problem.empty())
    problems_.push_back(Format("host {}: {}", pool_.hosts[host].name, view.problem));
  if (view.more != 0)
    problems_.push_back(
        Format("host {}: {} more runs are not shown", pool_.hosts[host].name, view.more));
}

bool LeaseSurvey::Holds(std::uint32_t host, const std::string& key) const {
  if (!views_[host]) return false;
  const std::vector<std::string>& held = views_[host]->held;
  return std::find(held.begin(), held.end(), key) != held.end();
}

}  // namespace cuspan
