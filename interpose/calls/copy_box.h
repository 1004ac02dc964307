// Copies of boxes between memory and arrays, on one device and between two.
#pragma once

#include "interpose/calls/base/box.h"

namespace cuspan {

// Makes the copy in `target`, for any locations of the two sides.
Error CopyBox(Session& session, const StreamTarget& target, const BoxRequest& request,
              bool asynchronous);

}  // namespace cuspan
