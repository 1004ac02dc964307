// Texts of --help and `cuspan help`, at most 80 columns wide.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace cuspan {

// Help of the parsed subcommand of `app`, else of `app` itself.
std::string HelpText(const CLI::App& app);
std::string ProgramHelp(const CLI::App& app);
// Help of one command.
std::string CommandHelp(const CLI::App& command);

// `cuspan help variables`: all variables in groups.
std::string VariablesHelp();

// docs/settings.md: all settings in groups, except internal ones.
std::string SettingsDocument();

}  // namespace cuspan
