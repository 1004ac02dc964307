// Ops executed by the worker, because the driver may block.
#pragma once

#include <utility>

#include "proxy/session/device_session.h"

namespace cuspan::proxy {

// `outcome`: the op's reply, or a CUresult if this is all. For a posted op, only a failure is
// reported.
template <typename Op, typename Outcome>
void Respond(DeviceSession& session, const Origin& origin, const Outcome& outcome) {
  if constexpr (Op::kClass == OpClass::kCall)
    session.channel().Reply<Op>(origin.request, {outcome});
  else
    session.faults().Posted(origin, outcome);
}

// Runs work() on the worker, and replies with its result.
template <typename Op, typename Work>
Status OnWorker(DeviceSession& session, const Origin& origin, Work work) {
  session.worker().Run([&session, origin, work = std::move(work)]() CUSPAN_REQUIRES(worker_thread) {
    Respond<Op>(session, origin, work());
  });
  return Status::Ok();
}

// The same once the device has completed all earlier work. Calls work(result of waiting).
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
