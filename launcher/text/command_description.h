// Parts of a command's description in CLI11: used by --help and the manual pages.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace cuspan {

struct CommandDescription {
  std::string name;      // Name of the command's page: "cuspan-run".
  std::string brief;     // Text up to its first punctuation.
  std::string usage;     // Command line.
  std::string text;      // Sentences.
  std::string examples;  // Lines.
};

// A description may have the command line after a colon ("run a program: cuspan run PROGRAM"), and
// examples in lines starting with a space.
CommandDescription DescribeCommand(const CLI::App& command);

std::string UpperCase(std::string text);
// Name of a positional argument: "WHERE".
std::string ArgumentName(const CLI::Option& argument);

// True for all commands of an app, for CLI::App::get_subcommands, which otherwise returns only the
// parsed ones.
inline bool AnyCommand(const CLI::App* /*command*/) { return true; }

}  // namespace cuspan
