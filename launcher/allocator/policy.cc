#include "launcher/allocator/policy.h"

#include <algorithm>
#include <span>
#include <tuple>
#include <utility>

#include "launcher/allocator/load_rank.h"

namespace cuspan {
namespace {

struct Named {
  Policy policy;
  const char* name;
};
constexpr Named kPolicies[] = {{Policy::kLocalFirst, "local-first"},
                               {Policy::kPack, "pack"},
                               {Policy::kSpread, "spread"},
                               {Policy::kFastest, "fastest"},
                               {Policy::kPair, "pair"}};

constexpr LoadRank kNoRank = ~LoadRank{0};

// A host with GPUs available for the request now.
struct Candidate {
  std::uint32_t host = 0;
  std::uint32_t left = 0;   // GPUs still allowed by the host's limit.
  std::uint32_t free = 0;   // Free fitting GPUs, up to that limit.
  double best = 0;          // Highest speed among them.
  std::uint32_t taken = 0;  // GPUs chosen.
  LoadRank next = kNoRank;  // Rank of the next GPU to choose, for a sharing run.
};

std::uint32_t LimitOf(const AllocationRequest& request, std::uint32_t host) {
  return request.host_limits.empty() ? kUnlimited : request.host_limits[host];
}

// Takes the fewest of `hosts`. Among these choices, it maximises the fullness of the fullest host,
// then of the next, and so on. Equal hosts: a `frugal` choice leaves the faster ones to runs that
// need them; otherwise pool order decides. `hosts` have at least `number` free GPUs.
void Pack(std::span<Candidate> hosts, std::uint32_t number, bool frugal) {
  const auto before = [frugal](const Candidate& a, const Candidate& b) {
    if (a.free != b.free) return a.free < b.free;
    if (frugal && a.best != b.best) return a.best < b.best;
    return a.host < b.host;
  };
  if (number == 1) {
    std::min_element(hosts.begin(), hosts.end(), before)->taken = 1;
    return;
  }
  std::sort(hosts.begin(), hosts.end(), before);
  // Number of hosts needed: the emptiest are at the end.
  std::size_t slots = 0;
  std::uint64_t largest = 0;  // Free GPUs of the last `slots` hosts.
  while (largest < number) largest += hosts[hosts.size() - ++slots].free;
  std::size_t next = 0;
  for (std::uint32_t left = number; left > 0; --slots) {
    // The fullest host for this slot that leaves enough GPUs on the emptiest hosts.
    largest -= hosts[hosts.size() - slots].free;
    while (hosts[next].free + largest < left) ++next;
    Candidate& host = hosts[next++];
    host.taken = std::min(host.free, left);
    left -= host.taken;
  }
}

class Choice {
 public:
  Choice(const GpuPool& pool, const PoolLeases& leases, const AllocationRequest& request)
      : pool_(pool), leases_(leases), request_(request), ranks_(leases.loads.size()) {}

  Decision Decide() {
    Survey();
    std::uint32_t number = request_.number;
    if (request_.amount == AllocationRequest::Amount::kAll)
      number = std::max(decision_.fitting, 1U);
    else if (request_.amount == AllocationRequest::Amount::kAllFree)
      number = std::max(decision_.available, 1U);
    if (number > decision_.fitting || number == 0) return decision_;
    decision_.verdict = Decision::Verdict::kNotNow;
    if (number > decision_.available) return decision_;
    decision_.verdict = Decision::Verdict::kChosen;
    Choose(number);
    return decision_;
  }

 private:
  bool Free(std::uint32_t gpu) const {
    return leases_.held[gpu] == 0 && Fits(pool_.gpus[gpu], request_);
  }

  LoadRank Rank(std::uint32_t gpu) const { return ranks_.empty() ? 0 : ranks_[gpu]; }

  // Calls `take` for each free GPU of a host with a rank from first_rank_ to below end_rank_.
  template <typename Take>
  void ForEach(const Candidate& candidate, Take take) const {
    const PoolHost& host = pool_.hosts[candidate.host];
    for (std::uint32_t gpu = host.first; gpu < host.first + host.count; ++gpu)
      if (Free(gpu) && Rank(gpu) >= first_rank_ && Rank(gpu) < end_rank_) take(gpu);
  }

  // Fills `decision_` with the totals and hosts_ with the candidates.
  void Survey() {
    for (std::uint32_t number = 0; number < pool_.hosts.size(); ++number) {
      const PoolHost& host = pool_.hosts[number];
      Candidate candidate;
      candidate.host = number;
      std::uint32_t fitting = 0;
      for (std::uint32_t gpu = host.first; gpu < host.first + host.count; ++gpu) {
        if (!Fits(pool_.gpus[gpu], request_)) continue;
        ++fitting;
        if (leases_.held[gpu] != 0) continue;
        ++candidate.free;
        candidate.best = std::max(candidate.best, pool_.gpus[gpu].speed);
        if (ranks_.empty()) continue;
        ranks_[gpu] = RankOf(pool_.gpus[gpu], leases_.loads[gpu], request_.policy, request_.kind);
        candidate.next = std::min(candidate.next, ranks_[gpu]);
      }
      const std::uint32_t limit = LimitOf(request_, number);
      decision_.fitting += std::min(fitting, limit);
      // This run holds no GPU yet (all or nothing), so its full limit remains.
      candidate.left = limit;
      candidate.free = std::min(candidate.free, limit);
      if (candidate.free == 0 || leases_.closed[number] != 0) continue;
      decision_.available += candidate.free;
      hosts_.push_back(candidate);
    }
  }

  void Choose(std::uint32_t number) {
    switch (request_.policy) {
      case Policy::kLocalFirst:
        LocalFirst(number);
        break;
      case Policy::kPack:
        PackRanked(hosts_, number, true);
        break;
      case Policy::kSpread:
        Spread(number);
        break;
      case Policy::kFastest:
        return ChooseFastest(number);
      case Policy::kPair:
        return ChoosePairs(number);
    }
    for (const Candidate& host : hosts_) ChooseFrom(host);
    std::sort(decision_.gpus.begin(), decision_.gpus.end());
  }

  // Recounts a host's available GPUs, up to that rank.
  void Count(Candidate& host, LoadRank worst) const {
    host.free = 0;
    host.best = 0;
    host.next = kNoRank;
    ForEach(host, [&](std::uint32_t gpu) {
      const LoadRank rank = Rank(gpu);
      if (rank > worst) return;
      ++host.free;
      host.best = std::max(host.best, pool_.gpus[gpu].speed);
      host.next = std::min(host.next, rank);
    });
    host.free = std::min(host.free, host.left);
    if (host.free == 0) host.next = kNoRank;
  }

  static LoadRank BestRank(std::span<const Candidate> hosts) {
    LoadRank best = kNoRank;
    for (const Candidate& host : hosts) best = std::min(best, host.next);
    return best;
  }

  // Number of hosts needed with GPUs up to that rank; kUnlimited if these do not suffice.
  std::uint32_t HostsFor(std::span<const Candidate> hosts, std::uint32_t number,
                         LoadRank worst) const {
    std::vector<std::uint32_t> with;  // Number of hosts, by their number of GPUs.
    for (Candidate host : hosts) {
      Count(host, worst);
      if (host.free >= with.size()) with.resize(host.free + 1);
      ++with[host.free];
    }
    std::uint32_t needed = 0;
    for (std::size_t gpus = with.size() - 1; gpus > 0; --gpus)
      for (std::uint32_t i = 0; i < with[gpus]; ++i) {
        ++needed;
        if (gpus >= number) return needed;
        number -= static_cast<std::uint32_t>(gpus);
      }
    return kUnlimited;
  }

  // Lowest rank with GPUs up to it needing no more hosts than all GPUs would.
  LoadRank WorstNeeded(std::span<const Candidate> hosts, std::uint32_t number) const {
    if (number == 1) return BestRank(hosts);
    std::vector<LoadRank> ranks;
    for (const Candidate& host : hosts)
      ForEach(host, [&](std::uint32_t gpu) { ranks.push_back(ranks_[gpu]); });
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    const std::uint32_t fewest = HostsFor(hosts, number, ranks.back());
    return *std::partition_point(ranks.begin(), ranks.end(), [&](LoadRank rank) {
      return HostsFor(hosts, number, rank) > fewest;
    });
  }

  // Takes the fewest hosts; among these choices those with the best last GPU by rank, then as Pack.
  void PackRanked(std::span<Candidate> hosts, std::uint32_t number, bool frugal) {
    if (!ranks_.empty()) {
      const LoadRank worst = WorstNeeded(hosts, number);
      const auto others =
          std::partition(hosts.begin(), hosts.end(),
                         [worst](const Candidate& host) { return host.next <= worst; });
      hosts = hosts.first(static_cast<std::size_t>(others - hosts.begin()));
      for (Candidate& host : hosts) Count(host, worst);
    }
    Pack(hosts, number, frugal);
  }

  void LocalFirst(std::uint32_t number) {
    const auto own = std::find_if(hosts_.begin(), hosts_.end(), [this](const Candidate& host) {
      return request_.home == host.host;
    });
    std::span<Candidate> others(hosts_);
    if (own != hosts_.end()) {
      std::iter_swap(hosts_.begin(), own);
      hosts_.front().taken = std::min(hosts_.front().free, number);
      number -= hosts_.front().taken;
      others = others.subspan(1);
    }
    if (number > 0) PackRanked(others, number, false);
  }

  // Takes GPUs from each host up to a level, the lowest sufficient. The rest come one by one from
  // the hosts with the best next GPU by rank, then the most free GPUs.
  void Spread(std::uint32_t number) {
    std::sort(hosts_.begin(), hosts_.end(), [](const Candidate& a, const Candidate& b) {
      return a.free != b.free ? a.free > b.free : a.host < b.host;
    });
    std::uint32_t level = 0;
    std::uint32_t left = number;
    std::size_t deep = hosts_.size();  // Number of hosts with more than `level`.
    while (left > 0) {
      while (hosts_[deep - 1].free <= level) --deep;
      const std::size_t now = std::min<std::size_t>(deep, left);
      if (now < deep && !ranks_.empty()) BestNextFirst(std::span(hosts_).first(deep));
      for (std::size_t i = 0; i < now; ++i) ++hosts_[i].taken;
      left -= static_cast<std::uint32_t>(now);
      ++level;
    }
  }

  // Sorts hosts by the rank of their next GPU, stable.
  void BestNextFirst(std::span<Candidate> hosts) const {
    std::vector<LoadRank> ranks;
    for (Candidate& host : hosts) {
      if (host.taken == 0) continue;
      ranks.clear();
      ForEach(host, [&](std::uint32_t gpu) { ranks.push_back(ranks_[gpu]); });
      const auto next = ranks.begin() + host.taken;
      std::nth_element(ranks.begin(), next, ranks.end());
      host.next = *next;
    }
    std::stable_sort(hosts.begin(), hosts.end(),
                     [](const Candidate& a, const Candidate& b) { return a.next < b.next; });
  }

  // Takes a host's GPUs by rank, then in the order of the pool (the driver's). A frugal choice
  // takes the slowest.
  void ChooseFrom(const Candidate& candidate) {
    if (candidate.taken == 0) return;
    const std::size_t start = decision_.gpus.size();
    ForEach(candidate, [this](std::uint32_t gpu) { decision_.gpus.push_back(gpu); });
    const bool frugal = request_.policy == Policy::kPack;
    if (frugal || !ranks_.empty())
      std::stable_sort(decision_.gpus.begin() + static_cast<std::ptrdiff_t>(start),
                       decision_.gpus.end(), [this, frugal](std::uint32_t a, std::uint32_t b) {
                         if (Rank(a) != Rank(b)) return Rank(a) < Rank(b);
                         return frugal && pool_.gpus[a].speed < pool_.gpus[b].speed;
                       });
    decision_.gpus.resize(start + candidate.taken);
  }

  // Takes as many GPUs as possible of the best class, then of the next. Limits bound disjoint
  // groups, so no other choice has more of the better ones (see below). Within a class, the
  // program's host comes first.
  void ChoosePairs(std::uint32_t number) {
    // Without ranks all GPUs are equal.
    std::uint32_t of_class = ranks_.empty() ? 0 : ClassOf(BestRank(hosts_));
    for (; of_class < kPairClasses && number > 0; ++of_class) {
      first_rank_ = FirstOfClass(of_class);
      end_rank_ = FirstOfClass(of_class + 1);
      std::uint32_t there = 0;
      for (Candidate& host : hosts_) {
        Count(host, kNoRank);
        host.taken = 0;
        there += host.free;
      }
      if (there == 0) continue;
      LocalFirst(std::min(number, there));
      for (Candidate& host : hosts_) {
        ChooseFrom(host);
        host.left -= host.taken;
      }
      number -= std::min(number, there);
    }
    std::sort(decision_.gpus.begin(), decision_.gpus.end());
  }

  // Taking the fastest GPUs, up to each host's limit, gives the highest sum: a greedy choice is
  // optimal if limits bound disjoint groups (a partition matroid).
  void ChooseFastest(std::uint32_t number) {
    struct Offer {
      double speed;
      LoadRank rank;
      bool away;
      std::uint32_t gpu;
      bool operator<(const Offer& other) const {
        if (speed != other.speed) return speed > other.speed;
        // Other runs slow a GPU down, so their number comes first. Their quotas matter less than
        // the GPU's host.
        return std::tuple(RunsOf(rank), away, rank, gpu) <
               std::tuple(RunsOf(other.rank), other.away, other.rank, other.gpu);
      }
    };
    std::vector<Offer> offers;
    for (const Candidate& candidate : hosts_) {
      const std::size_t start = offers.size();
      ForEach(candidate, [&](std::uint32_t gpu) {
        offers.push_back({pool_.gpus[gpu].speed, Rank(gpu), request_.home != candidate.host, gpu});
      });
      if (offers.size() - start == candidate.free) continue;
      std::sort(offers.begin() + static_cast<std::ptrdiff_t>(start), offers.end());
      offers.resize(start + candidate.free);
    }
    std::nth_element(offers.begin(), offers.begin() + (number - 1), offers.end());
    for (std::uint32_t i = 0; i < number; ++i) decision_.gpus.push_back(offers[i].gpu);
    std::sort(decision_.gpus.begin(), decision_.gpus.end());
  }

  const GpuPool& pool_;
  const PoolLeases& leases_;
  const AllocationRequest& request_;
  std::vector<Candidate> hosts_;  // Hosts with GPUs available.
  // Rank by GPU; empty if no GPU is shared.
  std::vector<LoadRank> ranks_;
  // Range of the ranks considered.
  LoadRank first_rank_ = 0, end_rank_ = kNoRank;
  Decision decision_;
};

}  // namespace

Result<Policy> ParsePolicy(std::string_view text) {
  std::string names;
  for (const Named& known : kPolicies) {
    if (text == known.name) return known.policy;
    names += (names.empty() ? "" : ", ") + std::string(known.name);
  }
  return Status::Invalid("unknown policy '{}': use one of {}", text, names);
}

const char* PolicyName(Policy policy) {
  for (const Named& known : kPolicies)
    if (policy == known.policy) return known.name;
  return "unknown";
}

Decision Decide(const GpuPool& pool, const PoolLeases& leases, const AllocationRequest& request) {
  return Choice(pool, leases, request).Decide();
}

}  // namespace cuspan
