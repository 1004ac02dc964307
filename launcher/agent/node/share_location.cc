#include "launcher/agent/node/share_location.h"

#include "common/settings.h"
#include "launcher/allocator/ticket.h"
#include "launcher/run/lease_key.h"
#include "protocol/sharing/share_table.h"

namespace cuspan {

Result<ShareLocation> FindShareLocation(const NodeContext& context,
                                        const DeviceDescription& device) {
  ShareLocation location;
  if (!context.run.share.shared) return location;
  CUSPAN_ASSIGN_OR_RETURN(
      ShareTable table,
      ShareTable::Open(SettingText(settings::kShareFolder), HostForNames(context.host),
                       LeaseKey(device), context.run.share.pair));
  CUSPAN_ASSIGN_OR_RETURN(location.run, table.FindRun(context.run.id));
  CUSPAN_ASSIGN_OR_RETURN(location.table, table.OpenAgain());
  return location;
}

}  // namespace cuspan
