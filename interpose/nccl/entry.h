// Wrappers around all NCCL functions, and their results.
#pragma once

#include <string>
#include <utility>

#include "common/cancellation.h"
#include "interpose/calls/base/ways_in.h"
#include "interpose/client/communicators.h"
#include "interpose/nccl/api.h"
#include "interpose/nccl/group.h"

namespace cuspan::nccl {

// Sets the text of ncclGetLastError; returns `result`.
int Refuse(int result, std::string problem);
// Error for a communicator with an earlier operation in progress.
inline int RefuseUnready() {
  return Refuse(kInvalidArgument, "an earlier call on the communicator is still in progress");
}
// Error for an unknown communicator, or one being destroyed by another thread.
inline int RefuseUnknown() { return Refuse(kInvalidArgument, "the communicator does not exist"); }
// ncclResult_t for a CUDA error or a communicator's state.
int ResultOf(const Error& error);
int ResultOf(const Communicator::State& state);
// Result of an NCCL query at a device. `outcome`: the proxy's ncclResult_t.
int ResultOf(const Error& error, int outcome, std::string problem);

// Refuses a call needing a communicator already created. A blocking one inside the group creating
// it counts as created, as in NCCL.
inline int CheckReady(const Communicator& communicator) {
  const Communicator::State now = communicator.Now();
  if (now.result != kInProgress) return ResultOf(now);
  return communicator.blocking ? kSuccess : RefuseUnready();
}

// body(Session&) → ncclResult_t, for queries: their failures do not concern a group.
template <typename Body>
int AnswerQuery(Body&& body) {
  const CancellationOff cancellation;
  int result = kSuccess;
  const Error error = WithSession([&](Session& session) -> Error {
    result = body(session);
    return CUDA_SUCCESS;
  });
  return error.failed() ? ResultOf(error) : result;
}

// body(Session&) → ncclResult_t. The first failure inside a group is also returned by ncclGroupEnd.
template <typename Body>
int Answer(Body&& body) {
  return Group::OfThisThread().Note(AnswerQuery(body));
}

// body(session, const std::shared_ptr<Communicator>&) → ncclResult_t.
template <typename Body>
int WithCommunicator(Session& session, const ncclComm* handle, Body&& body) {
  const std::shared_ptr<Communicator> known = session.communicators().Find(NumberOf(handle));
  if (known == nullptr || known->end.begun()) return RefuseUnknown();
  return body(session, known);
}

// Same as Answer, with body(Session&, const std::shared_ptr<Communicator>&).
template <typename Body>
int AnswerAbout(const ncclComm* handle, Body&& body) {
  return Answer([&](Session& session) -> int { return WithCommunicator(session, handle, body); });
}

// Same, with the connection of the communicator's context, for posted ops.
template <typename Body>
int AnswerOnDevice(const ncclComm* handle, Body&& body) {
  return AnswerAbout(handle, [&](Session& session, const std::shared_ptr<Communicator>& known) {
    const std::shared_ptr<ContextConnection> connection =
        session.devices().ConnectionNumbered(known->connection);
    if (connection == nullptr) return Refuse(kInvalidUsage, "the communicator's device was reset");
    return body(session, known, connection);
  });
}

}  // namespace cuspan::nccl
