// Parameters of graph nodes for the driver.
#pragma once

#include "proxy/handlers/kernel_use.h"
#include "proxy/handlers/located_box.h"

namespace cuspan::proxy {

inline CUcontext CurrentContext(DeviceSession& session) {
  CUcontext context = nullptr;
  session.faults().Check(session.driver().cuCtxGetCurrent(&context));
  return context;
}

// Returns nullopt if the session may not access a box.
inline std::optional<CUgraphNodeParams> CopyNode(DeviceSession& session, const DeviceBox& to,
                                                 const DeviceBox& from) {
  if (!MayTouch(session, to) || !MayTouch(session, from)) return std::nullopt;
  CUgraphNodeParams parameters{};
  parameters.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  parameters.memcpy.copyCtx = CurrentContext(session);
  parameters.memcpy.copyParams = DescribeCopy(to, from);
  return parameters;
}

// The same; `op` has the fields of GraphSet.
template <typename Op>
std::optional<CUgraphNodeParams> SetNode(DeviceSession& session, const Op& op) {
  std::uint64_t row_bytes = 0;
  const bool fits = !__builtin_mul_overflow(op.width, std::uint64_t{op.element_bytes}, &row_bytes);
  const DeviceBox box{nullptr, {0, op.destination, op.pitch, op.rows}, {row_bytes, op.rows, 1}};
  if (!fits || !MayTouch(session, box)) return std::nullopt;
  CUgraphNodeParams parameters{};
  parameters.type = CU_GRAPH_NODE_TYPE_MEMSET;
  parameters.memset.dst = op.destination;
  parameters.memset.pitch = op.pitch;
  parameters.memset.value = op.value;
  parameters.memset.elementSize = op.element_bytes;
  parameters.memset.width = op.width;
  parameters.memset.height = op.rows;
  parameters.memset.ctx = CurrentContext(session);
  return parameters;
}

}  // namespace cuspan::proxy
