// What the functions do that we export and have not implemented.
#pragma once

extern "C" {

// Logs once per name that the function is not supported yet, keeps the error for
// cudaGetLastError where the runtime face is linked in, and returns it:
// cudaErrorNotSupported. `caller` is an address in the calling code. Any thread.
int cuspan_not_supported(const char* name, const void* caller);

// Given by the runtime face: keeps a cudaError_t as the calling thread's last error in the runtime
// of the code at `caller`.
__attribute__((weak, visibility("hidden"))) void cuspan_set_last_error(int error,
                                                                       const void* caller);
}
