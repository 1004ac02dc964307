// NCCL in general: version, names of results, ids and groups.
#include <cstring>

#include "common/log.h"
#include "common/mutex.h"
#include "interpose/load/load.h"
#include "interpose/nccl/entry.h"

namespace cuspan::nccl {
namespace {

struct LastProblem {
  Mutex mutex;
  std::string text CUSPAN_GUARDED_BY(mutex);
};
// Common to all threads, as in NCCL. Never destroyed.
LastProblem& TheLastProblem() {
  static auto* const problem = new LastProblem;
  return *problem;
}

const char* TextOf(int result) {
  switch (result) {
    case kSuccess:
      return "no error";
    case kUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case kSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case kInternalError:
      return "internal error";
    case kInvalidArgument:
      return "invalid argument";
    case kInvalidUsage:
      return "invalid usage";
    case kRemoteError:
      return "remote process exited or there was a network error";
    case kInProgress:
      return "operation in progress";
    default:
      return "unknown result code";
  }
}

}  // namespace

int Refuse(int result, std::string problem) {
  LogInfo("NCCL: {}: {}", TextOf(result), problem);
  LastProblem& last = TheLastProblem();
  const MutexLock lock(last.mutex);
  last.text = std::move(problem);
  return result;
}

int ResultOf(const Error& error) {
  if (!error.failed()) return kSuccess;
  const ErrorEntry* const entry = FindError(error.driver());
  const char* const text = entry != nullptr ? cuspan::TextOf(*entry) : "an unknown CUDA error";
  if (error == CUDA_ERROR_DEVICE_UNAVAILABLE) return Refuse(kRemoteError, text);
  if (error == CUDA_ERROR_STREAM_CAPTURE_ISOLATION || error == CUDA_ERROR_NOT_PERMITTED)
    return Refuse(kInvalidUsage, text);
  return Refuse(kUnhandledCudaError, text);
}

int ResultOf(const Communicator::State& state) {
  if (state.result == kSuccess || state.result == kInProgress) return state.result;
  return Refuse(state.result, state.problem);
}

int ResultOf(const Error& error, int outcome, std::string problem) {
  if (error.failed()) return ResultOf(error);
  return outcome == kSuccess ? int{kSuccess} : Refuse(outcome, std::move(problem));
}

}  // namespace cuspan::nccl

using namespace cuspan;        // NOLINT: the entry points below are the C API.
using namespace cuspan::nccl;  // NOLINT: the same.

// Version of NCCL at the proxies.
CUSPAN_EXPORT int ncclGetVersion(int* version) {
  if (version == nullptr) return kInvalidArgument;
  static Mutex asking;
  static int known = 0;
  const MutexLock lock(asking);
  if (known == 0) {
    const int asked = Answer([&](Session& session) {
      NcclVersion::Reply reply;
      std::shared_ptr<ContextConnection> connection;
      Error error = session.devices().OpenCurrent(&connection);
      if (!error.failed()) error = connection->Call(NcclVersion{ProgramsNccl()}, &reply);
      if (!error.failed()) known = static_cast<int>(reply.version);
      return ResultOf(error, reply.outcome, reply.problem);
    });
    if (asked != kSuccess) return asked;
  }
  *version = known;
  return kSuccess;
}

CUSPAN_EXPORT const char* ncclGetErrorString(int result) { return nccl::TextOf(result); }

CUSPAN_EXPORT const char* ncclGetLastError(const ncclComm*) {
  static thread_local std::string* kept = nullptr;  // Valid until the thread's next call.
  if (kept == nullptr) kept = new std::string;
  LastProblem& last = TheLastProblem();
  const MutexLock lock(last.mutex);
  *kept = last.text;
  return kept->c_str();
}

CUSPAN_EXPORT int ncclGetUniqueId(UniqueId* id) {
  return Answer([&](Session& session) {
    if (id == nullptr) return Refuse(kInvalidArgument, "the pointer to the id is null");
    NcclId::Reply reply;
    std::shared_ptr<ContextConnection> connection;
    Error error = session.devices().OpenCurrent(&connection);
    if (!error.failed()) error = connection->Call(NcclId{ProgramsNccl()}, &reply);
    std::memcpy(id->bytes, reply.id.bytes.data(), sizeof(id->bytes));
    return ResultOf(error, reply.outcome, reply.problem);
  });
}

CUSPAN_EXPORT int ncclGroupStart() {
  return Answer([](Session&) {
    Group::OfThisThread().Start();
    return int{kSuccess};
  });
}

CUSPAN_EXPORT int ncclGroupEnd() {
  return Answer([](Session& session) { return Group::OfThisThread().End(session); });
}

CUSPAN_EXPORT int ncclGroupSimulateEnd(void*) {
  return Answer([](Session&) {
    static_cast<void>(NotSupported("ncclGroupSimulateEnd"));
    const int result = Group::OfThisThread().Forget();
    return result != kSuccess ? result : int{kInvalidUsage};
  });
}

// No effect: the proxies read their environment at start.
CUSPAN_EXPORT void ncclResetDebugInit() {}

// Behaviour of functions not defined in this folder.
extern "C" int cuspan_nccl_not_supported(const char* name) {
  static_cast<void>(NotSupported(name));
  return Refuse(kInvalidUsage, std::string(name) + " is not supported");
}
