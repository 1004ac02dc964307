// Launch attributes of kernel nodes.
#pragma once

#include <cuda.h>

#include "interpose/calls/base/error.h"

namespace cuspan {

Error GetNodeAttribute(CUgraphNode node, CUlaunchAttributeID id, CUlaunchAttributeValue* value);
Error SetNodeAttribute(CUgraphNode node, CUlaunchAttributeID id,
                       const CUlaunchAttributeValue& value);
Error CopyNodeAttributes(CUgraphNode destination, CUgraphNode source);

}  // namespace cuspan
