// Manual pages in man(7) format, generated from CLI11's description of a command line. The hidden
// option --manual-page prints them; the build uses it for installation.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace cuspan {

// Adds --manual-page to `app` and its present subcommands; it makes them throw CLI::CallForAllHelp.
// --help does not show the option.
void AddManualPageOption(CLI::App& app);

// Page of `app`, or of its parsed subcommand. The page of an app with subcommands lists all
// variables, the others refer to it. command_description.h explains descriptions. The date is
// SOURCE_DATE_EPOCH, for reproducible builds, or today.
std::string ManualPage(const CLI::App& app);

}  // namespace cuspan
