#include "launcher/agent/run_allocation.h"

#include <utility>

#include "common/settings.h"

namespace cuspan {
namespace {

using std::chrono::milliseconds;

// Shorter waits are not reported.
constexpr milliseconds kReportAfter{500};

// A timer cancelled at the end of its scope.
class Timer {
 public:
  Timer(Poller& poller, milliseconds delay, Poller::Handler handler)
      : poller_(poller), id_(poller.After(delay, std::move(handler))) {}
  ~Timer() { poller_.Cancel(id_); }
  Timer(const Timer&) = delete;

 private:
  Poller& poller_;
  const Poller::TimerId id_;
};

}  // namespace

RunAllocation::RunAllocation(AgentNode& node, const GpuRequest& request, LeaseTicket ticket,
                             RunPool pool)
    : node_(node),
      request_(request),
      pool_(std::move(pool)),
      leases_(pool_, node.leases(), node.relay(), node.control(), std::move(ticket),
              request.share) {}

Result<std::unique_ptr<RunAllocation>> RunAllocation::Create(
    AgentNode& node, const GpuRequest& request, const std::string& run,
    const std::vector<AgentInventory>& found) {
  CUSPAN_ASSIGN_OR_RETURN(LeaseMode mode, ParseLeaseMode(SettingText(settings::kLeases)));
  mode = LeaseModeOf(mode, request.share);
  LeaseTicket ticket;
  ticket.order = request.order != 0 ? request.order : RealTimeNow();
  ticket.run = run;
  ticket.program = request.program;
  ticket.job = request.job;
  ticket.wanted = request.number.value_or(0);
  const std::uint64_t order = ticket.order;
  std::unique_ptr<RunAllocation> made(
      new RunAllocation(node, request, std::move(ticket), MakeRunPool(found, mode)));
  // Queries the locks of shared GPUs too: other users' runs may hold them.
  if (request.look)
    for (std::size_t gpu = 0; gpu < made->pool_.keys.size(); ++gpu)
      made->pool_.keys[gpu] = LeaseKey(made->pool_.devices[gpu].front());
  AllocationPlan& plan = made->plan_;
  plan.pool = made->pool_.pool;
  plan.keys = made->pool_.keys;
  for (const RunPool::Host& host : made->pool_.hosts) plan.hosts.push_back(host.name);
  plan.request = MakeRequest(made->pool_, request, node.host());
  plan.order = order;
  plan.run = run;
  plan.job = request.job;
  for (const std::vector<DeviceDescription>& device : made->pool_.devices)
    plan.names.push_back(Format("GPU {}", device.front().pci_bus_id));
  plan.wait = request.wait_seconds != 0U;
  const bool never =
      Decide(plan.pool, PoolLeases(plan.pool), plan.request).verdict == Decision::Verdict::kNever;
  if (request.look ? plan.pool.gpus.empty() : never) return ExplainNever(made->pool_, plan.request);
  return made;
}

std::string RunAllocation::LostHost() const {
  for (const RunPool::Host& host : pool_.hosts)
    if (host.keeper() != 0 && node_.relay()->gave_up(host.keeper())) return host.name;
  return {};
}

Result<std::vector<DeviceDescription>> RunAllocation::Allocate(
    const std::function<bool()>& keep_on, const std::function<void(const std::string&)>& tell) {
  auto owned = std::make_unique<Allocation>(plan_, leases_);
  Allocation& allocation = *owned;
  events_ = std::move(owned);
  leases_.SetEvents(&allocation);
  allocation.Start();
  if (!allocation.done()) {
    const Timer told(node_.poller(), kReportAfter, [&] {
      if (!allocation.done()) tell(allocation.WaitedFor());
    });
    std::optional<Timer> limit;
    if (request_.wait_seconds.value_or(0) != 0)
      limit.emplace(node_.poller(), std::chrono::seconds(*request_.wait_seconds), [&] {
        allocation.GiveUp(Format("not available within {} s", *request_.wait_seconds));
      });
    node_.Loop([&]() CUSPAN_REQUIRES(agent_thread) {
      if (!keep_on()) allocation.GiveUp("the run was cancelled while it waited");
      if (const std::string lost = LostHost(); !lost.empty())
        allocation.GiveUp(Format("host {} was lost while the run waited", lost));
      return !allocation.done();
    });
  }
  if (!allocation.outcome().ok()) return allocation.outcome().status();
  // Other GPUs may suffice for this run, but the user should be notified.
  if (std::string disagreement = allocation.Disagreement(); !disagreement.empty())
    pool_.notes.push_back(std::move(disagreement));
  return AssignAgents(pool_, *allocation.outcome());
}

Result<RunReady> RunAllocation::Query(const std::function<bool()>& keep_on) {
  auto owned = std::make_unique<LeaseSurvey>(pool_, leases_);
  LeaseSurvey& survey = *owned;
  events_ = std::move(owned);
  leases_.SetEvents(&survey);
  survey.Start();
  if (!survey.done())
    node_.Loop([&]() CUSPAN_REQUIRES(agent_thread) {
      return !survey.done() && keep_on() && LostHost().empty();
    });
  if (!survey.done()) return Status::Unavailable("host {} was lost", LostHost());
  RunReady ready;
  for (std::uint32_t number = 0; number < pool_.hosts.size(); ++number) {
    const PoolHost& host = pool_.pool.hosts[number];
    for (std::uint32_t i = 0; i < host.count && i < pool_.hosts[number].limit; ++i) {
      const std::uint32_t gpu = host.first + i;
      ready.devices.push_back(pool_.devices[gpu].front());
      ready.held.push_back(survey.Holds(number, pool_.keys[gpu]));
    }
  }
  ready.tickets = survey.tickets();
  ready.shared = survey.shared();
  ready.notes = pool_.notes;
  ready.notes.insert(ready.notes.end(), survey.problems().begin(), survey.problems().end());
  return ready;
}

}  // namespace cuspan
