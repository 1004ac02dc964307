// Replacement for all files that need prometheus-cpp, if cuspan is built without it.
#include "common/log.h"
#include "launcher/metrics/node_metrics.h"
#include "launcher/metrics/run_metrics.h"

namespace cuspan {
namespace {

Status BuiltWithout() {
  return Status::NotFound(
      "this cuspan was built without prometheus-cpp, so it has no metrics; install "
      "prometheus-cpp-dev and build it again");
}

}  // namespace

Result<std::unique_ptr<RunMetrics>> RunMetrics::Open(const MetricsTarget&, const RunIdentity&) {
  return BuiltWithout();
}

int ServeNodeMetrics(const NodeMetricsOptions&, const InheritedSignals&) {
  LogError("{}", BuiltWithout().message());
  return kExitOwnFailure;
}

}  // namespace cuspan
