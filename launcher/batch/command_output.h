// What a command of a batch system prints, which may take its time.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "common/status.h"

namespace cuspan {

struct CommandOutput {
  int wait_status = 0;  // As waitpid gives it.
  std::string text;     // Of standard output, and of standard error if asked for.
};

// Runs a command to its end, without input, in a process group of its own. kUnavailable when it
// has not ended after `limit`: the whole group is killed then. kNotFound when there is none,
// kExhausted when no process can be made.
Result<CommandOutput> RunForOutput(const std::vector<std::string>& words, bool with_errors,
                                   std::chrono::milliseconds limit);

}  // namespace cuspan
