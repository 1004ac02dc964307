// User objects: objects of the program owned by graphs.
#include "interpose/calls/graph/user_objects.h"
#include "interpose/runtime/entry.h"

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT cudaError_t cudaUserObjectCreate(cudaUserObject_t* handle, void* object,
                                               cudaHostFn_t destroy, unsigned count,
                                               unsigned flags) {
  return Answer([&] { return CreateUserObject(handle, object, destroy, count, flags); });
}

CUSPAN_EXPORT cudaError_t cudaUserObjectRetain(cudaUserObject_t handle, unsigned count) {
  return Answer([&] { return RetainUserObject(handle, count); });
}

CUSPAN_EXPORT cudaError_t cudaUserObjectRelease(cudaUserObject_t handle, unsigned count) {
  return Answer([&] { return ReleaseUserObject(handle, count); });
}

CUSPAN_EXPORT cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t handle,
                                                    unsigned count, unsigned flags) {
  return Answer([&] { return RetainInGraph(graph, handle, count, flags); });
}

CUSPAN_EXPORT cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t handle,
                                                     unsigned count) {
  return Answer([&] { return ReleaseFromGraph(graph, handle, count); });
}
