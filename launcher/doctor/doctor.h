// `cuspan doctor`: what a run would need and does not find.
#pragma once

#include "launcher/options.h"

namespace cuspan {

// Prints what is found on standard output; the exit status: 1 where something keeps a run from
// working. With `options.probe` says what this host is instead, for another one's doctor.
int Doctor(const DoctorOptions& options);

}  // namespace cuspan
