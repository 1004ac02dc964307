// Functions exported as libcuda.so.1, from driver/driver_exports.txt, for lookups by name. Constant
// data: any thread, any time.
#pragma once

#include <cstddef>

namespace cuspan {

struct DriverFunction {
  const char* name;
  void (*function)();
  int since;    // First CUDA version with it: 12040 is 12.4. 0: none.
  bool absent;  // Lookups by name do not find it.
};
// Layout expected by libcuda.so.1 (load/generate_exports.py --forward-to).
static_assert(sizeof(DriverFunction) == 24 && offsetof(DriverFunction, function) == 8);

// Finds the full name, including its suffix; null if not found.
const DriverFunction* FindDriverFunction(const char* name);

// Lookup of cuGetProcAddress: the newest form of `name` up to version `version` of CUDA. Names with
// a suffix are not found (same with driver 580). `per_thread`: prefers the variant for per-thread
// default streams, if any. *too_old: only newer forms exist. Null if not found.
const DriverFunction* FindDriverFunction(const char* name, int version, bool per_thread,
                                         bool* too_old);

}  // namespace cuspan
