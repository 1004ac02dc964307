#include "launcher/queue.h"

#include "launcher/devices.h"
#include "launcher/lease_tables.h"

namespace cuspan {

int ShowQueue(const DevicesOptions& options, const InheritedSignals& signals) {
  return PrintFound(options.cluster, signals, options.json ? QueueJson : QueueTable);
}

}  // namespace cuspan
