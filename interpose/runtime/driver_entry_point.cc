// Look-up of the driver's functions through the runtime.
#include "interpose/calls/driver_functions.h"
#include "interpose/calls/private_tables.h"

#include "interpose/runtime/caller.h"
#include "interpose/runtime/entry.h"

namespace cuspan {
namespace {

Error GetEntryPoint(const char* name, void** function, int version, unsigned long long flags,
                    DefaultStream meaning, cudaDriverEntryPointQueryResult* status) {
  if (name == nullptr || function == nullptr || flags > cudaEnablePerThreadDefaultStream)
    return cudaErrorInvalidValue;
  *function = nullptr;
  // Starts the session (cuInit): the functions found need it.
  return WithSession([&](Session&) -> Error {
    const bool per_thread = flags == cudaEnablePerThreadDefaultStream ||
                            (flags == cudaEnableDefault && meaning == DefaultStream::kPerThread);
    bool too_old = false;
    const DriverFunction* const found = FindDriverFunction(name, version, per_thread, &too_old);
    if (found != nullptr) *function = reinterpret_cast<void*>(found->function);
    if (status != nullptr) {
      *status = found != nullptr ? cudaDriverEntryPointSuccess
                : too_old        ? cudaDriverEntryPointVersionNotSufficent
                                 : cudaDriverEntryPointSymbolNotFound;
    }
    return cudaSuccess;
  });
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT_TWINS(cudaGetDriverEntryPointByVersion, _ptsz,
                    (const char* name, void** function, unsigned version, unsigned long long flags,
                     cudaDriverEntryPointQueryResult* status),
                    Answer([&] {
                      return GetEntryPoint(name, function, static_cast<int>(version), flags,
                                           meaning, status);
                    }))

CUSPAN_EXPORT_TWINS(cudaGetDriverEntryPoint, _ptsz,
                    (const char* name, void** function, unsigned long long flags,
                     cudaDriverEntryPointQueryResult* status),
                    Answer([&,
                            version = RuntimeVersion(CallerRelease(__builtin_return_address(0)))] {
                      return GetEntryPoint(name, function, version, flags, meaning, status);
                    }))

// The runtime also has tables of its own. No known library requests them.
CUSPAN_EXPORT cudaError_t cudaGetExportTable(const void** table, const cudaUUID_t* id) {
  return Answer(
      [&, caller = __builtin_return_address(0)] { return GetPrivateTable(table, id, caller); });
}
