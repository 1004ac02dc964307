// The test is not entered, so interpose/load is not linked in.
#include "interpose/load/load.h"

namespace cuspan {

const char* LoadWarning() { return nullptr; }
const char* AnyLoadWarning() { return nullptr; }
int LinkedRuntimeRelease(const void* /*address*/) { return 0; }
std::uint64_t LinkedRuntime(const void* /*address*/) { return 0; }
const char* ProgramsNccl() { return ""; }

}  // namespace cuspan
