// Output of batch systems' commands, with a time limit.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "common/status.h"

namespace cuspan {

struct CommandOutput {
  int wait_status = 0;  // Status from waitpid.
  std::string text;     // Standard output, and standard error if requested.
};

// Runs a command to its end, without input, in a process group of its own. kUnavailable if it has
// not ended after `limit`; the whole group is then killed. kNotFound if the command does not exist,
// kExhausted if no process can be created.
Result<CommandOutput> RunForOutput(const std::vector<std::string>& words, bool with_errors,
                                   std::chrono::milliseconds limit);

}  // namespace cuspan
