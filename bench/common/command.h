// Common parts of the benchmarks' commands: options, result files, exit status.
#pragma once

#include <CLI/CLI.hpp>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "launcher/run/plan.h"

namespace cuspan::bench {

void AddDeviceOption(CLI::App& app, std::string& device);
void AddTransportOption(CLI::App& app, std::string& transport);
// Relays between agents, measured one after the other.
void AddRelaysOption(CLI::App& app, std::vector<RelayKind>& relays);
// Checks of values. The help of their options names the values by hand: "N", "on|off".
template <typename Number>
CLI::Validator Between(Number low, Number high) {
  return CLI::Range(low, high).description("");
}
CLI::Validator OneOf(const std::vector<std::string>& values);
// Option "--csv" or "--json": a file for the results.
void AddResultsOption(CLI::App& app, const std::string& name, std::string& path);

// Parses the command line. Empty to continue, else the exit status, after the help or an error line
// was printed.
std::optional<int> Parse(CLI::App& app, int argc, const char* const* argv);

// No effect for an empty path.
Status WriteFile(const std::string& path, const std::string& text);
// Creates empty files, so a measurement fails early if its results cannot be stored.
Status MakeFiles(std::initializer_list<std::string> paths);

// Exit status of a command with this result. Prints a failure on standard error.
int ExitStatusOf(const Status& status);

}  // namespace cuspan::bench
