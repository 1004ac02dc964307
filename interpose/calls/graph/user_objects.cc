#include "interpose/calls/graph/user_objects.h"

#include <climits>

#include "interpose/calls/graph/graph_table.h"
#include "interpose/client/base/handles.h"
#include "interpose/client/host_calls.h"

namespace cuspan {
class UserObject {
 public:
  // `calls` outlives it.
  UserObject(HostCallThread& calls, CUhostFn destroy, void* object)
      : calls_(calls), destroy_(destroy), object_(object) {}
  // Few CUDA calls are permitted there, same as in host functions.
  ~UserObject() {
    calls_.Run({[call = HostFunction{destroy_, object_}] { return call; }, {}});
  }
  UserObject(const UserObject&) = delete;
  UserObject& operator=(const UserObject&) = delete;

 private:
  HostCallThread& calls_;
  const CUhostFn destroy_;
  void* const object_;
};

namespace {

bool IsCount(unsigned count) { return count != 0 && count <= INT_MAX; }

// Calls use(Graphs&, OwnedObject&, const std::shared_ptr<UserObject>&) → Error with
// GraphTable::mutex held.
template <typename Use>
Error WithObject(CUuserObject handle, Use&& use) {
  CUSPAN_RETURN_IF_FAILED(CheckMayCall());
  std::shared_ptr<UserObject> object;  // Released without the mutex.
  return WithGraphTable([&](GraphTable& table) -> Error {
    const MutexLock lock(table.mutex);
    const auto known = table.objects.find(NumberOf(handle));
    if (known == table.objects.end()) return CUDA_ERROR_INVALID_VALUE;
    object = known->second.object.lock();
    if (object == nullptr) {
      table.objects.erase(known);
      return CUDA_ERROR_INVALID_VALUE;
    }
    return use(table.graphs, known->second, object);
  });
}

Error Release(OwnedObject& owned, unsigned count) {
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
  return WithGraphTable([&](GraphTable& table) -> Error {
    CUSPAN_RETURN_IF_FAILED(table.destructors.Start());
    auto made = std::make_shared<UserObject>(table.destructors, destroy, object);
    const std::uint64_t number = NextHandle();
    const MutexLock lock(table.mutex);
    std::erase_if(table.objects, [](const auto& entry) { return entry.second.object.expired(); });
    table.objects[number] = {made, made, count};
    *handle = HandleOf<CUuserObject>(number);
    return CUDA_SUCCESS;
  });
}

Error RetainUserObject(CUuserObject handle, unsigned count) {
  if (!IsCount(count)) return CUDA_ERROR_INVALID_VALUE;
  return WithObject(handle, [&](Graphs&, OwnedObject& owned, const auto& object) -> Error {
    owned.kept = object;
    owned.references += count;
    return CUDA_SUCCESS;
  });
}

Error ReleaseUserObject(CUuserObject handle, unsigned count) {
  if (!IsCount(count)) return CUDA_ERROR_INVALID_VALUE;
  return WithObject(
      handle, [&](Graphs&, OwnedObject& owned, const auto&) { return Release(owned, count); });
}

Error RetainInGraph(CUgraph graph, CUuserObject handle, unsigned count, unsigned flags) {
  if (!IsCount(count) || (flags & ~unsigned{CU_GRAPH_USER_OBJECT_MOVE}) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  return WithObject(handle, [&](Graphs& graphs, OwnedObject& owned, const auto& object) -> Error {
    const std::shared_ptr<Graph> found = graphs.Find(graph);
    if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (flags == CU_GRAPH_USER_OBJECT_MOVE) CUSPAN_RETURN_IF_FAILED(Release(owned, count));
    found->objects[object] += count;
    return CUDA_SUCCESS;
  });
}

Error ReleaseFromGraph(CUgraph graph, CUuserObject handle, unsigned count) {
  if (!IsCount(count)) return CUDA_ERROR_INVALID_VALUE;
  return WithObject(handle, [&](Graphs& graphs, OwnedObject&, const auto& object) -> Error {
    const std::shared_ptr<Graph> found = graphs.Find(graph);
    if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto kept = found->objects.find(object);
    if (kept == found->objects.end() || kept->second < count) return CUDA_ERROR_INVALID_VALUE;
    kept->second -= count;
    if (kept->second == 0) found->objects.erase(kept);
    return CUDA_SUCCESS;
  });
}

}  // namespace cuspan
