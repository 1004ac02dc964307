// Scripts for completion of cuspan's command line in shells, generated from CLI11's options:
// `cuspan completion SHELL`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

#include "common/status.h"

namespace cuspan {

// Script for bash, zsh or fish; kInvalid for another shell. The values of an option are the
// lower-case words of its type's name ("auto|never"). FILE, DIR and COMMAND are completed as files,
// folders and commands. After the options of `run`, the shell completes another command.
Result<std::string> CompletionScript(const CLI::App& app, std::string_view shell);

}  // namespace cuspan
