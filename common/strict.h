// CUSPAN_STRICT=on: a program ends at its first use of an unsupported feature. Otherwise its
// results could be wrong unnoticed.
#pragma once

namespace cuspan {

// Exit status of a program ended this way: EX_UNAVAILABLE of sysexits.h.
inline constexpr int kStrictExitStatus = 69;

// Called after the unsupported feature was reported on standard error. Returns if the run is not
// strict. Otherwise flushes the program's buffered output and ends the process at once. Threads:
// any.
void EndIfStrict();

}  // namespace cuspan
