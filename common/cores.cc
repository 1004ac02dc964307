#include "common/cores.h"

#include <sched.h>

#include <algorithm>

namespace cuspan {

int AvailableCores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  return ::sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? std::max(CPU_COUNT(&allowed), 1)
                                                               : 1;
}

}  // namespace cuspan
