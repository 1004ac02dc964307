// Programs of an agent: cuspan-agent, and cuspan-agent-KIND beside it, linked with libraries
// missing on some hosts.
#pragma once

#include <string_view>

#include "common/status.h"

namespace cuspan {

// Replaces this process with the program cuspan-agent-`kind` (execv). Returns only on failure:
// kUnsupported, with `advice`, if there is no such program.
Status BecomeAgentProgram(std::string_view kind, std::string_view advice, char** arguments);

}  // namespace cuspan
