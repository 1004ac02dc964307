// CUSPAN_STRICT=on: a program ends at the first thing it uses that is not supported, so that nobody
// reads results of a program that went on without it.
#pragma once

namespace cuspan {

// Exit status of such a program: sysexits.h calls it EX_UNAVAILABLE.
inline constexpr int kStrictExitStatus = 69;

// Called after the refusal has been named on standard error. Returns when the run is not strict;
// else writes out the program's buffered output and ends the process at once. Any thread.
void EndIfStrict();

}  // namespace cuspan
