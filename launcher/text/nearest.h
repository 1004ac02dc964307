// What a mistyped word was probably meant to be.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace cuspan {

// The word of `known` that differs from `word` in the fewest letters, the first of them; none where
// more than a third of the letters, and more than one, would have to change.
std::optional<std::string> Nearest(const std::string& word, const std::vector<std::string>& known);

}  // namespace cuspan
