#include "tests/unit/protocol/api/another_build.h"

// Its types have our names: they get a namespace of their own.
#define cuspan cuspan_of_another_build
#include "ops.gen.h"
#undef cuspan

namespace cuspan {

std::uint64_t AnotherBuildsOpTableHash() { return cuspan_of_another_build::kOpTableHash; }

}  // namespace cuspan
