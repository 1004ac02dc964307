// Words of command lines, and lines of their output.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cuspan {

// A command line read by a shell as these words.
std::string QuoteForShell(const std::vector<std::string>& words);
// Words separated by blanks; "…" and '…' keep blanks.
std::vector<std::string> SplitWords(std::string_view text);

// Lines of a command's output, without surrounding blanks and without empty lines.
std::vector<std::string_view> OutputLines(std::string_view text);

}  // namespace cuspan
