// What the benchmarks' commands share: options, files of results, exit status.
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
// What brings messages between agents, each measured in its turn.
void AddRelaysOption(CLI::App& app, std::vector<RelayKind>& relays);
// "--csv" or "--json": a file for the results.
void AddResultsOption(CLI::App& app, const std::string& name, std::string& path);

// Reads the command line. Nothing if the command is to go on, else its exit status: the help has
// been printed, or a line that says what is wrong.
std::optional<int> Parse(CLI::App& app, int argc, const char* const* argv);

// Nothing for an empty path.
Status WriteFile(const std::string& path, const std::string& text);
// Makes them, empty: a measurement that can not be kept is not begun.
Status MakeFiles(std::initializer_list<std::string> paths);

// That of a command whose work ended so; a failure is named on standard error.
int ExitStatusOf(const Status& status);

}  // namespace cuspan::bench
