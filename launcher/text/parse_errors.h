// What CLI11 has against a command line, in the words of this project.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace cuspan {

std::string DescribeParseError(const CLI::ParseError& error);

}  // namespace cuspan
