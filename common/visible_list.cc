#include "common/visible_list.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "common/trim.h"

namespace cuspan {
namespace {

bool IsIdentifier(std::string_view entry) {
  return entry.starts_with("GPU-") || entry.starts_with("MIG-");
}

// GPU-01234567-89ab-… of the start of an identifier, as nvidia-smi -L prints it.
bool Names(std::string_view entry, std::string_view identifier) {
  std::string digits;
  for (const char c : entry.substr(std::string_view("GPU-").size()))
    if (c != '-') digits += static_cast<char>(c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c);
  return !digits.empty() && identifier.starts_with(digits);
}

// Only one device may have such an identifier.
std::optional<std::size_t> Find(std::string_view entry, std::span<const std::string> identifiers) {
  if (!IsIdentifier(entry)) {
    std::size_t position = 0;
    const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), position);
    const bool whole = error == std::errc{} && end == entry.data() + entry.size();
    return whole && position < identifiers.size() ? std::optional(position) : std::nullopt;
  }
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < identifiers.size(); ++i) {
    if (!Names(entry, identifiers[i])) continue;
    if (found) return std::nullopt;
    found = i;
  }
  return found;
}

}  // namespace

VisibleList ReadVisibleList(std::string_view choice, std::span<const std::string> identifiers) {
  VisibleList list;
  const bool by_identifier = IsIdentifier(Trim(choice));
  while (!choice.empty()) {
    const std::size_t comma = std::min(choice.find(','), choice.size());
    const std::string_view entry = Trim(choice.substr(0, comma));
    if (IsIdentifier(entry) != by_identifier) break;
    const std::optional<std::size_t> position = Find(entry, identifiers);
    if (!position) break;
    if (std::find(list.positions.begin(), list.positions.end(), *position) != list.positions.end())
      return {{}, true};
    list.positions.push_back(*position);
    choice.remove_prefix(std::min(comma + 1, choice.size()));
  }
  return list;
}

}  // namespace cuspan
