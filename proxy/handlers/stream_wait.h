// Ops waiting for the end of their stream's work.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "common/status.h"
#include "proxy/handlers/posted_op.h"

namespace cuspan::proxy {

// Adds an op waiting for the end of its stream's work. It does not depend on other streams, only on
// the stream's own queue. (The legacy stream's work includes the blocking streams'.)
template <typename T>
void QueueWait(DeviceSession& session, T wait) CUSPAN_REQUIRES(receiving_thread) {
  StreamQueue& queue = *wait.stream->queue;
  if (session.streams().IsLegacy(*wait.stream) || !StreamQueues::Empty(queue))
    return session.streams().queues().Add(queue, std::move(wait));
  wait.Submit();
}

// The stream's last op, as far as it matters for a mark.
enum class Behind {
  kAnything,
  kLaunch,  // Posted just before: the device has not run it yet.
};
// The mark of the client with this number, for `value`. kInvalid if they do not exist.
Result<ClientMark> MarkOf(DeviceSession& session, std::uint32_t number, std::uint32_t value);
// Writes the mark behind the ops received for the stream so far.
void PutMark(DeviceSession& session, const Origin& origin, std::shared_ptr<Stream> stream,
             const ClientMark& mark, Behind behind) CUSPAN_REQUIRES(receiving_thread);

}  // namespace cuspan::proxy
