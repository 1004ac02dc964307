// Launches of graphs by the client, node by node.
#pragma once

#include <vector>

#include "interpose/calls/graph/graph.h"

namespace cuspan {

// Posts the nodes' work to the stream, or to another device in the stream's order. `order` is
// InOrder's. Waits for values in memory hold up only nodes depending on them.
Error RunGraph(Session& session, const StreamTarget& target, const std::vector<GraphNode*>& order);

}  // namespace cuspan
