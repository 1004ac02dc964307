// What all of NCCL's functions do first, and what they return.
#pragma once

#include <string>
#include <utility>

#include "common/cancellation.h"
#include "interpose/calls/ways_in.h"
#include "interpose/client/communicators.h"
#include "interpose/nccl/api.h"
#include "interpose/nccl/group.h"

namespace cuspan::nccl {

// What the calling thread reads with ncclGetLastError from now on; returns the result.
int Refuse(int result, std::string problem);
// Of a communicator that does what was asked of it before.
inline int RefuseUnready() {
  return Refuse(kInvalidArgument, "the communicator is still at what was asked of it before");
}
// Of what is none, or is being ended by another thread.
inline int RefuseUnknown() { return Refuse(kInvalidArgument, "there is no such communicator"); }
// An ncclResult_t for what CUDA has said.
int ResultOf(const Error& error);
int ResultOf(const Communicator::State& state);
// Of a device that NCCL was asked about: `outcome` is an ncclResult_t that the proxy gave.
int ResultOf(const Error& error, int outcome, std::string problem);

// body(Session&) → an ncclResult_t. What fails inside a group is returned by ncclGroupEnd, too.
template <typename Body>
int Answer(Body&& body) {
  const CancellationOff cancellation;
  int result = kSuccess;
  const Error error = WithSession([&](Session& session) -> Error {
    result = body(session);
    return CUDA_SUCCESS;
  });
  if (error.failed()) result = ResultOf(error);
  return Group::OfThisThread().Note(result);
}

// body(Session&, const std::shared_ptr<Communicator>&).
template <typename Body>
int AnswerAbout(const ncclComm* handle, Body&& body) {
  return Answer([&](Session& session) -> int {
    const std::shared_ptr<Communicator> known = session.communicators().Find(NumberOf(handle));
    if (known == nullptr || known->ending()) return RefuseUnknown();
    return body(session, known);
  });
}

// The same with the life of its device, for what is posted there.
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
