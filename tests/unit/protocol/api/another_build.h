// The op table's hash of a build whose table differs in the type of one field of one struct.
#pragma once

#include <cstdint>

namespace cuspan {

std::uint64_t AnotherBuildsOpTableHash();

}  // namespace cuspan
