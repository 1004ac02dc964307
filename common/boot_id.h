// Identity of a host since its last start.
#pragma once

#include <string>

namespace cuspan {

// The kernel's boot id: equal for all processes of a host, also in containers, and another after
// each start. Empty if it cannot be read.
std::string BootId();

}  // namespace cuspan
