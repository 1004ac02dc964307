#include "interpose/calls/graph/user_objects.h"

#include <climits>

#include "interpose/calls/graph/graph.h"
#include "interpose/client/base/handles.h"
#include "interpose/client/host_calls.h"

namespace cuspan {
namespace {

HostCallThread& Destructors() {
  static auto* const calls = new HostCallThread;  // Never destroyed, like the session.
  return *calls;
}

}  // namespace

class UserObject {
 public:
  UserObject(CUhostFn destroy, void* object) : destroy_(destroy), object_(object) {}
  // Few CUDA calls are permitted there, same as in host functions.
  ~UserObject() {
    Destructors().Run({[call = HostFunction{destroy_, object_}] { return call; }, {}});
  }
  UserObject(const UserObject&) = delete;
  UserObject& operator=(const UserObject&) = delete;

 private:
  const CUhostFn destroy_;
  void* const object_;
};

namespace {

// The program's own references, by handle. Guarded by Graphs::mutex.
struct Owned {
  std::weak_ptr<UserObject> object;
  std::shared_ptr<UserObject> kept;  // Null without references of the program.
  unsigned references = 0;
};
std::map<std::uint64_t, Owned>& Objects() {
  static auto* const objects = new std::map<std::uint64_t, Owned>;  // Never destroyed.
  return *objects;
}

bool IsCount(unsigned count) { return count != 0 && count <= INT_MAX; }

// Calls use(Owned&, const std::shared_ptr<UserObject>&) → Error with Graphs::mutex held.
template <typename Use>
Error WithObject(CUuserObject handle, Use&& use) {
  CUSPAN_RETURN_IF_FAILED(CheckMayCall());
  std::shared_ptr<UserObject> object;
  std::lock_guard lock(Graphs::Get().mutex);
  const auto known = Objects().find(NumberOf(handle));
  if (known == Objects().end()) return CUDA_ERROR_INVALID_VALUE;
  object = known->second.object.lock();
  if (object == nullptr) {
    Objects().erase(known);
    return CUDA_ERROR_INVALID_VALUE;
  }
  return use(known->second, object);
}

Error Release(Owned& owned, unsigned count) {
  if (count > owned.references) return CUDA_ERROR_INVALID_VALUE;
  owned.references -= count;
  if (owned.references == 0) owned.kept = nullptr;
  return CUDA_SUCCESS;
}

}  // namespace

Error CreateUserObject(CUuserObject* handle, void* object, CUhostFn destroy, unsigned count,
                       unsigned flags) {
  if (handle == nullptr || destroy == nullptr || !IsCount(count) ||
      flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
    return CUDA_ERROR_INVALID_VALUE;
  CUSPAN_RETURN_IF_FAILED(Destructors().Start());
  auto made = std::make_shared<UserObject>(destroy, object);
  const std::uint64_t number = NextHandle();
  std::lock_guard lock(Graphs::Get().mutex);
  std::erase_if(Objects(), [](const auto& entry) { return entry.second.object.expired(); });
  Objects()[number] = {made, made, count};
  *handle = HandleOf<CUuserObject>(number);
  return CUDA_SUCCESS;
}

Error RetainUserObject(CUuserObject handle, unsigned count) {
  if (!IsCount(count)) return CUDA_ERROR_INVALID_VALUE;
  return WithObject(handle, [&](Owned& owned, const auto& object) -> Error {
    owned.kept = object;
    owned.references += count;
    return CUDA_SUCCESS;
  });
}

Error ReleaseUserObject(CUuserObject handle, unsigned count) {
  if (!IsCount(count)) return CUDA_ERROR_INVALID_VALUE;
  return WithObject(handle, [&](Owned& owned, const auto&) { return Release(owned, count); });
}

Error RetainInGraph(CUgraph graph, CUuserObject handle, unsigned count, unsigned flags) {
  if (!IsCount(count) || (flags & ~unsigned{CU_GRAPH_USER_OBJECT_MOVE}) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  return WithObject(handle, [&](Owned& owned, const auto& object) -> Error {
    const std::shared_ptr<Graph> found = Graphs::Get().Find(graph);
    if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (flags == CU_GRAPH_USER_OBJECT_MOVE) CUSPAN_RETURN_IF_FAILED(Release(owned, count));
    found->objects[object] += count;
    return CUDA_SUCCESS;
  });
}

Error ReleaseFromGraph(CUgraph graph, CUuserObject handle, unsigned count) {
  if (!IsCount(count)) return CUDA_ERROR_INVALID_VALUE;
  return WithObject(handle, [&](Owned&, const auto& object) -> Error {
    const std::shared_ptr<Graph> found = Graphs::Get().Find(graph);
    if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto kept = found->objects.find(object);
    if (kept == found->objects.end() || kept->second < count) return CUDA_ERROR_INVALID_VALUE;
    kept->second -= count;
    if (kept->second == 0) found->objects.erase(kept);
    return CUDA_SUCCESS;
  });
}

}  // namespace cuspan
