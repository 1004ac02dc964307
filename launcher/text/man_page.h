// Manual pages in the language of man(7), made of what CLI11 knows of a command line: of the hidden
// option --manual-page, by which the build makes those that are installed.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>

#include "common/settings.h"

namespace cuspan {

// Has `app` and its subcommands, which it has by then, throw CLI::CallForAllHelp at --manual-page.
// --help does not show the option.
void AddManualPageOption(CLI::App& app);

// The page of `app`, or of the subcommand of it that was parsed. The page of an app with
// subcommands has `variables`, the others name it. A description may have the command line after a
// colon
// ("run a program: cuspan run PROGRAM"), and examples in lines that begin with a space. The date is
// SOURCE_DATE_EPOCH, by which builds can be repeated, or today.
std::string ManualPage(const CLI::App& app, std::span<const Setting> variables);

}  // namespace cuspan
