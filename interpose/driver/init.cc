// Initialization of the driver, and look-up of its functions.
#include "common/log.h"
#include "interpose/calls/device.h"
#include "interpose/calls/driver_functions.h"
#include "interpose/calls/private_tables.h"
#include "interpose/driver/entry.h"
#include "interpose/load/load.h"

namespace cuspan {
namespace {

Error GetProcAddress(const char* name, void** function, int version, cuuint64_t flags,
                     CUdriverProcAddressQueryResult* status) {
  constexpr cuuint64_t kKnown =
      CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  if (name == nullptr || function == nullptr || (flags & ~kKnown) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  // Rejects versions newer than the driver. If its version is still unknown, CUDA_VERSION is the
  // limit.
  const Session* const session = Session::IfStarted();
  if (version > (session != nullptr ? DriverVersion(*session) : CUDA_VERSION))
    return CUDA_ERROR_INVALID_VALUE;
  *function = nullptr;
  bool too_old = false;
  const DriverFunction* const found = FindDriverFunction(
      name, version, (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0, &too_old);
  if (status != nullptr) {
    *status = found != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS
              : too_old        ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                               : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  if (found != nullptr) *function = reinterpret_cast<void*>(found->function);
  return CUDA_SUCCESS;
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
    const Session* const session = Session::Prepare(&result);
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
  // Unlike the second version, this one has no status. If there is no function of this name, it
  // fails (measured natively, driver 580).
  return AnswerAlways([&]() -> Error {
    CUSPAN_RETURN_IF_FAILED(GetProcAddress(name, function, version, flags, nullptr));
    return *function != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
  });
}

CUSPAN_EXPORT CUresult cuGetExportTable(const void** table, const CUuuid* id) {
  return AnswerAlways([&, caller = __builtin_return_address(0)]() -> Error {
    // A CUDA runtime not replaced by cuspan's requests these tables, too. Logs the reason, once.
    static const bool said = [] {
      const char* const warning = AnyLoadWarning();
      if (warning != nullptr) LogWarn("{}", warning);
      return warning != nullptr;
    }();
    static_cast<void>(said);
    return GetPrivateTable(table, id, caller);
  });
}
