// Memory of other proxies on this node: of other devices and other sessions.
#include "proxy/handlers/handlers.h"
#include "proxy/handlers/on_worker.h"

namespace cuspan::proxy {

Status Handle(DeviceSession& session, const Origin& origin, const PeerOpen& op) {
  return OnWorker<PeerOpen>(session, origin, [&session, op]() CUSPAN_REQUIRES(worker_thread) {
    return session.memory().peers().Open(op.exchange, op.ordinal, op.window);
  });
}

Status Handle(DeviceSession& session, const Origin& origin, const PeerMap& op) {
  return OnWorker<PeerMap>(session, origin, [&session, op]() CUSPAN_REQUIRES(worker_thread) {
    return session.memory().peers().Map(op.base, op.address, op.bytes);
  });
}

Status Handle(DeviceSession& session, const Origin& origin, const PeerUnmap& op) {
  return OnWorkerWhenDone<PeerUnmap>(
      session, origin, [&session, op](CUresult) CUSPAN_REQUIRES(worker_thread) {
        return session.memory().peers().Unmap(op.base, op.address, op.bytes);
      });
}

Status Handle(DeviceSession& session, const Origin& origin, const PeerClose& op) {
  return OnWorkerWhenDone<PeerClose>(session, origin,
                                     [&session, op](CUresult) CUSPAN_REQUIRES(worker_thread) {
                                       return session.memory().peers().Close(op.base);
                                     });
}

Status Handle(DeviceSession& session, const Origin& origin, const MemoryImport& op) {
  return OnWorker<MemoryImport>(session, origin, [&session, op]() CUSPAN_REQUIRES(worker_thread) {
    return session.faults().Check(
        session.memory().peers().Borrow(op.exchange, op.address, op.bytes, op.at));
  });
}

Status Handle(DeviceSession& session, const Origin& origin, const MemoryImportEnd& op) {
  return OnWorkerWhenDone<MemoryImportEnd>(
      session, origin, [&session, op](CUresult) CUSPAN_REQUIRES(worker_thread) {
        return session.memory().peers().Return(op.at, op.bytes);
      });
}

}  // namespace cuspan::proxy
