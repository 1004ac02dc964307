// Cuts PTX text into tokens. The text may be anything at all: what is not PTX
// becomes a token of kind kBad, never a read outside the text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/status.h"

namespace cuspan::ptx {

struct Token {
  enum class Kind : std::uint8_t {
    kEnd,
    kBad,         // `text` is what could not be read.
    kIdentifier,  // Also registers: text includes a leading % or $.
    kDirective,   // Also opcode modifiers and types: text is without the dot.
    kInteger,     // `bits` is its value.
    kFloat32,     // 0f…: `bits` is the pattern.
    kFloat64,     // 0d… or decimal: `bits` is the pattern of the double.
    kString,      // Text without the quotes.
    kPunctuation,
  };
  Kind kind = Kind::kEnd;
  char punctuation = 0;
  std::uint64_t bits = 0;
  std::string_view text;
  std::size_t offset = 0;  // Of the token's first character in the text.
};

// Reads tokens with one token of look-ahead. Tokens are views into the text,
// which must outlive them. One thread at a time.
class Lexer {
 public:
  // Reads text[begin, end).
  Lexer(std::string_view text, std::size_t begin, std::size_t end);
  explicit Lexer(std::string_view text) : Lexer(text, 0, text.size()) {}

  const Token& Peek() const { return token_; }
  // Returns the current token and moves on.
  Token Take();

  bool AtEnd() const { return token_.kind == Token::Kind::kEnd; }
  bool IsPunctuation(char c) const {
    return token_.kind == Token::Kind::kPunctuation && token_.punctuation == c;
  }
  bool IsDirective(std::string_view name) const {
    return token_.kind == Token::Kind::kDirective && token_.text == name;
  }
  // Takes the token if it is `c` and says whether it did.
  bool Accept(char c);
  bool AcceptDirective(std::string_view name);

  // These fail, naming the line, when the current token is another.
  Status Expect(char c, std::string_view after);
  Result<std::string_view> ExpectIdentifier(std::string_view what);
  // An unsigned integer of at most `limit`.
  Result<std::uint64_t> ExpectInteger(std::string_view what, std::uint64_t limit);

  // The rest of the line on which the current token starts.
  std::string_view RestOfLine() const;
  // Skips that.
  void SkipLine();
  // The current token is '{': skips to behind the matching '}', minding strings
  // and comments. False when there is none.
  bool SkipBraces();
  // Offset behind the '}' that the last successful SkipBraces found.
  std::size_t BehindBraces() const { return behind_braces_; }

  // Line (from 1) of an offset that is not before the last one asked for.
  std::uint32_t LineOf(std::size_t offset);
  // kInvalid with the line of the current token: "line 12: <message>".
  Status Error(std::string_view message);
  // How the current token reads in a message.
  std::string Describe() const;

 private:
  void Read();
  void SkipSpace();
  void ReadNumber();

  std::string_view text_;
  std::size_t position_;  // Behind the current token.
  std::size_t end_;
  std::size_t behind_braces_ = 0;
  std::size_t line_offset_ = 0;
  std::uint32_t line_ = 1;
  Token token_;
};

}  // namespace cuspan::ptx
