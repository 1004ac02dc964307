// Starting the driver, and finding its functions.
#include <set>
#include <string>

#include "common/format.h"
#include "common/log.h"
#include "common/mutex.h"
#include "interpose/calls/device.h"
#include "interpose/calls/driver_functions.h"
#include "interpose/driver/entry.h"
#include "interpose/load/load.h"

namespace cuspan {
namespace {

Error GetProcAddress(const char* name, void** function, int version, cuuint64_t flags,
                     CUdriverProcAddressQueryResult* status) {
  constexpr cuuint64_t kKnown =
      CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  if (name == nullptr || function == nullptr || (flags & ~kKnown) != 0 || flags == kKnown)
    return CUDA_ERROR_INVALID_VALUE;
  *function = nullptr;
  bool too_old = false;
  const DriverFunction* const found = FindDriverFunction(
      name, version, flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &too_old);
  if (status != nullptr) {
    *status = found != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS
              : too_old        ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                               : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  if (found == nullptr) return CUDA_ERROR_NOT_FOUND;
  *function = reinterpret_cast<void*>(found->function);
  return CUDA_SUCCESS;
}

// Says once per table that somebody has asked for it.
void NoteTable(const CUuuid& id) {
  static Mutex mutex;
  static auto* const asked = new std::set<std::string>;
  std::string name;
  for (const char byte : id.bytes) name += Format("{:02x}", static_cast<unsigned char>(byte));
  const MutexLock lock(mutex);
  if (asked->insert(name).second)
    LogInfo("the program, or a library of it, asks the driver for its private table {}", name);
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT CUresult cuInit(unsigned flags) {
  return AnswerAlways([&]() -> Error {
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = CUDA_SUCCESS;
    return StartedSession(&result) != nullptr ? CUDA_SUCCESS : result;
  });
}

CUSPAN_EXPORT CUresult cuDriverGetVersion(int* version) {
  return AnswerAlways([&]() -> Error {
    if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = CUDA_SUCCESS;
    const Session* const session = StartedSession(&result);
    if (session == nullptr) return result;
    *version = DriverVersion(*session);
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuGetProcAddress_v2(const char* name, void** function, int version,
                                           cuuint64_t flags,
                                           CUdriverProcAddressQueryResult* status) {
  return AnswerAlways([&] { return GetProcAddress(name, function, version, flags, status); });
}

#undef cuGetProcAddress
CUSPAN_EXPORT CUresult cuGetProcAddress(const char* name, void** function, int version,
                                        cuuint64_t flags) {
  return AnswerAlways([&] { return GetProcAddress(name, function, version, flags, nullptr); });
}

// Tables of functions without names, by which NVIDIA's libraries talk to its driver. A runtime that
// was not replaced by ours asks for them as well, and is told why it was not.
CUSPAN_EXPORT CUresult cuGetExportTable(const void** table, const CUuuid* id) {
  return AnswerAlways([&]() -> Error {
    if (table == nullptr || id == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *table = nullptr;
    static const bool said = [] {
      const char* const warning = AnyLoadWarning();
      if (warning != nullptr) LogWarn("{}", warning);
      return warning != nullptr;
    }();
    static_cast<void>(said);
    NoteTable(*id);
    return CUDA_ERROR_NOT_SUPPORTED;
  });
}
