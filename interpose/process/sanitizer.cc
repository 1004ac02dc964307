// Programs of -fsanitize=address. Their runtime refuses to start where it is not the first library
// of the process, which the client is in a run. It asks this function for defaults; what the
// program's own function of that name or ASAN_OPTIONS says comes before them.
// https://github.com/google/sanitizers/wiki/AddressSanitizerFlags
#include "interpose/client/base/before_libc.h"

CUSPAN_BEFORE_LIBC const char* __asan_default_options() { return "verify_asan_link_order=0"; }
