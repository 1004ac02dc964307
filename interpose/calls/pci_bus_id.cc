#include "interpose/calls/pci_bus_id.h"

#include <charconv>
#include <vector>

namespace cuspan {

std::optional<PciBusId> ParsePciBusId(std::string_view text) {
  std::vector<unsigned> numbers;
  bool has_function = false;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (;;) {
    unsigned number = 0;
    const auto [next, error] = std::from_chars(at, end, number, 16);
    if (error != std::errc{}) return std::nullopt;
    numbers.push_back(number);
    if (next == end) break;
    // Only the function, the last number, has a period before it.
    if (has_function || (*next != ':' && *next != '.')) return std::nullopt;
    has_function = *next == '.';
    at = next + 1;
  }
  if (!has_function) numbers.push_back(0);
  if (numbers.size() == 3 && has_function) numbers.insert(numbers.begin(), 0);
  if (numbers.size() != 4) return std::nullopt;
  return PciBusId{numbers[0], numbers[1], numbers[2], numbers[3]};
}

}  // namespace cuspan
