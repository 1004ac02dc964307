#include "common/visible_list.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <optional>

namespace cuspan {
namespace {

bool IsIdentifier(std::string_view entry) {
  return entry.starts_with("GPU-") || entry.starts_with("MIG-");
}

// True if the identifier begins with the hexadecimal digits after GPU- in the entry, as nvidia-smi
// -L prints them. Dashes may be anywhere. After a whole identifier other characters may follow.
bool Names(std::string_view entry, std::string_view identifier) {
  std::string digits;
  for (const char c : entry.substr(std::string_view("GPU-").size())) {
    if (c == '-') continue;
    if (digits.size() == identifier.size()) break;
    if (std::isxdigit(static_cast<unsigned char>(c)) == 0) return false;
    digits += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return !digits.empty() && identifier.starts_with(digits);
}

// A number as strtoul reads it: after blanks and a sign, followed by anything. The driver keeps 32
// bits of it.
std::optional<std::size_t> Number(const std::string& entry) {
  char* end = nullptr;
  const auto number = static_cast<std::int32_t>(std::strtoul(entry.c_str(), &end, 10));
  if (end == entry.c_str() || number < 0) return std::nullopt;
  return static_cast<std::size_t>(number);
}

// Ambiguous prefixes match no device.
std::optional<std::size_t> Find(std::string_view entry, std::span<const std::string> identifiers) {
  if (!IsIdentifier(entry)) {
    const std::optional<std::size_t> position = Number(std::string(entry));
    return position < identifiers.size() ? position : std::nullopt;
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
  const bool by_identifier = IsIdentifier(choice);
  while (!choice.empty()) {
    const std::size_t comma = std::min(choice.find(','), choice.size());
    const std::string_view entry = choice.substr(0, comma);
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
