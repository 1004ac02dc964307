// Behaviour of functions exported as libcuda.so.1 without an implementation.
#include "interpose/driver/entry.h"

// Logs that the function is not supported, once per name. `name`: a constant of the generated code.
// Threads: any.
extern "C" int cuspan_driver_not_supported(const char* name) {
  return cuspan::AnswerAlways([&] {
    const cuspan::InDriverCall call;
    return cuspan::NotSupported(name);
  });
}
