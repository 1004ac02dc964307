// Objects of the program that graphs keep: each has a function that is called when nobody has a
// reference to it any more, on a thread that holds no lock.
#include <climits>

#include "interpose/client/handles.h"
#include "interpose/client/host_calls.h"
#include "interpose/runtime/graph_use.h"

namespace cuspan {
namespace {

HostCalls& Destructors() {
  static auto* const calls = new HostCalls;  // Never destroyed, as the session.
  return *calls;
}

}  // namespace

class UserObject {
 public:
  UserObject(cudaHostFn_t destroy, void* object) : destroy_(destroy), object_(object) {}
  // As little of CUDA may be called as in a stream's order.
  ~UserObject() {
    Destructors().Run({[call = HostFunction{destroy_, object_}] { return call; }, {}});
  }
  UserObject(const UserObject&) = delete;
  UserObject& operator=(const UserObject&) = delete;

 private:
  const cudaHostFn_t destroy_;
  void* const object_;
};

namespace {

// The program's own references, by handle. Guarded by the mutex of Graphs.
struct Owned {
  std::weak_ptr<UserObject> object;
  std::shared_ptr<UserObject> kept;  // While the program has references.
  unsigned references = 0;
};
std::map<std::uint64_t, Owned>& Objects() {
  static auto* const objects = new std::map<std::uint64_t, Owned>;  // Never destroyed.
  return *objects;
}

bool IsCount(unsigned count) { return count != 0 && count <= INT_MAX; }

Error CreateObject(cudaUserObject_t* handle, void* object, cudaHostFn_t destroy, unsigned count,
                   unsigned flags) {
  if (handle == nullptr || destroy == nullptr || !IsCount(count) ||
      flags != cudaUserObjectNoDestructorSync)
    return cudaErrorInvalidValue;
  auto made = std::make_shared<UserObject>(destroy, object);
  const std::uint64_t number = NextHandle();
  std::lock_guard lock(Graphs::Get().mutex);
  std::erase_if(Objects(), [](const auto& entry) { return entry.second.object.expired(); });
  Objects()[number] = {made, made, count};
  *handle = HandleOf<cudaUserObject_t>(number);
  return cudaSuccess;
}

// use(Owned&, const std::shared_ptr<UserObject>&) → Error, with the graphs in peace.
template <typename Use>
Error WithObject(cudaUserObject_t handle, Use&& use) {
  CUSPAN_RETURN_IF_FAILED(CheckMayCall());
  std::shared_ptr<UserObject> object;
  std::lock_guard lock(Graphs::Get().mutex);
  const auto known = Objects().find(NumberOf(handle));
  if (known == Objects().end()) return cudaErrorInvalidValue;
  object = known->second.object.lock();
  if (object == nullptr) {
    Objects().erase(known);
    return cudaErrorInvalidValue;
  }
  return use(known->second, object);
}

Error Release(Owned& owned, unsigned count) {
  if (count > owned.references) return cudaErrorInvalidValue;
  owned.references -= count;
  if (owned.references == 0) owned.kept = nullptr;
  return cudaSuccess;
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT cudaError_t cudaUserObjectCreate(cudaUserObject_t* handle, void* object,
                                               cudaHostFn_t destroy, unsigned count,
                                               unsigned flags) {
  return Answer([&] { return CreateObject(handle, object, destroy, count, flags); });
}

CUSPAN_EXPORT cudaError_t cudaUserObjectRetain(cudaUserObject_t handle, unsigned count) {
  return Answer([&]() -> Error {
    if (!IsCount(count)) return cudaErrorInvalidValue;
    return WithObject(handle, [&](Owned& owned, const auto& object) -> Error {
      owned.kept = object;
      owned.references += count;
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaUserObjectRelease(cudaUserObject_t handle, unsigned count) {
  return Answer([&]() -> Error {
    if (!IsCount(count)) return cudaErrorInvalidValue;
    return WithObject(handle, [&](Owned& owned, const auto&) { return Release(owned, count); });
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t handle,
                                                    unsigned count, unsigned flags) {
  return Answer([&]() -> Error {
    if (!IsCount(count) || (flags & ~unsigned{cudaGraphUserObjectMove}) != 0)
      return cudaErrorInvalidValue;
    return WithObject(handle, [&](Owned& owned, const auto& object) -> Error {
      const std::shared_ptr<Graph> found = Graphs::Get().Find(graph);
      if (found == nullptr) return cudaErrorInvalidValue;
      if (flags == cudaGraphUserObjectMove) CUSPAN_RETURN_IF_FAILED(Release(owned, count));
      found->objects[object] += count;
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t handle,
                                                     unsigned count) {
  return Answer([&]() -> Error {
    if (!IsCount(count)) return cudaErrorInvalidValue;
    return WithObject(handle, [&](Owned&, const auto& object) -> Error {
      const std::shared_ptr<Graph> found = Graphs::Get().Find(graph);
      if (found == nullptr) return cudaErrorInvalidValue;
      const auto kept = found->objects.find(object);
      if (kept == found->objects.end() || kept->second < count) return cudaErrorInvalidValue;
      kept->second -= count;
      if (kept->second == 0) found->objects.erase(kept);
      return cudaSuccess;
    });
  });
}
