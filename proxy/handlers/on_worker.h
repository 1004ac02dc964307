// Ops that the worker executes, since the driver may block.
#pragma once

#include <utility>

#include "proxy/session/device_session.h"

namespace cuspan::proxy {

// `outcome`: the op's reply, or the CUresult of one that has no more to say. A posted op is
// answered when it failed.
template <typename Op, typename Outcome>
void Respond(DeviceSession& session, const Origin& origin, const Outcome& outcome) {
  if constexpr (Op::kClass == OpClass::kCall)
    session.channel().Reply<Op>(origin.request, {outcome});
  else
    session.faults().Posted(origin, outcome);
}

// Has the worker run work() and answer with what it returns.
template <typename Op, typename Work>
Status OnWorker(DeviceSession& session, const Origin& origin, Work work) {
  session.worker().Run([&session, origin, work = std::move(work)]() CUSPAN_REQUIRES(worker_thread) {
    Respond<Op>(session, origin, work());
  });
  return Status::Ok();
}

// The same with work(result of waiting) when the device is done with all that came before the op.
template <typename Op, typename Work>
Status OnWorkerWhenDone(DeviceSession& session, const Origin& origin, Work work)
    CUSPAN_REQUIRES(receiving_thread) {
  session.streams().WhenAllDone([&session, origin, work](CUresult waited, std::uint64_t) {
    session.worker().Run([&session, origin, work, waited]() CUSPAN_REQUIRES(worker_thread) {
      Respond<Op>(session, origin, work(waited));
    });
  });
  return Status::Ok();
}

}  // namespace cuspan::proxy
