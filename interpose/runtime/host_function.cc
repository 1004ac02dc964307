// Functions of the program run in stream order.
#include "interpose/calls/host_function.h"

#include "interpose/calls/graph/in_stream.h"
#include "interpose/runtime/entry.h"

namespace cuspan {
namespace {

struct Callback {
  cudaStreamCallback_t function;
  cudaStream_t stream;
  cudaError_t status;
  void* data;
};

// No destructors here: the function may call pthread_exit.
void CallBack(void* argument) {
  const auto* const call = static_cast<const Callback*>(argument);
  call->function(call->stream, call->status, call->data);
}

Error AddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data, unsigned flags,
                  DefaultStream meaning) {
  if (callback == nullptr || flags != 0) return cudaErrorInvalidValue;
  return OnStream(stream, meaning, [&](Session& session, const StreamTarget& target) -> Error {
    auto call = std::make_shared<Callback>(Callback{callback, stream, cudaSuccess, data});
    return session.host_calls().Call(target,
                                     [call = std::move(call)](CUresult result) -> HostFunction {
                                       call->status = Error(result).runtime();
                                       return {&CallBack, call.get()};
                                     });
  });
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT_TWINS(cudaLaunchHostFunc, _ptsz,
                    (cudaStream_t stream, cudaHostFn_t function, void* data), Answer([&] {
                      return LaunchHostFunction(stream, {function, data}, meaning);
                    }))

CUSPAN_EXPORT_TWINS(cudaStreamAddCallback, _ptsz,
                    (cudaStream_t stream, cudaStreamCallback_t callback, void* data,
                     unsigned flags),
                    Answer([&] { return AddCallback(stream, callback, data, flags, meaning); }))
