// Scripts with which shells complete cuspan's command line, made of the options that CLI11 knows:
// `cuspan completion SHELL`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

#include "common/status.h"

namespace cuspan {

// For bash, zsh or fish; kInvalid for another shell. The values of an option are the lower-case
// words of its type's name ("auto|never"); FILE, DIR and COMMAND are completed as such. After the
// options of `run` comes another command, with what the shell knows of that.
Result<std::string> CompletionScript(const CLI::App& app, std::string_view shell);

}  // namespace cuspan
