// Metrics by HTTP, at /metrics of a TCP port or of a Unix socket.
//
// Anybody may connect to a port. So it is served by little code with limits of its own, on one
// thread that waits for nobody: a connection has so many bytes of a request, so many seconds, and
// so many others beside it. (The library that was tried, cpp-httplib 0.11, has a limit for each
// read only, so that one client could hold up the end of a run for ever.)
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/mutex.h"
#include "launcher/metrics/metrics_outlet.h"

namespace cuspan {

// Publish is for one thread.
class MetricsServer final : public MetricsOutlet {
 public:
  static Result<std::unique_ptr<MetricsOutlet>> Open(const MetricsTarget& target);
  // Waits for nobody.
  ~MetricsServer() override;
  void Publish(const std::vector<prometheus::MetricFamily>& families) override;
  void SetLive(bool live) override;
  bool lasts() const override { return false; }

 private:
  using Families = std::shared_ptr<const std::vector<prometheus::MetricFamily>>;
  using Clock = std::chrono::steady_clock;
  // One that has been accepted: it is read, waits for what is asked for, and is answered.
  struct Connection {
    UniqueFd fd;
    Clock::time_point until;  // Then it is closed.
    std::string received;
    std::uint64_t wants = 0;  // The publication for which it waits; 0: none.
    std::string answer;       // What is still to be sent.
  };

  MetricsServer(UniqueFd request, UniqueFd listener, UniqueFd wake, const MetricsTarget& target);
  // The thread.
  void Serve();
  // False when the connection is to be closed.
  bool Read(Connection& connection);
  bool Write(Connection& connection);
  bool Answer(Connection& connection);
  void Wake() const;
  // What was published last, and how often.
  std::pair<Families, std::uint64_t> Published();

  const MetricsTarget target_;
  const UniqueFd listener_;
  const UniqueFd wake_;  // An eventfd: something was published, or all ends.
  std::vector<Connection> connections_;
  Mutex mutex_;
  Families families_ CUSPAN_GUARDED_BY(mutex_);
  std::uint64_t publications_ CUSPAN_GUARDED_BY(mutex_) = 0;
  bool live_ CUSPAN_GUARDED_BY(mutex_) = false;
  bool ends_ CUSPAN_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace cuspan
