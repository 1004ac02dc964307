#include "launcher/allocator/policy.h"

#include <algorithm>
#include <span>
#include <utility>

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
                               {Policy::kFirstFit, "first-fit"}};

// A host of which the request can have something now.
struct Candidate {
  std::uint32_t host = 0;
  std::uint32_t free = 0;   // That fit and are free, up to the host's limit.
  double best = 0;          // The highest speed among them.
  std::uint32_t taken = 0;  // The outcome.
};

std::uint32_t LimitOf(const GpuRequest& request, std::uint32_t host) {
  return request.limits.empty() ? kUnlimited : request.limits[host];
}

// The fewest of `hosts`, and of such choices the one whose fullest host is fullest, then its next,
// and so on. Where hosts are equal, a `frugal` choice leaves the faster ones to those who need
// them; another takes them in the order of the pool. Their free GPUs are at least `number`.
void Pack(std::span<Candidate> hosts, std::uint32_t number, bool frugal) {
  std::sort(hosts.begin(), hosts.end(), [frugal](const Candidate& a, const Candidate& b) {
    if (a.free != b.free) return a.free < b.free;
    if (frugal && a.best != b.best) return a.best < b.best;
    return a.host < b.host;
  });
  // How many hosts it takes: the emptiest are at the end.
  std::size_t slots = 0;
  std::uint64_t largest = 0;  // Free GPUs of the last `slots` hosts.
  while (largest < number) largest += hosts[hosts.size() - ++slots].free;
  std::size_t next = 0;
  for (std::uint32_t left = number; left > 0; --slots) {
    // This place goes to the fullest host with which the emptiest of all suffice for the rest.
    largest -= hosts[hosts.size() - slots].free;
    while (hosts[next].free + largest < left) ++next;
    Candidate& host = hosts[next++];
    host.taken = std::min(host.free, left);
    left -= host.taken;
  }
}

void LocalFirst(std::vector<Candidate>& hosts, std::optional<std::uint32_t> home,
                std::uint32_t number) {
  const auto own = std::find_if(hosts.begin(), hosts.end(),
                                [home](const Candidate& host) { return home == host.host; });
  std::span<Candidate> others(hosts);
  if (own != hosts.end()) {
    std::iter_swap(hosts.begin(), own);
    hosts.front().taken = std::min(hosts.front().free, number);
    number -= hosts.front().taken;
    others = others.subspan(1);
  }
  if (number > 0) Pack(others, number, false);
}

// From each host up to a level, the lowest that suffices; what is missing then one by one from the
// hosts with most that is free.
void Spread(std::vector<Candidate>& hosts, std::uint32_t number) {
  std::sort(hosts.begin(), hosts.end(), [](const Candidate& a, const Candidate& b) {
    return a.free != b.free ? a.free > b.free : a.host < b.host;
  });
  std::uint32_t level = 0;
  std::uint32_t left = number;
  std::size_t deep = hosts.size();  // Hosts with more than `level`.
  while (left > 0) {
    while (hosts[deep - 1].free <= level) --deep;
    const std::size_t now = std::min<std::size_t>(deep, left);
    for (std::size_t i = 0; i < now; ++i) ++hosts[i].taken;
    left -= static_cast<std::uint32_t>(now);
    ++level;
  }
}

class Choice {
 public:
  Choice(const GpuPool& pool, const PoolLeases& leases, const GpuRequest& request)
      : pool_(pool), leases_(leases), request_(request) {}

  Decision Decide() {
    Survey();
    std::uint32_t number = request_.number;
    if (request_.amount == GpuRequest::Amount::kAll)
      number = std::max(decision_.fitting, 1U);
    else if (request_.amount == GpuRequest::Amount::kAllFree)
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

  // What there is, by host.
  void Survey() {
    for (std::uint32_t number = 0; number < pool_.hosts.size(); ++number) {
      const PoolHost& host = pool_.hosts[number];
      Candidate candidate{number, 0, 0, 0};
      std::uint32_t fitting = 0;
      for (std::uint32_t gpu = host.first; gpu < host.first + host.count; ++gpu) {
        if (!Fits(pool_.gpus[gpu], request_)) continue;
        ++fitting;
        if (leases_.held[gpu] != 0) continue;
        ++candidate.free;
        candidate.best = std::max(candidate.best, pool_.gpus[gpu].speed);
      }
      const std::uint32_t limit = LimitOf(request_, number);
      decision_.fitting += std::min(fitting, limit);
      // What this run has already of a limited host is none: it has all or nothing.
      candidate.free = std::min(candidate.free, limit);
      if (candidate.free == 0 || leases_.closed[number] != 0) continue;
      decision_.available += candidate.free;
      hosts_.push_back(candidate);
    }
  }

  void Choose(std::uint32_t number) {
    switch (request_.policy) {
      case Policy::kLocalFirst:
        LocalFirst(hosts_, request_.home, number);
        break;
      case Policy::kPack:
        Pack(hosts_, number, true);
        break;
      case Policy::kSpread:
        Spread(hosts_, number);
        break;
      case Policy::kFastest:
        return ChooseFastest(number);
      case Policy::kFirstFit:
        for (Candidate& host : hosts_) {
          host.taken = std::min(host.free, number);
          number -= host.taken;
        }
        break;
    }
    for (const Candidate& host : hosts_) TakeFrom(host);
    std::sort(decision_.gpus.begin(), decision_.gpus.end());
  }

  // Within a host in the order of the pool, which is the driver's; a frugal choice takes the
  // slowest.
  void TakeFrom(const Candidate& candidate) {
    if (candidate.taken == 0) return;
    const std::size_t start = decision_.gpus.size();
    const PoolHost& host = pool_.hosts[candidate.host];
    for (std::uint32_t gpu = host.first; gpu < host.first + host.count; ++gpu)
      if (Free(gpu)) decision_.gpus.push_back(gpu);
    if (request_.policy == Policy::kPack)
      std::stable_sort(decision_.gpus.begin() + static_cast<std::ptrdiff_t>(start),
                       decision_.gpus.end(), [this](std::uint32_t a, std::uint32_t b) {
                         return pool_.gpus[a].speed < pool_.gpus[b].speed;
                       });
    decision_.gpus.resize(start + candidate.taken);
  }

  // Taking the fastest of all, but from no host more than its limit, gives the highest sum: a
  // greedy choice is the best one where limits bound disjoint groups (a partition matroid).
  void ChooseFastest(std::uint32_t number) {
    struct Offer {
      double speed;
      bool away;
      std::uint32_t gpu;
      bool operator<(const Offer& other) const {
        if (speed != other.speed) return speed > other.speed;
        return std::pair(away, gpu) < std::pair(other.away, other.gpu);
      }
    };
    std::vector<Offer> offers;
    for (const Candidate& candidate : hosts_) {
      const std::size_t start = offers.size();
      const PoolHost& host = pool_.hosts[candidate.host];
      for (std::uint32_t gpu = host.first; gpu < host.first + host.count; ++gpu)
        if (Free(gpu))
          offers.push_back({pool_.gpus[gpu].speed, request_.home != candidate.host, gpu});
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
  const GpuRequest& request_;
  std::vector<Candidate> hosts_;  // Those with something to give.
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

Decision Decide(const GpuPool& pool, const PoolLeases& leases, const GpuRequest& request) {
  return Choice(pool, leases, request).Decide();
}

}  // namespace cuspan
