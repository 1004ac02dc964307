#include "interpose/calls/copy_box.h"

#include "interpose/calls/base/synchronous_memory.h"

namespace cuspan {

Error CopyBox(Session& session, const StreamTarget& target, const BoxRequest& request,
              bool asynchronous) {
  BoxCopy copy;
  CUSPAN_RETURN_IF_FAILED(DescribeBox(session, request, asynchronous, &copy));
  CUSPAN_RETURN_IF_FAILED(session.copies().Copy(copy, target));
  if (asynchronous) return CUDA_SUCCESS;
  return WaitIfSynchronous(session, target, {request.destination.pointer, request.source.pointer});
}

}  // namespace cuspan
