// The functions that this library exports as libcuda.so.1, from driver/driver_exports.txt, for
// whoever asks for one by its name. Constant: any thread, any time.
#pragma once

#include <cstddef>

namespace cuspan {

struct DriverFunction {
  const char* name;
  void (*function)();
  int since;    // The version of CUDA that brought it: 12040 is 12.4. 0: it has none.
  bool absent;  // Who asks for it by name is told that there is none.
};
// As libcuda.so.1 finds it (load/generate_exports.py --forward-to).
static_assert(sizeof(DriverFunction) == 24 && offsetof(DriverFunction, function) == 8);

// By name, suffix and all; null when there is none.
const DriverFunction* FindDriverFunction(const char* name);

// As cuGetProcAddress finds it: the newest form of `name` that version `version` of CUDA knows;
// names with a suffix are not found (nor does driver 580 find them); with `per_thread` the twin
// whose stream 0 is the thread's own, where there is one. *too_old: there are only newer ones. Null
// when there is none.
const DriverFunction* FindDriverFunction(const char* name, int version, bool per_thread,
                                         bool* too_old);

}  // namespace cuspan
