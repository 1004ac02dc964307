#include "tests/unit/protocol/api/another_build.h"

// The other build's types have the same names, so they get their own namespace.
#define cuspan cuspan_of_another_build
#include "ops.gen.h"
#undef cuspan

namespace cuspan {

std::uint64_t AnotherBuildsOpTableHash() { return cuspan_of_another_build::kOpTableHash; }

}  // namespace cuspan
