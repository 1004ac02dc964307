#include "launcher/text/parse_errors.h"

#include <string_view>

#include "common/format.h"

namespace cuspan {

std::string DescribeParseError(const CLI::ParseError& error) {
  const std::string_view text = error.what();
  const std::string_view first = text.substr(0, text.find(':'));
  // "OPTION: At Most 1 required but received 2", "OPTION: 1 required TEXT missing"
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr)
    return text.find(" but received ") != text.npos ? Format("{} is given more than once", first)
                                                    : Format("{} needs a value", first);
  // "The following argument was not expected: WORD"
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && first.size() + 2 < text.size()) {
    const std::string_view words = text.substr(first.size() + 2);
    return words.starts_with('-') ? Format("unknown option '{}'", words)
                                  : Format("'{}' is not expected", words);
  }
  return std::string(text);
}

}  // namespace cuspan
