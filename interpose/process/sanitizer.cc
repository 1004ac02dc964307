// Programs built with -fsanitize=address. In a run, the client is the first library of the process;
// the sanitizer's runtime requires this position and otherwise does not start. It calls this
// function for defaults. The program's own definition and ASAN_OPTIONS have precedence.
// https://github.com/google/sanitizers/wiki/AddressSanitizerFlags
#include "interpose/client/base/before_libc.h"

CUSPAN_BEFORE_LIBC const char* __asan_default_options() { return "verify_asan_link_order=0"; }
