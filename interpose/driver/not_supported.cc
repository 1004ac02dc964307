// What the functions do that the library exports as libcuda.so.1 and does not have.
#include "interpose/driver/entry.h"

// The name is a constant of the generated code. Says once per name that the function is not
// supported. Any thread.
extern "C" int cuspan_driver_not_supported(const char* name) {
  return cuspan::AnswerAlways([&] {
    const cuspan::InDriverCall call;
    return cuspan::NotSupported(name);
  });
}
