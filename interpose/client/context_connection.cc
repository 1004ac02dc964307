#include "interpose/client/context_connection.h"

#include <cstdlib>
#include <utility>

#include "common/log.h"
#include "interpose/client/base/context.h"

namespace cuspan {
namespace {

// Returns `part`, or null for a device without the region.
template <typename Part>
Part* IfShared(const ProxyLocation& place, Part* part) {
  return place.sharing == Sharing::kNone ? nullptr : part;
}

// The driver reads the variable when a context is created. It parses the leading digits as a
// decimal number; only 1 enables blocking launches (driver 580).
bool LaunchesBlock() {
  const char* const text = std::getenv("CUDA_LAUNCH_BLOCKING");
  return text != nullptr && std::strtol(text, nullptr, 10) == 1;
}

}  // namespace

ContextConnection::ContextConnection(ContextConnectionParts parts)
    : Connection(std::move(parts.place), parts.number, std::move(parts.channel), parts.common),
      context_(parts.context->shared_from_this()),
      region_(IfShared(place(), parts.region)),
      on_event_(parts.on_event),
      on_communicator_(parts.on_communicator),
      coherence_(this, region_, IfShared(place(), parts.variables)),
      memory_(this, parts.window, region_, parts.pieces),
      modules_(this, &memory_, IfShared(place(), parts.variables)),
      launches_block_(LaunchesBlock()) {}

bool ContextConnection::OnFrame(const Frame& frame) {
  if (frame.op() == Op::kCommunicatorNotice) {
    CommunicatorNotice notice;
    if (!DecodeFrom(frame.payload, notice)) return false;
    (*on_communicator_)(*this, notice);
    return true;
  }
  FileListener* const files = files_.load();
  FileWanted wanted;
  return frame.op() == Op::kFileWanted && files != nullptr && DecodeFrom(frame.payload, wanted) &&
         files->OnWanted(std::static_pointer_cast<ContextConnection>(shared_from_this()), wanted);
}

void ContextConnection::OnFailed(CUresult result) { context_->Fail(number(), result); }

CUresult ContextConnection::WaitForStream(std::uint64_t stream, std::uint64_t* sequence) {
  coherence_.BeforeWait(false);
  switch (wait_marks_.Await(stream, sequence, [this] { OnLongWait(); })) {
    case WaitMarks::Result::kNotPossible:
      return Synchronize(StreamSynchronize{stream}, sequence);
    case WaitMarks::Result::kReached:
      break;
    case WaitMarks::Result::kDeviceIdle:
      NoteStored(*sequence);
      break;
  }
  return Synchronized(false);
}

void ContextConnection::OnLongWait() {
  if (region_ == nullptr || !mirrors_managed() || !region_->mirrors().managed_in_use()) return;
  if (said_what_is_waited_for_.exchange(true)) return;
  LogWarn(
      "device {} has been busy for {} s. The program uses managed memory. A kernel sees managed "
      "memory as it was at launch. Another device gets it only after the first one has finished "
      "its work. A kernel spinning until the host or another device writes to managed memory never "
      "finishes. Use pinned memory for flags (cudaHostAlloc)",
      device(), kLongWait.count());
}

}  // namespace cuspan
