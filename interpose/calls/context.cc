#include "interpose/calls/context.h"

#include <map>

#include "common/mutex.h"
#include "interpose/calls/device_settings.h"

namespace cuspan {
namespace {

// Numbers of users of created contexts, without the creator. Threads: any.
class AttachedContexts final : public ContextTable {
 public:
  void Attach(const Context& context) {
    const MutexLock lock(mutex_);
    ++users_[&context];
  }
  // False if the context has no further user.
  bool Detach(const Context& context) {
    const MutexLock lock(mutex_);
    const auto found = users_.find(&context);
    if (found == users_.end()) return false;
    if (--found->second == 0) users_.erase(found);
    return true;
  }
  void Forget(const ContextConnection& ended) override {
    const MutexLock lock(mutex_);
    users_.erase(&ended.context());
  }

 private:
  Mutex mutex_;
  std::map<const Context*, int> users_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace

Error FindContext(const Session& session, CUcontext handle, Context** context) {
  *context = session.devices().Find(handle);
  return *context != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

Error FindContextOrCurrent(Session& session, CUcontext handle, Context** context) {
  if (handle != nullptr) return FindContext(session, handle, context);
  *context = &session.devices().CurrentContext();
  return CUDA_SUCCESS;
}

Error RetainPrimary(Session& session, int device, CUcontext* context) {
  Context& primary = session.devices().Primary(device);
  std::shared_ptr<ContextConnection> connection;
  CUSPAN_RETURN_IF_FAILED(session.devices().Open(primary, &connection));
  primary.retained.fetch_add(1);
  *context = HandleOf(&primary);
  return CUDA_SUCCESS;
}

Error ReleasePrimary(Session& session, int device) {
  Context& primary = session.devices().Primary(device);
  int retained = primary.retained.load();
  do {
    if (retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
  } while (!primary.retained.compare_exchange_weak(retained, retained - 1));
  if (retained > 1 || primary.used_by_runtime.load()) return CUDA_SUCCESS;
  return session.devices().Reset(primary);
}

Error ResetPrimary(Session& session, int device) {
  return session.devices().Reset(session.devices().Primary(device));
}

Error CreateContext(Session& session, int device, unsigned flags, CUcontext* context) {
  if (!AreDeviceFlags(flags)) return CUDA_ERROR_INVALID_VALUE;
  Context* made = nullptr;
  CUSPAN_RETURN_IF_FAILED(session.devices().Create(device, &made));
  made->flags.store(flags);
  ThisThread().contexts.Push(made);
  *context = HandleOf(made);
  return CUDA_SUCCESS;
}

Error DestroyContext(Session& session, CUcontext handle) {
  Context* context = nullptr;
  CUSPAN_RETURN_IF_FAILED(FindContext(session, handle, &context));
  if (context->is_primary()) return CUDA_ERROR_INVALID_CONTEXT;
  CUSPAN_RETURN_IF_FAILED(session.devices().Destroy(*context));
  ContextStack& stack = ThisThread().contexts;
  if (stack.top() == context) stack.Pop();
  return CUDA_SUCCESS;
}

Error AttachContext(Session& session, CUcontext* context) {
  Context* const current = ThisThread().contexts.top();
  if (!current->is_primary()) session.TableOf<AttachedContexts>().Attach(*current);
  *context = HandleOf(current);
  return CUDA_SUCCESS;
}

Error DetachContext(Session& session, CUcontext handle) {
  Context* const current = ThisThread().contexts.top();
  if (handle != HandleOf(current)) return CUDA_ERROR_INVALID_CONTEXT;
  if (current->is_primary() || session.TableOf<AttachedContexts>().Detach(*current))
    return CUDA_SUCCESS;
  return DestroyContext(session, handle);
}

unsigned FlagsOf(Session& session, const Context& context) {
  return context.is_primary() ? DeviceFlags(session, context.device()) : context.flags.load();
}

Error SetFlags(Session& session, Context& context, unsigned flags) {
  if (context.is_primary()) return SetDeviceFlags(session, context.device(), flags);
  if (!AreDeviceFlags(flags)) return CUDA_ERROR_INVALID_VALUE;
  context.flags.store(flags);
  return CUDA_SUCCESS;
}

}  // namespace cuspan
