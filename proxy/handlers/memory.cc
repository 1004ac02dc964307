#include "proxy/handlers/handlers.h"
#include "proxy/handlers/on_worker.h"

namespace cuspan::proxy {

Status Handle(DeviceSession& session, const Origin& origin, const MemoryMap& op) {
  if (op.bytes == 0 || (!session.device().InWindow(op.address, op.bytes) &&
                        !session.device().InShared(op.address, op.bytes)))
    return Status::Invalid("mapping 0x{:x} + {} bytes: outside the window", op.address, op.bytes);
  return OnWorker<MemoryMap>(session, origin, [&session, op]() CUSPAN_REQUIRES(worker_thread) {
    return session.faults().Check(session.memory().mappings().Map(op.address, op.bytes));
  });
}

Status Handle(DeviceSession& session, const Origin& origin, const MemoryUnmap& op) {
  return OnWorkerWhenDone<MemoryUnmap>(
      session, origin, [&session, op](CUresult waited) CUSPAN_REQUIRES(worker_thread) {
        const CUresult unmapped =
            session.faults().Check(session.memory().mappings().Unmap(op.address, op.bytes));
        return waited == CUDA_SUCCESS ? unmapped : waited;
      });
}

}  // namespace cuspan::proxy
