// CLI11's parse errors in the wording of this project.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace cuspan {

std::string DescribeParseError(const CLI::ParseError& error);

}  // namespace cuspan
