#include "proxy/handlers/handlers.h"

namespace cuspan::proxy {

Status Handle(DeviceSession& session, const Origin& origin, const LimitGet& op) {
  session.worker.Run([&session, origin, op] {
    std::size_t value = 0;
    const CUresult result =
        session.faults.Check(session.driver.cuCtxGetLimit(&value, static_cast<CUlimit>(op.limit)));
    session.channel.Reply<LimitGet>(origin.request, {result, value});
  });
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const LimitSet& op) {
  session.worker.Run([&session, origin, op] {
    const CUresult result = session.faults.Check(
        session.driver.cuCtxSetLimit(static_cast<CUlimit>(op.limit), op.value));
    session.channel.Reply<LimitSet>(origin.request, {result});
  });
  return Status::Ok();
}

}  // namespace cuspan::proxy
