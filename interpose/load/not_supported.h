// Behaviour of exported functions without an implementation.
#pragma once

extern "C" {

// Logs once per name that the function is not supported yet, and returns cudaErrorNotSupported. If
// the libcudart replacement is linked in, also stores the error for cudaGetLastError. `caller`: an
// address in the calling code. Threads: any.
int cuspan_not_supported(const char* name, const void* caller);

// Defined by the libcudart replacement. Stores a cudaError_t as the calling thread's last error, in
// the runtime of the code at `caller`.
__attribute__((weak, visibility("hidden"))) void cuspan_set_last_error(int error,
                                                                       const void* caller);
}
