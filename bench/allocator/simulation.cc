#include "bench/allocator/simulation.h"

#include <algorithm>
#include <list>
#include <numeric>
#include <queue>
#include <random>

#include "bench/allocator/figures.h"

namespace cuspan::bench::allocator {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

struct Kind {
  std::uint64_t memory_bytes;
  double speed;
  double share;
};
constexpr Kind kKinds[] = {{40 * kGiB, 1, 0.4}, {80 * kGiB, 2, 0.4}, {140 * kGiB, 4, 0.2}};

struct Size {
  std::uint32_t gpus;
  double share;
};
constexpr Size kSizes[] = {{1, 0.5},   {2, 0.2},    {4, 0.15},  {8, 0.1},
                           {16, 0.03}, {32, 0.015}, {64, 0.005}};

// Random entry, with its share as probability. `random`: 0 to 1.
template <typename Entry, std::size_t N>
const Entry& Pick(const Entry (&entries)[N], double random) {
  for (const Entry& entry : entries) {
    if (random < entry.share) return entry;
    random -= entry.share;
  }
  return entries[N - 1];
}

double MeanSize() {
  return std::accumulate(std::begin(kSizes), std::end(kSizes), 0.0,
                         [](double sum, const Size& size) { return sum + size.gpus * size.share; });
}

class Simulation {
 public:
  Simulation(const Workload& workload, TestedPolicy policy)
      : workload_(workload),
        policy_(policy),
        leases_(workload.pool),
        decisions_(policy ? cuspan::Decide : DecideFirstFit) {
    for (std::uint32_t host = 0; host < workload.pool.hosts.size(); ++host) {
      const PoolHost& there = workload.pool.hosts[host];
      host_of_.insert(host_of_.end(), there.count, host);
    }
  }

  Outcome Run() {
    const double last_arrival = workload_.requests.back().arrival;
    std::size_t next = 0;
    while (next < workload_.requests.size() || !running_.empty()) {
      const bool arrives =
          next < workload_.requests.size() &&
          (running_.empty() || workload_.requests[next].arrival <= running_.top().end);
      const double now = arrives ? workload_.requests[next].arrival : running_.top().end;
      busy_seconds_ +=
          static_cast<double>(busy_) * (std::min(now, last_arrival) - std::min(now_, last_arrival));
      now_ = now;
      if (arrives) {
        waiting_.push_back(next++);
      } else {
        for (const std::uint32_t gpu : running_.top().gpus) leases_.held[gpu] = 0;
        busy_ -= running_.top().gpus.size();
        running_.pop();
      }
      ServeQueue();
    }
    return Summary(last_arrival - workload_.requests.front().arrival);
  }

 private:
  struct Lease {
    double end;
    std::vector<std::uint32_t> gpus;
    bool operator<(const Lease& other) const { return end > other.end; }  // Earliest on top.
  };

  // The product's order: a request waits on every host with a fitting GPU. Later requests get no
  // GPU on this host. Here these are all hosts with GPUs from some memory size on.
  void ServeQueue() {
    std::uint64_t closed_from = ~std::uint64_t{0};
    std::fill(leases_.closed.begin(), leases_.closed.end(), 0);
    for (auto at = waiting_.begin(); at != waiting_.end() && closed_from > 0;) {
      AllocationRequest request = workload_.requests[*at].request;
      if (policy_) request.policy = *policy_;
      // All fitting hosts are closed.
      if (request.least_memory_bytes >= closed_from) {
        ++at;
        continue;
      }
      Decision decision = decisions_.Decide(workload_.pool, leases_, request);
      if (decision.verdict == Decision::Verdict::kChosen) {
        Grant(workload_.requests[*at], std::move(decision.gpus));
        at = waiting_.erase(at);
        continue;
      }
      closed_from = request.least_memory_bytes;
      for (std::uint32_t host = 0; host < workload_.pool.hosts.size(); ++host) {
        const PoolGpu& gpu = workload_.pool.gpus[workload_.pool.hosts[host].first];
        if (Fits(gpu, request)) leases_.closed[host] = 1;
      }
      ++at;
    }
  }

  void Grant(const SimulatedRequest& request, std::vector<std::uint32_t> gpus) {
    waits_.push_back(now_ - request.arrival);
    const std::optional<std::uint32_t> home = request.request.home;
    std::uint32_t hosts = 0;
    std::uint32_t on_host = 0;
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      const std::uint32_t host = host_of_[gpus[i]];
      leases_.held[gpus[i]] = 1;
      speed_ += workload_.pool.gpus[gpus[i]].speed;
      ++granted_;
      if (home) ++of_those_at_home_;
      if (home == host) ++own_;
      ++on_host;
      if (i + 1 < gpus.size() && host_of_[gpus[i + 1]] == host) continue;
      ++hosts;
      if (home != host) {
        links_ += 1;  // All GPUs of the request on this host share its network.
        remote_ += on_host;
      }
      on_host = 0;
    }
    hosts_.push_back(hosts);
    busy_ += gpus.size();
    running_.push({now_ + request.seconds, std::move(gpus)});
  }

  Outcome Summary(double span) {
    Outcome outcome;
    outcome.policy = policy_;
    outcome.decisions = decisions_.Figures();
    outcome.utilisation = busy_seconds_ / span / static_cast<double>(workload_.pool.gpus.size());
    outcome.wait_mean = Mean(waits_);
    outcome.wait_p95 = Quantile(waits_, 0.95);
    outcome.hosts = Mean(hosts_);
    outcome.own = of_those_at_home_ == 0 ? 0 : own_ / of_those_at_home_;
    outcome.link_share = remote_ == 0 ? 1 : links_ / remote_;
    double pool_speed = 0;
    for (const PoolGpu& gpu : workload_.pool.gpus) pool_speed += gpu.speed;
    pool_speed /= static_cast<double>(workload_.pool.gpus.size());
    outcome.speed = speed_ / granted_ / pool_speed;
    return outcome;
  }

  const Workload& workload_;
  const TestedPolicy policy_;
  PoolLeases leases_;
  std::vector<std::uint32_t> host_of_;  // Indexed by GPU.
  std::list<std::size_t> waiting_;      // Indices of requests, in order of arrival.
  std::priority_queue<Lease> running_;
  double now_ = 0;
  std::size_t busy_ = 0;
  double busy_seconds_ = 0;
  DecisionTimes decisions_;
  std::vector<double> waits_, hosts_;
  double granted_ = 0, speed_ = 0, own_ = 0, of_those_at_home_ = 0, links_ = 0, remote_ = 0;
};

}  // namespace

Workload MakeWorkload(const SimulationOptions& options) {
  std::mt19937_64 random(options.seed);
  std::uniform_real_distribution<double> part(0, 1);
  Workload workload;
  std::vector<const Kind*> kinds;  // Indexed by node.
  for (std::uint32_t node = 0; node < options.nodes; ++node) {
    const Kind& kind = Pick(kKinds, part(random));
    kinds.push_back(&kind);
    workload.pool.AddHost(
        std::vector<PoolGpu>(options.gpus_per_node, {kind.memory_bytes, kind.speed, 90, true}));
  }
  const double gpus = static_cast<double>(workload.pool.gpus.size());
  std::exponential_distribution<double> pause(options.load * gpus /
                                              (MeanSize() * options.mean_seconds));
  std::exponential_distribution<double> seconds(1 / options.mean_seconds);
  std::uniform_int_distribution<std::uint32_t> node(0, options.nodes - 1);
  double now = 0;
  for (std::uint32_t i = 0; i < options.requests; ++i) {
    SimulatedRequest made;
    now += pause(random);
    made.arrival = now;
    made.seconds = seconds(random);
    made.request.number = Pick(kSizes, part(random)).gpus;
    const double memory = part(random);
    if (memory < 0.1)
      made.request.least_memory_bytes = kKinds[2].memory_bytes;
    else if (memory < 0.4)
      made.request.least_memory_bytes = kKinds[1].memory_bytes;
    if (part(random) < 0.7) made.request.home = node(random);
    // A small cluster may have too few GPUs of a kind. The request would never be served, so any
    // GPU will do.
    const auto fitting = std::count_if(kinds.begin(), kinds.end(), [&made](const Kind* kind) {
      return kind->memory_bytes >= made.request.least_memory_bytes;
    });
    if (fitting * options.gpus_per_node < made.request.number) made.request.least_memory_bytes = 0;
    workload.requests.push_back(made);
  }
  return workload;
}

Outcome Simulate(const Workload& workload, TestedPolicy policy) {
  return Simulation(workload, policy).Run();
}

}  // namespace cuspan::bench::allocator
