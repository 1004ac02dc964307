#include "proxy/handlers/handlers.h"
#include "proxy/handlers/on_worker.h"

namespace cuspan::proxy {

Status Handle(DeviceSession& session, const Origin& origin, const LimitGet& op) {
  return OnWorker<LimitGet>(session, origin, [&session, op] {
    std::size_t value = 0;
    const CUresult result = session.faults().Check(
        session.driver().cuCtxGetLimit(&value, static_cast<CUlimit>(op.limit)));
    return LimitGet::Reply{result, value};
  });
}

Status Handle(DeviceSession& session, const Origin& origin, const LimitSet& op) {
  // Some limits affect running kernels, so the graphs of launch batches are discarded and created
  // again later.
  return OnWorker<LimitSet>(
      session, origin, [&session, op, batches = session.objects().batches.Extract({})] {
        for (const auto& some : batches) some->End();
        return session.faults().Check(
            session.driver().cuCtxSetLimit(static_cast<CUlimit>(op.limit), op.value));
      });
}

}  // namespace cuspan::proxy
