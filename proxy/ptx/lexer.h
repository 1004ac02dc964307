// Splits PTX text into tokens. Any text is allowed: invalid parts become tokens of kind kBad. Never
// reads outside the text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/status.h"

namespace cuspan::ptx {

struct Token {
  enum class Kind : std::uint8_t {
    kEnd,
    kBad,         // `text` is the invalid part.
    kIdentifier,  // Or a register: text includes a leading % or $.
    kDirective,   // Or a modifier or type: text excludes the dot.
    kInteger,     // `bits` is its value.
    kFloat32,     // 0f…: `bits` is the pattern.
    kFloat64,     // 0d… or decimal: `bits` is the double's pattern.
    kString,      // Text without the quotes.
    kPunctuation,
  };
  Kind kind = Kind::kEnd;
  char punctuation = 0;
  std::uint64_t bits = 0;
  std::string_view text;
  std::size_t offset = 0;  // Position of its first character.
};

// Reads tokens with one token of look-ahead. Tokens are views into the text; the text must outlive
// them. Threads: one at a time.
class Lexer {
 public:
  // Reads text[begin, end).
  Lexer(std::string_view text, std::size_t begin, std::size_t end);
  explicit Lexer(std::string_view text) : Lexer(text, 0, text.size()) {}

  const Token& Peek() const { return token_; }
  // Returns the current token and reads the next one.
  Token Consume();

  bool AtEnd() const { return token_.kind == Token::Kind::kEnd; }
  bool IsPunctuation(char c) const {
    return token_.kind == Token::Kind::kPunctuation && token_.punctuation == c;
  }
  bool IsDirective(std::string_view name) const {
    return token_.kind == Token::Kind::kDirective && token_.text == name;
  }
  // Consumes the token and returns true if it is `c`.
  bool Accept(char c);
  bool AcceptDirective(std::string_view name);

  // Consume the token. If it is a different one, they fail; the error includes the line.
  Status Expect(char c, std::string_view after);
  Result<std::string_view> ExpectIdentifier(std::string_view what);
  // Reads an unsigned integer of at most `limit`.
  Result<std::uint64_t> ExpectInteger(std::string_view what, std::uint64_t limit);

  // Rest of the line, from the current token on.
  std::string_view RestOfLine() const;
  // Skips the rest of the line.
  void SkipLine();
  // Skips from '{', the current token, to the matching '}'; ignores braces in strings and comments.
  // Returns false without a matching '}'.
  bool SkipBraces();
  // Offset after the '}' found by the last successful SkipBraces.
  std::size_t BehindBraces() const { return behind_braces_; }

  // Line (from 1) of an offset. Offsets of successive calls must not decrease.
  std::uint32_t LineOf(std::size_t offset);
  // Returns kInvalid with the line of the current token: "line 12: <message>".
  Status Error(std::string_view message);
  // Describes the current token for a message.
  std::string Describe() const;

 private:
  void Read();
  void SkipSpace();
  void ReadNumber();

  std::string_view text_;
  std::size_t position_;  // After the current token.
  std::size_t end_;
  std::size_t behind_braces_ = 0;
  std::size_t line_offset_ = 0;
  std::uint32_t line_ = 1;
  Token token_;
};

}  // namespace cuspan::ptx
