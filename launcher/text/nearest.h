// Suggestion for a mistyped word.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace cuspan {

// The first word of `known` with the smallest distance from `word`, in letters to change. Empty if
// more than a third of the letters, and more than one, would change.
std::optional<std::string> Nearest(const std::string& word, const std::vector<std::string>& known);

}  // namespace cuspan
