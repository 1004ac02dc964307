#include "launcher/command/devices.h"

#include "launcher/run/tables.h"
#include "launcher/starter/looking.h"

namespace cuspan {

int Devices(const DevicesOptions& options, const InheritedSignals& signals) {
  return PrintFound(options.cluster, signals, options.json ? DeviceJson : DeviceTable);
}

}  // namespace cuspan
