// Functions called by a program's static constructors. They only record; a device gets the code at
// its first use.

#include "common/log.h"
#include "interpose/client/base/registry.h"
#include "interpose/runtime/entry.h"

namespace {

using cuspan::FatbinRecord;
using cuspan::Registry;

FatbinRecord* RecordOf(void** handle) { return reinterpret_cast<FatbinRecord*>(handle); }

}  // namespace

// Declared in crt/host_runtime.h, a header only usable by nvcc.

CUSPAN_EXPORT void** __cudaRegisterFatBinary(void* wrapper) {
  return reinterpret_cast<void**>(Registry::Get().AddFatbin(wrapper));
}

CUSPAN_EXPORT void __cudaRegisterFatBinaryEnd(void**) {}

CUSPAN_EXPORT void __cudaUnregisterFatBinary(void** handle) {
  if (handle == nullptr) return;
  const cuspan::CancellationOff cancellation;
  const auto removed = Registry::Get().RemoveFatbin(RecordOf(handle));
  if (removed == nullptr || cuspan::Unloading()) return;
  if (cuspan::Session* const session = cuspan::Session::IfStarted())
    session->devices().Unload(*removed);
}

CUSPAN_EXPORT void __cudaRegisterFunction(void** handle, const char* host, char* /*device*/,
                                          const char* name, int /*thread_limit*/, uint3* /*tid*/,
                                          uint3* /*bid*/, dim3* /*block*/, dim3* /*grid*/,
                                          int* /*warp_size*/) {
  Registry::Get().AddFunction(RecordOf(handle), host, name);
}

CUSPAN_EXPORT void __cudaRegisterVar(void** handle, char* host, char* /*device*/, const char* name,
                                     int /*external*/, std::size_t bytes, int constant,
                                     int /*global*/) {
  Registry::Get().AddVariable(RecordOf(handle), host, name, bytes, constant != 0);
}

CUSPAN_EXPORT void __cudaRegisterManagedVar(void** handle, void** host, char* /*device*/,
                                            const char* name, int /*external*/,
                                            std::size_t /*bytes*/, int /*constant*/,
                                            int /*global*/) {
  Registry::Get().AddManaged(RecordOf(handle), host, name);
}

// Called if device code uses host variables (some compilers allow it). In no public header.
CUSPAN_EXPORT void __cudaRegisterHostVar(void** handle) {
  Registry::Get().SetUnsupported(RecordOf(handle), "a host variable used by device code");
}

// Called before the host uses a managed variable for the first time. It cannot report an error: on
// failure, nvcc's code next dereferences a null pointer.
CUSPAN_EXPORT char __cudaInitModule(void** handle) {
  const FatbinRecord* const fatbin = RecordOf(handle);
  if (fatbin == nullptr) return 1;
  const cudaError_t result = cuspan::Answer([&]() -> cuspan::Error {
    if (!fatbin->unsupported.empty()) return cuspan::NotSupported(fatbin->unsupported);
    // Loading the module sets the variables' addresses and initial values.
    return cuspan::OnCurrentDevice(
        [&](cuspan::Session&, cuspan::ContextConnection& connection) -> cuspan::Error {
          return connection.modules().Load(*fatbin);
        });
  });
  return result == cudaSuccess ? 1 : 0;
}
