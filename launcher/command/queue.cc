#include "launcher/command/queue.h"

#include "launcher/command/devices.h"
#include "launcher/run/lease_tables.h"
#include "launcher/starter/looking.h"

namespace cuspan {

int ShowQueue(const DevicesOptions& options, const InheritedSignals& signals) {
  return PrintFound(options.cluster, signals, options.json ? QueueJson : QueueTable);
}

}  // namespace cuspan
