// Op table hash of another build. One field of one struct has another type in its table.
#pragma once

#include <cstdint>

namespace cuspan {

std::uint64_t AnotherBuildsOpTableHash();

}  // namespace cuspan
