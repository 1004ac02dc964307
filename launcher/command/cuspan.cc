// The cuspan command.
#include <cstdio>

#include "common/log.h"
#include "launcher/command/bench.h"
#include "launcher/command/devices.h"
#include "launcher/command/options.h"
#include "launcher/command/queue.h"
#include "launcher/command/run.h"
#include "launcher/command/support.h"
#include "launcher/command/top.h"
#include "launcher/doctor/doctor.h"
#include "launcher/metrics/node_metrics.h"

int main(int argc, char** argv) {
  cuspan::SetLogName("cuspan", "launcher");
  cuspan::KeepLogFromWaiting();
  if (const cuspan::Status settings = cuspan::CheckLogSettings(); !settings.ok()) {
    cuspan::LogError("{}", settings.message());
    return cuspan::kExitUsage;
  }
  const cuspan::InheritedSignals signals = cuspan::InheritedSignals::Save();
  cuspan::Result<cuspan::CommandLine> line = cuspan::ParseCommandLine(argc, argv);
  if (!line.ok()) {
    cuspan::LogError("{}", line.status().message());
    return line.status().code() == cuspan::StatusCode::kNotFound ? cuspan::kExitUsage
                                                                 : cuspan::kExitOwnFailure;
  }
  if (line->run) return cuspan::Run(*line->run, signals);
  if (line->devices) return cuspan::Devices(*line->devices, signals);
  if (line->queue) return cuspan::ShowQueue(*line->queue, signals);
  if (line->top) return cuspan::Top(*line->top, signals);
  if (line->metrics) return cuspan::ServeNodeMetrics(*line->metrics, signals);
  if (line->doctor) return cuspan::Doctor(*line->doctor);
  if (line->bench) return cuspan::Bench(*line->bench, signals);
  if (line->support) return cuspan::ShowSupport(*line->support);
  std::fputs(line->text.c_str(), stdout);
  return 0;
}
