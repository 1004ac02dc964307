#include "launcher/queue.h"

#include <cstdio>

#include "common/log.h"
#include "launcher/devices.h"
#include "launcher/lease_tables.h"

namespace cuspan {

int ShowQueue(const DevicesOptions& options, const InheritedSignals& signals) {
  const Result<RunReady> found = LookAtDevices(options, signals);
  if (!found.ok()) {
    LogError("{}", found.status().message());
    return kExitOwnFailure;
  }
  for (const std::string& note : found->notes) LogWarn("{}", note);
  const std::string text = options.json ? QueueJson(*found) : QueueTable(*found);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace cuspan
