#include "proxy/ptx/declarations.h"

#include <bit>
#include <cstring>

namespace cuspan::ptx {
namespace {

constexpr int kMaxDimensions = 16;
// Memory limit: a short text could otherwise require much memory by an initialiser of a far
// element.
constexpr std::uint64_t kMaxInitialBytes = 256 << 20;

// Text between the state space and the name.
struct Prefix {
  Type type = Type::kNone;
  std::uint32_t alignment = 0;
  std::uint32_t vector = 1;
  bool managed = false;
};

Result<std::uint32_t> ParseAlignment(Lexer& lexer) {
  CUSPAN_ASSIGN_OR_RETURN(auto value, lexer.ExpectInteger("an alignment after '.align'", 1 << 16));
  if (!std::has_single_bit(value))
    return lexer.Error(Format("alignment {} is not a power of two", value));
  return static_cast<std::uint32_t>(value);
}

Result<Prefix> ParsePrefix(Lexer& lexer) {
  Prefix prefix;
  while (lexer.Peek().kind == Token::Kind::kDirective) {
    const Token token = lexer.Consume();
    if (token.text == "align") {
      CUSPAN_ASSIGN_OR_RETURN(prefix.alignment, ParseAlignment(lexer));
    } else if (token.text == "ptr") {
      // A pointer parameter: its target does not affect the layout.
      while (lexer.Peek().kind == Token::Kind::kDirective) {
        if (lexer.AcceptDirective("align")) {
          if (auto alignment = ParseAlignment(lexer); !alignment.ok()) return alignment.status();
        } else {
          lexer.Consume();
        }
      }
    } else if (token.text == "attribute") {
      CUSPAN_RETURN_IF_ERROR(lexer.Expect('(', "'.attribute'"));
      while (!lexer.IsPunctuation(')')) {
        if (lexer.AtEnd()) return lexer.Error("'.attribute(' is not closed");
        if (lexer.AcceptDirective("managed")) {
          prefix.managed = true;
        } else {
          lexer.Consume();
        }
      }
      lexer.Consume();
    } else if (token.text == "v2" || token.text == "v4") {
      prefix.vector = token.text == "v2" ? 2 : 4;
    } else if (const Type type = TypeNamed(token.text); type != Type::kNone) {
      prefix.type = type;
    } else {
      return Status::Unsupported("PTX line {}: '.{}' in a declaration is not implemented",
                                 lexer.LineOf(token.offset), token.text);
    }
  }
  if (prefix.type == Type::kNone)
    return lexer.Error(Format("expected a type in a declaration, found {}", lexer.Describe()));
  return prefix;
}

// Writes the values of one initialiser to the bytes of `variable`.
class InitialiserParser {
 public:
  InitialiserParser(Lexer& lexer, Variable* variable, const std::vector<std::uint64_t>& dimensions)
      : lexer_(lexer),
        variable_(variable),
        dimensions_(dimensions),
        element_(BytesOf(variable->type)) {}

  Status Parse() {
    if (!lexer_.IsPunctuation('{')) return Value();
    return List(0, 0);
  }

 private:
  // Reads "{…}" for dimension `depth`, starting at element `first` of the variable.
  Status List(std::size_t depth, std::uint64_t first) {
    lexer_.Consume();
    std::uint64_t stride = 1;
    for (std::size_t i = depth + 1; i < dimensions_.size(); ++i) stride *= dimensions_[i];
    next_ = first;
    for (std::uint64_t i = 0; !lexer_.IsPunctuation('}'); ++i) {
      if (lexer_.IsPunctuation('{')) {
        if (depth + 1 >= dimensions_.size() && depth + 1 >= kMaxDimensions)
          return lexer_.Error("an initialiser is nested too deeply");
        if (depth + 1 >= dimensions_.size())
          return lexer_.Error(
              "an initialiser has more nested braces than the variable has dimensions");
        CUSPAN_RETURN_IF_ERROR(List(depth + 1, first + i * stride));
        next_ = first + (i + 1) * stride;
      } else {
        CUSPAN_RETURN_IF_ERROR(Value());
      }
      if (!lexer_.Accept(',')) break;
    }
    return lexer_.Expect('}', "an initialiser");
  }

  Status Value() {
    const std::uint64_t offset = next_ * element_;
    if (variable_->bytes != 0 && offset + element_ > variable_->bytes)
      return lexer_.Error(Format("the initialiser of '{}' has too many values", variable_->name));
    if (offset + element_ > kMaxInitialBytes)
      return Status::Unsupported(
          "PTX line {}: initial values of more than {} bytes are not implemented",
          lexer_.LineOf(lexer_.Peek().offset), kMaxInitialBytes);
    ++next_;
    bool negative = false;
    while (lexer_.IsPunctuation('-') || lexer_.IsPunctuation('+')) {
      if (lexer_.Consume().punctuation == '-') negative = !negative;
    }
    const Token token = lexer_.Consume();
    std::uint64_t bits = 0;
    switch (token.kind) {
      case Token::Kind::kInteger:
        bits = negative ? 0 - token.bits : token.bits;
        if (variable_->type == Type::kF32)
          bits = std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<std::int64_t>(bits)));
        else if (variable_->type == Type::kF64)
          bits = std::bit_cast<std::uint64_t>(static_cast<double>(static_cast<std::int64_t>(bits)));
        break;
      case Token::Kind::kFloat32:
      case Token::Kind::kFloat64: {
        bits = token.bits;
        const bool is_double = token.kind == Token::Kind::kFloat64;
        if (negative) bits ^= is_double ? std::uint64_t{1} << 63 : std::uint64_t{1} << 31;
        if (variable_->type == Type::kF32 && is_double)
          bits = std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(bits)));
        else if (variable_->type == Type::kF64 && !is_double)
          bits = std::bit_cast<std::uint64_t>(
              static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits))));
        break;
      }
      case Token::Kind::kIdentifier:
        return Symbol(token, offset);
      default:
        return lexer_.Error(
            Format("the initialiser of '{}' is not a number or an address", variable_->name));
    }
    Put(offset, bits);
    return Status::Ok();
  }

  // Reads "name", "name+4", "generic(name)" or "generic(name)+4".
  Status Symbol(const Token& first, std::uint64_t offset) {
    std::string_view name = first.text;
    if (name == "generic" && lexer_.Accept('(')) {
      CUSPAN_ASSIGN_OR_RETURN(name, lexer_.ExpectIdentifier("a variable in 'generic()'"));
      CUSPAN_RETURN_IF_ERROR(ParseAddend());
      CUSPAN_RETURN_IF_ERROR(lexer_.Expect(')', "'generic('"));
    } else {
      addend_ = 0;
    }
    const std::int64_t inside = addend_;
    CUSPAN_RETURN_IF_ERROR(ParseAddend());
    if (element_ != 8)
      return Status::Unsupported(
          "PTX line {}: the address of '{}' in an element of {} bytes is not implemented",
          lexer_.LineOf(first.offset), name, element_);
    Put(offset, 0);
    variable_->relocations.push_back({offset, name, inside + addend_});
    return Status::Ok();
  }

  Status ParseAddend() {
    addend_ = 0;
    while (lexer_.IsPunctuation('+') || lexer_.IsPunctuation('-')) {
      bool negative = false;
      while (lexer_.IsPunctuation('+') || lexer_.IsPunctuation('-'))
        if (lexer_.Consume().punctuation == '-') negative = !negative;
      CUSPAN_ASSIGN_OR_RETURN(auto value,
                              lexer_.ExpectInteger("an offset", std::uint64_t{1} << 40));
      addend_ += negative ? -static_cast<std::int64_t>(value) : static_cast<std::int64_t>(value);
      if (addend_ > (std::int64_t{1} << 41) || addend_ < -(std::int64_t{1} << 41))
        return lexer_.Error("an offset is too large");
    }
    return Status::Ok();
  }

  void Put(std::uint64_t offset, std::uint64_t bits) {
    if (variable_->initial.size() < offset + element_) variable_->initial.resize(offset + element_);
    std::memcpy(variable_->initial.data() + offset, &bits, element_ < 8 ? element_ : 8);
  }

  Lexer& lexer_;
  Variable* variable_;
  const std::vector<std::uint64_t>& dimensions_;
  std::uint64_t element_;
  std::uint64_t next_ = 0;
  std::int64_t addend_ = 0;
};

// Reads "name", "name[4][2]" or "name[]", with an initialiser if `space` allows one.
Status ParseDeclarator(Lexer& lexer, const Prefix& prefix, Space space, bool external,
                       std::vector<Variable>* out) {
  Variable variable;
  variable.space = space;
  variable.type = prefix.type;
  variable.managed = prefix.managed;
  variable.external = external;
  variable.line = lexer.LineOf(lexer.Peek().offset);
  CUSPAN_ASSIGN_OR_RETURN(auto name, lexer.ExpectIdentifier("the name of a variable"));
  variable.name = name;
  const std::uint64_t element = std::uint64_t{BytesOf(prefix.type)} * prefix.vector;
  if (element == 0)
    return lexer.Error(
        Format("'{}' cannot be a variable of type .{}", name, TypeName(prefix.type)));
  variable.alignment =
      prefix.alignment != 0 ? prefix.alignment : static_cast<std::uint32_t>(element);
  variable.bytes = element;
  std::vector<std::uint64_t> dimensions;
  bool open = false;
  while (lexer.Accept('[')) {
    if (lexer.Accept(']')) {
      if (!dimensions.empty())
        return lexer.Error(Format("only the first dimension of '{}' may be left open", name));
      open = true;
      dimensions.push_back(0);
      continue;
    }
    CUSPAN_ASSIGN_OR_RETURN(auto count,
                            lexer.ExpectInteger("the length of an array", kMaxVariableBytes));
    if (dimensions.size() >= kMaxDimensions) return lexer.Error("an array has too many dimensions");
    if (count != 0 && variable.bytes > kMaxVariableBytes / count)
      return lexer.Error(Format("'{}' is larger than any memory", name));
    variable.bytes *= count;
    dimensions.push_back(count);
    CUSPAN_RETURN_IF_ERROR(lexer.Expect(']', "the length of an array"));
  }
  if (prefix.vector != 1) dimensions.push_back(prefix.vector);
  const std::uint64_t row = variable.bytes;
  if (open) variable.bytes = 0;
  if (lexer.IsPunctuation('=')) {
    if (space != Space::kGlobal && space != Space::kConst)
      return lexer.Error(Format("'{}' cannot have an initial value in its state space", name));
    lexer.Consume();
    CUSPAN_RETURN_IF_ERROR(InitialiserParser(lexer, &variable, dimensions).Parse());
    if (open && row != 0) variable.bytes = AlignUp(variable.initial.size(), row);
  }
  out->push_back(std::move(variable));
  return Status::Ok();
}

}  // namespace

Status ParseVariables(Lexer& lexer, Space space, bool external, std::vector<Variable>* out) {
  CUSPAN_ASSIGN_OR_RETURN(auto prefix, ParsePrefix(lexer));
  do {
    CUSPAN_RETURN_IF_ERROR(ParseDeclarator(lexer, prefix, space, external, out));
  } while (lexer.Accept(','));
  return Status::Ok();
}

Status ParseParameterList(Lexer& lexer, std::vector<Variable>* out) {
  if (!lexer.Accept('(')) return Status::Ok();
  if (lexer.Accept(')')) return Status::Ok();
  do {
    Space space = Space::kParam;
    if (lexer.AcceptDirective("reg")) {
      space = Space::kRegister;
    } else if (!lexer.AcceptDirective("param")) {
      return lexer.Error(
          Format("expected '.param' or '.reg' in a parameter list, found {}", lexer.Describe()));
    }
    CUSPAN_ASSIGN_OR_RETURN(auto prefix, ParsePrefix(lexer));
    CUSPAN_RETURN_IF_ERROR(ParseDeclarator(lexer, prefix, space, false, out));
    if (out->back().bytes > kMaxParameterBytes)
      return lexer.Error(
          Format("parameter '{}' is larger than {} bytes", out->back().name, kMaxParameterBytes));
  } while (lexer.Accept(','));
  return lexer.Expect(')', "a parameter list");
}

Status ParseRegisters(Lexer& lexer, std::vector<RegisterRange>* out) {
  Type type = Type::kNone;
  while (lexer.Peek().kind == Token::Kind::kDirective) {
    const Token token = lexer.Consume();
    type = TypeNamed(token.text);
    if (type == Type::kNone)
      return Status::Unsupported("PTX line {}: registers of type .{} are not implemented",
                                 lexer.LineOf(token.offset), token.text);
  }
  if (type == Type::kNone)
    return lexer.Error(Format("expected a type after '.reg', found {}", lexer.Describe()));
  do {
    CUSPAN_ASSIGN_OR_RETURN(auto name, lexer.ExpectIdentifier("the name of a register"));
    RegisterRange range{name, type, kNoIndex};
    if (lexer.Accept('<')) {
      CUSPAN_ASSIGN_OR_RETURN(auto count,
                              lexer.ExpectInteger("the number of registers", kNoIndex - 1));
      range.count = static_cast<std::uint32_t>(count);
      CUSPAN_RETURN_IF_ERROR(lexer.Expect('>', "the number of registers"));
    }
    out->push_back(range);
  } while (lexer.Accept(','));
  return Status::Ok();
}

}  // namespace cuspan::ptx
