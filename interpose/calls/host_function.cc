#include "interpose/calls/host_function.h"

#include "interpose/calls/graph/in_stream.h"
#include "interpose/calls/graph/nodes.h"

namespace cuspan {

Error CallInOrder(Session& session, const StreamTarget& target, const HostFunction& call) {
  return session.host_calls().Call(target, [call](CUresult result) {
    // After a failure of the device, host functions are not called; callbacks are.
    return result == CUDA_SUCCESS ? call : HostFunction();
  });
}

Error LaunchHostFunction(CUstream stream, const HostFunction& call, DefaultStream meaning) {
  if (call.function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return InStream(
      stream, meaning,
      [&](Session& session, const StreamTarget& target) {
        return CallInOrder(session, target, call);
      },
      [&](Session&, const StreamTarget&, Work* work) { return DescribeHost(call, work); });
}

}  // namespace cuspan
