// Checks on module images before the driver, which is told no length, reads them.
#pragma once

#include <cstddef>
#include <span>

#include "common/status.h"

namespace cuspan::proxy {

// Whether the driver will stay inside `image` when it finds out what it is: a
// fat binary, an ELF image (cubin) or PTX text with a NUL behind it. kInvalid
// says what is wrong.
Status CheckImage(std::span<const std::byte> image);

}  // namespace cuspan::proxy
