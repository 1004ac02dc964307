#include "interpose/calls/base/ways_in.h"

#include <set>
#include <string>

#include "common/log.h"
#include "common/strict.h"
#include "interpose/load/load.h"

namespace cuspan {
namespace {

constinit std::atomic<bool> unloading{false};

// Static objects of the program may call this library afterwards. Its objects still exist, but the
// process is about to end.
__attribute__((destructor)) void BeginUnloading() {
  unloading.store(true, std::memory_order_relaxed);
}

}  // namespace

bool Unloading() { return unloading.load(std::memory_order_relaxed); }

Error NotSupported(std::string_view what) {
  static auto* const mutex = new Mutex;
  static auto* const named CUSPAN_PT_GUARDED_BY(*mutex) = new std::set<std::string, std::less<>>;
  {
    const MutexLock lock(*mutex);
    if (named->find(what) != named->end()) return CUDA_ERROR_NOT_SUPPORTED;
    named->emplace(what);
  }
  LogError("{} is not supported yet; the call returns {}", what,
           ThisThread().in_driver_call ? "CUDA_ERROR_NOT_SUPPORTED" : "cudaErrorNotSupported");
  EndIfStrict();
  return CUDA_ERROR_NOT_SUPPORTED;
}

Error CurrentFault() {
  Session* const session = Session::IfStarted();
  if (session == nullptr) return CUDA_SUCCESS;
  const CUresult state = session->devices().CurrentContext().state();
  const bool fault =
      state != CUDA_ERROR_CONTEXT_IS_DESTROYED && state != CUDA_ERROR_DEVICE_UNAVAILABLE;
  return fault ? state : CUDA_SUCCESS;
}

Session* StartedSession(CUresult* result) {
  Session* const session = Session::Get(result);
  if (session == nullptr) return nullptr;
  // Not logged for programs without use of CUDA.
  static const bool said = [] {
    const char* const warning = LoadWarning();
    if (warning != nullptr) LogWarn("{}", warning);
    return warning != nullptr;
  }();
  static_cast<void>(said);
  return session;
}

}  // namespace cuspan
