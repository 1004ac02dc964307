// The programs that an agent is made of: cuspan-agent, and beside it those of another name that are
// linked with what is not on every host.
#pragma once

#include <string_view>

#include "common/status.h"

namespace cuspan {

// This process becomes the program cuspan-agent-`kind`. Returns only if it can not: kUnsupported,
// with `advice`, where there is no such program.
Status BecomeAgentProgram(std::string_view kind, std::string_view advice, char** arguments);

}  // namespace cuspan
