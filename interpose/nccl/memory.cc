// Memory allocated by NCCL, and memory registered with it. Plain device memory serves both
// purposes.
#include "interpose/calls/memory.h"
#include "interpose/client/base/handles.h"
#include "interpose/nccl/entry.h"

using namespace cuspan;        // NOLINT: the entry points below are the C API.
using namespace cuspan::nccl;  // NOLINT: the same.

CUSPAN_EXPORT int ncclMemAlloc(void** memory, std::size_t bytes) {
  return Answer([&](Session& session) {
    if (memory == nullptr || bytes == 0)
      return Refuse(kInvalidArgument, Format("cannot allocate {} bytes of memory", bytes));
    std::uint64_t address = 0;
    const Error error = Allocate(session, bytes, &address);
    *memory = cuspan::HandleOf<void*>(address);
    return ResultOf(error);
  });
}

CUSPAN_EXPORT int ncclMemFree(void* memory) {
  return Answer([&](Session& session) {
    return memory == nullptr ? int{kSuccess} : ResultOf(Free(session, NumberOf(memory)));
  });
}

CUSPAN_EXPORT int ncclCommRegister(const ncclComm* handle, void* memory, std::size_t bytes,
                                   void** registration) {
  return AnswerAbout(handle, [&](Session&, const std::shared_ptr<Communicator>&) {
    if (memory == nullptr || bytes == 0 || registration == nullptr)
      return Refuse(kInvalidArgument, Format("cannot register {} bytes", bytes));
    *registration = cuspan::HandleOf<void*>(NextHandle());
    return int{kSuccess};
  });
}

CUSPAN_EXPORT int ncclCommDeregister(const ncclComm* handle, void*) {
  return AnswerAbout(handle,
                     [](Session&, const std::shared_ptr<Communicator>&) { return int{kSuccess}; });
}
