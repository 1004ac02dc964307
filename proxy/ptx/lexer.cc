#include "proxy/ptx/lexer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <string>

#include "proxy/ptx/scan.h"

namespace cuspan::ptx {
namespace {

enum CharClass : std::uint8_t { kSpace = 1, kDigit = 2, kHex = 4, kName = 8 };

constexpr std::array<std::uint8_t, 256> MakeClasses() {
  std::array<std::uint8_t, 256> classes{};
  for (char c : {' ', '\t', '\n', '\r', '\f', '\v'})
    classes[static_cast<unsigned char>(c)] = kSpace;
  for (unsigned c = '0'; c <= '9'; ++c) classes[c] = kDigit | kHex | kName;
  for (unsigned c = 'a'; c <= 'z'; ++c) classes[c] = kName;
  for (unsigned c = 'A'; c <= 'Z'; ++c) classes[c] = kName;
  for (unsigned c = 'a'; c <= 'f'; ++c) classes[c] |= kHex;
  for (unsigned c = 'A'; c <= 'F'; ++c) classes[c] |= kHex;
  for (char c : {'_', '$', '%'}) classes[static_cast<unsigned char>(c)] = kName;
  return classes;
}
constexpr auto kClasses = MakeClasses();

bool Is(char c, std::uint8_t wanted) {
  return (kClasses[static_cast<unsigned char>(c)] & wanted) != 0;
}

// Parses `digits` in `base`. Returns false if they do not fit 64 bits or are not a number.
bool ParseInteger(std::string_view digits, int base, std::uint64_t* value) {
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), *value, base);
  return result.ec == std::errc() && result.ptr == digits.data() + digits.size();
}

}  // namespace

Lexer::Lexer(std::string_view text, std::size_t begin, std::size_t end)
    : text_(text), position_(std::min(begin, text.size())), end_(std::min(end, text.size())) {
  Read();
}

Token Lexer::Consume() {
  Token taken = token_;
  Read();
  return taken;
}

bool Lexer::Accept(char c) {
  if (!IsPunctuation(c)) return false;
  Read();
  return true;
}

bool Lexer::AcceptDirective(std::string_view name) {
  if (!IsDirective(name)) return false;
  Read();
  return true;
}

Status Lexer::Expect(char c, std::string_view after) {
  if (Accept(c)) return Status::Ok();
  return Error(Format("expected '{}' after {}, found {}", c, after, Describe()));
}

Result<std::string_view> Lexer::ExpectIdentifier(std::string_view what) {
  if (token_.kind == Token::Kind::kIdentifier) return Consume().text;
  return Error(Format("expected {}, found {}", what, Describe()));
}

Result<std::uint64_t> Lexer::ExpectInteger(std::string_view what, std::uint64_t limit) {
  if (token_.kind != Token::Kind::kInteger)
    return Error(Format("expected {}, found {}", what, Describe()));
  if (token_.bits > limit)
    return Error(Format("{} is {}; at most {} is allowed", what, token_.bits, limit));
  return Consume().bits;
}

std::uint32_t Lexer::LineOf(std::size_t offset) {
  if (offset > text_.size()) offset = text_.size();
  if (offset < line_offset_) {
    line_offset_ = 0;
    line_ = 1;
  }
  line_ += static_cast<std::uint32_t>(
      CountLineBreaks(text_.substr(line_offset_, offset - line_offset_)));
  line_offset_ = offset;
  return line_;
}

Status Lexer::Error(std::string_view message) {
  return Status::Invalid("PTX line {}: {}", LineOf(token_.offset), message);
}

std::string Lexer::Describe() const {
  // Untrusted text: short, and printable characters only.
  std::string shown;
  for (char c : token_.text.substr(0, 40)) shown += c >= ' ' && c <= '~' ? c : '?';
  switch (token_.kind) {
    case Token::Kind::kEnd:
      return "the end of the text";
    case Token::Kind::kDirective:
      return Format("'.{}'", shown);
    case Token::Kind::kString:
      return Format("the string \"{}\"", shown);
    default:
      return Format("'{}'", shown);
  }
}

std::string_view Lexer::RestOfLine() const {
  const std::size_t begin = std::min<std::size_t>(token_.offset, end_);
  const std::string_view rest = text_.substr(begin, end_ - begin);
  return rest.substr(0, rest.find('\n'));
}

void Lexer::SkipLine() {
  position_ = std::min<std::size_t>(token_.offset + RestOfLine().size() + 1, end_);
  Read();
}

bool Lexer::SkipBraces() {
  std::size_t depth = 1;
  const char* text = text_.data();
  std::size_t i = position_;
  while ((i = FindBraceOrQuote(text_, i, end_)) < end_) {
    const char c = text[i++];
    if (c == '{') {
      ++depth;
    } else if (c == '}') {
      if (--depth == 0) {
        position_ = behind_braces_ = i;
        Read();
        return true;
      }
    } else if (c == '"') {
      while (i < end_ && text[i] != '"') i += text[i] == '\\' ? 2 : 1;
      ++i;
    } else if (c == '/' && i < end_ && (text[i] == '/' || text[i] == '*')) {
      const bool line = text[i] == '/';
      const std::size_t close = text_.find(line ? "\n" : "*/", i + 1);
      if (close == std::string_view::npos || close >= end_) break;
      i = close + (line ? 1 : 2);
    }
  }
  position_ = end_;
  Read();
  return false;
}

void Lexer::SkipSpace() {
  while (position_ < end_) {
    const char c = text_[position_];
    if (Is(c, kSpace)) {
      ++position_;
    } else if (c == '/' && position_ + 1 < end_ &&
               (text_[position_ + 1] == '/' || text_[position_ + 1] == '*')) {
      const bool line = text_[position_ + 1] == '/';
      const std::size_t close = text_.find(line ? "\n" : "*/", position_ + 2);
      position_ = close == std::string_view::npos ? end_ : std::min(end_, close + (line ? 1 : 2));
    } else {
      return;
    }
  }
}

void Lexer::ReadNumber() {
  const std::size_t begin = position_;
  const auto rest = text_.substr(begin, end_ - begin);
  token_.kind = Token::Kind::kBad;
  // Bit pattern: 0f or 0d, and a fixed number of hexadecimal digits.
  if (rest.size() > 2 && rest[0] == '0' && ((rest[1] | 0x20) == 'f' || (rest[1] | 0x20) == 'd')) {
    const std::size_t digits = (rest[1] | 0x20) == 'f' ? 8 : 16;
    std::size_t length = 2;
    while (length < rest.size() && Is(rest[length], kName)) ++length;
    position_ += length;
    if (length == digits + 2 && ParseInteger(rest.substr(2, digits), 16, &token_.bits))
      token_.kind = digits == 8 ? Token::Kind::kFloat32 : Token::Kind::kFloat64;
  } else {
    std::size_t length = 0;
    bool decimal_float = false;
    const bool prefixed = rest.size() > 1 && rest[0] == '0' && Is(rest[1], kName) &&
                          !Is(rest[1], kDigit) && (rest[1] | 0x20) != 'e' &&
                          (rest[1] | 0x20) != 'u';
    while (length < rest.size()) {
      const char c = rest[length];
      if (!prefixed && (c == '.' || (c | 0x20) == 'e')) {
        // A number in PTX is never followed by a modifier with its dot.
        decimal_float = true;
        if (c != '.' && length + 1 < rest.size() &&
            (rest[length + 1] == '-' || rest[length + 1] == '+'))
          ++length;
      } else if (!Is(c, kName)) {
        break;
      }
      ++length;
    }
    position_ += length;
    auto number = rest.substr(0, length);
    if (decimal_float) {
      double value = 0;
      const auto result = std::from_chars(number.data(), number.data() + number.size(), value);
      if (result.ec == std::errc() && result.ptr == number.data() + number.size()) {
        token_.kind = Token::Kind::kFloat64;
        token_.bits = std::bit_cast<std::uint64_t>(value);
      }
    } else {
      if (!number.empty() && (number.back() | 0x20) == 'u') number.remove_suffix(1);
      int base = 10;
      if (number.size() > 1 && number[0] == '0') {
        const int letter = number[1] | 0x20;
        base = letter == 'x' ? 16 : letter == 'b' ? 2 : 8;
        number.remove_prefix(base == 8 ? 1 : 2);
      }
      if (ParseInteger(number, base, &token_.bits)) token_.kind = Token::Kind::kInteger;
    }
  }
  token_.text = text_.substr(begin, position_ - begin);
}

void Lexer::Read() {
  SkipSpace();
  token_ = Token{};
  token_.offset = position_;
  if (position_ >= end_) return;
  const std::size_t begin = position_;
  const char c = text_[begin];
  if (Is(c, kDigit)) {
    ReadNumber();
    return;
  }
  const bool dot = c == '.';
  if (Is(c, kName) || (dot && begin + 1 < end_ && Is(text_[begin + 1], kName))) {
    ++position_;
    while (position_ < end_) {
      if (Is(text_[position_], kName)) {
        ++position_;
      } else if (dot && text_[position_] == ':' && position_ + 2 < end_ &&
                 text_[position_ + 1] == ':' && Is(text_[position_ + 2], kName)) {
        position_ += 2;  // .L2::128B, .shared::cta
      } else {
        break;
      }
    }
    token_.kind = dot ? Token::Kind::kDirective : Token::Kind::kIdentifier;
    token_.text = text_.substr(begin + (dot ? 1 : 0), position_ - begin - (dot ? 1 : 0));
    return;
  }
  if (c == '"') {
    ++position_;
    while (position_ < end_ && text_[position_] != '"')
      position_ += text_[position_] == '\\' ? 2 : 1;
    if (position_ >= end_) {
      position_ = end_;
      token_.kind = Token::Kind::kBad;
      token_.text = text_.substr(begin, end_ - begin);
      return;
    }
    token_.kind = Token::Kind::kString;
    token_.text = text_.substr(begin + 1, position_ - begin - 1);
    ++position_;
    return;
  }
  ++position_;
  token_.text = text_.substr(begin, 1);
  token_.kind = std::strchr("{}[]()<>,;:=@!|+-*/~&^?", c) != nullptr && c != 0
                    ? Token::Kind::kPunctuation
                    : Token::Kind::kBad;
  token_.punctuation = c;
}

}  // namespace cuspan::ptx
