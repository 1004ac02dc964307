// Functions of the program run in stream order.
#include "interpose/calls/host_function.h"

#include <memory>
#include <utility>

#include "interpose/calls/graph/in_stream.h"
#include "interpose/driver/entry.h"

namespace cuspan {
namespace {

struct Callback {
  CUstreamCallback function;
  CUstream stream;
  CUresult status;
  void* data;
};

// No destructors here: the function may call pthread_exit.
void CallBack(void* argument) {
  const auto* const call = static_cast<const Callback*>(argument);
  call->function(call->stream, call->status, call->data);
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT_TWINS(cuLaunchHostFunc, _ptsz, (CUstream stream, CUhostFn function, void* data),
                    InHostFunctionsToo(stream, [&] {
                      return AnswerWithDriver([&](Session& session) -> Error {
                        if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
                        CUSPAN_RETURN_IF_FAILED(BeginCurrentContext(session));
                        return LaunchHostFunction(stream, {function, data}, meaning);
                      });
                    }))

CUSPAN_EXPORT_TWINS(cuStreamAddCallback, _ptsz,
                    (CUstream stream, CUstreamCallback callback, void* data, unsigned flags),
                    InHostFunctionsToo(stream, [&] {
                      return AnswerInContext([&](Session&) -> Error {
                        if (callback == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
                        return OnStream(
                            stream, meaning,
                            [&](Session& session, const StreamTarget& target) -> Error {
                              auto call = std::make_shared<Callback>(
                                  Callback{callback, stream, CUDA_SUCCESS, data});
                              return session.host_calls().Call(
                                  target,
                                  [call = std::move(call)](CUresult result) -> HostFunction {
                                    call->status = result;
                                    return {&CallBack, call.get()};
                                  });
                            });
                      });
                    }))
