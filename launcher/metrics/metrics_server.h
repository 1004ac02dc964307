// Metrics over HTTP, at /metrics of a TCP port or of a Unix socket.
//
// Any user may connect to a port, so the server is small and has limits of its own. It is one
// thread that never blocks on a client. Bytes of a request, time of a connection and the number of
// connections are bounded. (The library cpp-httplib 0.11 has a time limit for each read only, so
// one client could delay the end of a run forever.)
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

// Threads: one calls Publish.
class MetricsServer final : public MetricsOutlet {
 public:
  static Result<std::unique_ptr<MetricsOutlet>> Open(const MetricsTarget& target);
  // Does not wait for clients.
  ~MetricsServer() override;
  void Publish(const std::vector<prometheus::MetricFamily>& families) override;
  void SetLive(bool live) override;
  bool lasts() const override { return false; }

 private:
  using Families = std::shared_ptr<const std::vector<prometheus::MetricFamily>>;
  using Clock = std::chrono::steady_clock;
  // An accepted connection: it is read, waits for a publication, and is answered.
  struct Connection {
    UniqueFd fd;
    Clock::time_point until;  // Time of closing.
    std::string received;
    std::uint64_t wants = 0;  // Number of the publication awaited; 0: none.
    std::string answer;       // Bytes still to be sent.
  };

  MetricsServer(UniqueFd request, UniqueFd listener, UniqueFd wake, const MetricsTarget& target);
  // Function of the server's thread.
  void Serve();
  // Returns false if the connection is to be closed.
  bool Read(Connection& connection);
  bool Write(Connection& connection);
  bool Answer(Connection& connection);
  void Wake() const;
  // The last publication and its number.
  std::pair<Families, std::uint64_t> Published();

  const MetricsTarget target_;
  const UniqueFd listener_;
  const UniqueFd wake_;  // An eventfd: new publication, change of live, or end.
  std::vector<Connection> connections_;
  Mutex mutex_;
  Families families_ CUSPAN_GUARDED_BY(mutex_);
  std::uint64_t publications_ CUSPAN_GUARDED_BY(mutex_) = 0;
  bool live_ CUSPAN_GUARDED_BY(mutex_) = false;
  bool ends_ CUSPAN_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace cuspan
