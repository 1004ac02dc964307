#include "launcher/agent/node/agent_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <utility>

namespace cuspan {
namespace {

constexpr std::chrono::milliseconds kAnswersLimit{1'000};
// Number of devices guaranteed to fit into a message with all their ops.
constexpr std::size_t kDevicesAPart = 8;

std::uint64_t Nanoseconds(const timeval& time) {
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(time.tv_usec) * 1'000;
}

// Resident memory of this process in bytes; 0 if unknown (proc(5), statm).
std::uint64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t all = 0, resident = 0;
  return file >> all >> resident ? resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE))
                                 : 0;
}

}  // namespace

std::vector<MetricsPart> MeasureAgent(AgentNode& node, std::uint32_t number) {
  AgentMetrics metrics;
  metrics.rank = node.context().rank;
  metrics.host = node.host();
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) == 0)
    metrics.cpu_nanoseconds = Nanoseconds(usage.ru_utime) + Nanoseconds(usage.ru_stime);
  metrics.memory_bytes = ResidentBytes();
  node.clients().Measure(metrics);

  std::vector<MetricsPart> parts;
  const std::vector<DeviceMetrics> devices = std::exchange(metrics.devices, {});
  std::size_t first = 0;
  do {
    const std::size_t end = std::min(first + kDevicesAPart, devices.size());
    metrics.devices.assign(devices.begin() + static_cast<std::ptrdiff_t>(first),
                           devices.begin() + static_cast<std::ptrdiff_t>(end));
    parts.push_back({number, end == devices.size(), metrics});
    first = end;
  } while (first < devices.size());
  return parts;
}

void MetricsQuery::Ask(std::uint32_t number) {
  Stop();
  number_ = number;
  asked_ = std::chrono::steady_clock::now();
  if (node_.relay() != nullptr) awaited_ = node_.others();
  for (const std::uint32_t rank : awaited_) node_.relay()->SendControl(rank, MetricsAsk{number});
  timer_ = node_.poller().After(kAnswersLimit, [this]() CUSPAN_REQUIRES(agent_thread) {
    awaited_.clear();
    EndIfComplete();
  });
  for (const MetricsPart& part : MeasureAgent(node_, number)) handlers_.part(part);
  EndIfComplete();
}

void MetricsQuery::ReceivePart(std::uint32_t rank, MetricsPart part) {
  if (timer_ == 0 || part.number != number_ || !awaited_.contains(rank)) return;
  part.agent.rank = rank;
  part.agent.response_nanoseconds =
      static_cast<std::uint64_t>((std::chrono::steady_clock::now() - asked_).count());
  handlers_.part(part);
  if (part.last) awaited_.erase(rank);
  EndIfComplete();
}

void MetricsQuery::EndIfComplete() {
  if (!awaited_.empty()) return;
  Stop();
  handlers_.end({number_});
}

void MetricsQuery::Stop() {
  if (timer_ != 0) node_.poller().Cancel(timer_);
  timer_ = 0;
  awaited_.clear();
}

}  // namespace cuspan
