#include "proxy/ptx/parser.h"

#include <charconv>

#include "proxy/ptx/declarations.h"
#include "proxy/ptx/lexer.h"

namespace cuspan::ptx {
namespace {

constexpr int kMaxNesting = 4;
constexpr std::uint64_t kMaxElements = std::uint64_t{1} << 32;
constexpr std::size_t kMaxScopes = 1 << 20;
constexpr int kMaxScopeDepth = 64;

// Meaning of a name in a scope: an index into Body::registers or Body::variables.
struct Named {
  bool is_register;
  std::uint32_t index;
};

struct Scope {
  std::uint32_t parent = kNoIndex;
  std::unordered_map<std::string_view, Named> names;
  std::vector<RegisterRange> ranges;
  std::unordered_map<std::string_view, std::uint32_t> labels;
};

// Use of a label, resolved at the end of the body.
struct LabelUse {
  std::uint32_t scope;
  std::string_view name;
  std::uint32_t line;
  std::uint32_t instruction;  // kNoIndex: used in `table`.
  std::uint32_t operand;
  std::uint32_t table;
};

class BodyParser {
 public:
  BodyParser(std::string_view text, const Function& function)
      : lexer_(text, function.body_begin, function.body_end), function_(function) {}

  Result<Body> Parse() {
    if (!function_.unsupported.empty()) return Status::Unsupported("{}", function_.unsupported);
    scopes_.emplace_back();
    for (const auto& formal : function_.signature.results)
      CUSPAN_RETURN_IF_ERROR(DeclareFormal(formal));
    for (const auto& formal : function_.signature.parameters)
      CUSPAN_RETURN_IF_ERROR(DeclareFormal(formal));
    while (!lexer_.AtEnd()) CUSPAN_RETURN_IF_ERROR(Statement());
    if (scope_ != 0) return lexer_.Error(Format("a '{{' in '{}' is not closed", function_.name));
    CUSPAN_RETURN_IF_ERROR(ResolveLabels());
    return std::move(body_);
  }

 private:
  Status DeclareFormal(const Variable& formal) {
    body_.variables.push_back(formal);
    body_.formal_registers.push_back(kNoIndex);
    Named named{false, static_cast<std::uint32_t>(body_.variables.size() - 1)};
    if (formal.space == Space::kRegister) {
      named = {true, AddRegister(formal.name, formal.type)};
      body_.formal_registers.back() = named.index;
    }
    return Declare(formal.name, named);
  }

  std::uint32_t AddRegister(std::string_view name, Type type) {
    body_.registers.push_back({name, type});
    return static_cast<std::uint32_t>(body_.registers.size() - 1);
  }

  Status Declare(std::string_view name, Named named) {
    if (name == "_") return Status::Ok();
    if (!scopes_[scope_].names.try_emplace(name, named).second)
      return lexer_.Error(Format("'{}' is declared twice in one scope", name));
    return Status::Ok();
  }

  Status Statement() {
    if (lexer_.Accept(';')) return Status::Ok();
    if (lexer_.Accept('{')) return OpenScope();
    if (lexer_.IsPunctuation('}')) {
      if (scope_ == 0) return lexer_.Error("a '}' has no '{'");
      lexer_.Consume();
      scope_ = scopes_[scope_].parent;
      --scope_depth_;
      return Status::Ok();
    }
    if (lexer_.Peek().kind == Token::Kind::kDirective) return Directive();
    if (lexer_.IsPunctuation('@')) return InstructionStatement({});
    if (lexer_.Peek().kind != Token::Kind::kIdentifier)
      return lexer_.Error(Format("expected an instruction, found {}", lexer_.Describe()));
    const Token word = lexer_.Consume();
    if (lexer_.Accept(':')) return LabelStatement(word);
    return InstructionStatement(word);
  }

  Status OpenScope() {
    if (scopes_.size() >= kMaxScopes)
      return lexer_.Error("there are too many scopes in a function");
    if (++scope_depth_ > kMaxScopeDepth) return lexer_.Error("scopes are nested too deeply");
    scopes_.emplace_back();
    scopes_.back().parent = scope_;
    scope_ = static_cast<std::uint32_t>(scopes_.size() - 1);
    return Status::Ok();
  }

  // Reads: .loc file line column {, function_name label, inlined_at file line column}
  void NoteSourceLine(std::uint32_t ptx_line, std::string_view numbers) {
    Body::SourceLine source{ptx_line, 0, 0};
    const char* const end = numbers.data() + numbers.size();
    const auto file = std::from_chars(numbers.data(), end, source.file);
    if (file.ec != std::errc() || file.ptr == end || *file.ptr != ' ') return;
    if (std::from_chars(file.ptr + 1, end, source.line).ec != std::errc()) return;
    body_.source_lines.push_back(source);
  }

  Status Directive() {
    const Token token = lexer_.Consume();
    const auto word = token.text;
    if (word == "loc" || word == "file") {
      if (word == "loc") NoteSourceLine(lexer_.LineOf(token.offset), lexer_.RestOfLine());
      lexer_.SkipLine();
      return Status::Ok();
    }
    if (word == "reg") {
      std::vector<RegisterRange> ranges;
      CUSPAN_RETURN_IF_ERROR(ParseRegisters(lexer_, &ranges));
      for (const auto& range : ranges) {
        if (range.count == kNoIndex) {
          CUSPAN_RETURN_IF_ERROR(Declare(range.name, {true, AddRegister(range.name, range.type)}));
        } else {
          scopes_[scope_].ranges.push_back(range);
        }
      }
      return lexer_.Expect(';', "a register declaration");
    }
    if (word == "local") return Variables(Space::kLocal);
    if (word == "shared") return Variables(Space::kShared);
    if (word == "param") return Variables(Space::kParam);
    if (word == "pragma") {
      while (!lexer_.IsPunctuation(';') && !lexer_.AtEnd()) lexer_.Consume();
      return lexer_.Expect(';', "'.pragma'");
    }
    return Status::Unsupported("PTX line {}: '.{}' in function '{}' is not implemented",
                               lexer_.LineOf(token.offset), word, function_.name);
  }

  Status Variables(Space space) {
    const std::size_t before = body_.variables.size();
    CUSPAN_RETURN_IF_ERROR(ParseVariables(lexer_, space, false, &body_.variables));
    CUSPAN_RETURN_IF_ERROR(lexer_.Expect(';', "a variable"));
    for (std::size_t i = before; i < body_.variables.size(); ++i) {
      const Variable& variable = body_.variables[i];
      if (space != Space::kShared && variable.bytes > kMaxLocalBytes)
        return Status::Invalid("PTX line {}: '{}' has {} bytes; a thread can have {}",
                               variable.line, variable.name, variable.bytes, kMaxLocalBytes);
      CUSPAN_RETURN_IF_ERROR(Declare(variable.name, {false, static_cast<std::uint32_t>(i)}));
    }
    return Status::Ok();
  }

  Status LabelStatement(const Token& word) {
    if (lexer_.AcceptDirective("branchtargets")) {
      const auto table = static_cast<std::uint32_t>(body_.branch_tables.size());
      body_.branch_tables.push_back({word.text, {}});
      do {
        const auto line = lexer_.LineOf(lexer_.Peek().offset);
        CUSPAN_ASSIGN_OR_RETURN(auto name, lexer_.ExpectIdentifier("a label in '.branchtargets'"));
        uses_.push_back({scope_, name, line, kNoIndex, 0, table});
      } while (lexer_.Accept(','));
      return lexer_.Expect(';', "'.branchtargets'");
    }
    if (lexer_.AcceptDirective("callprototype")) return PrototypeStatement(word);
    if (lexer_.AcceptDirective("calltargets")) {
      CUSPAN_ASSIGN_OR_RETURN(auto target, lexer_.ExpectIdentifier("a function in '.calltargets'"));
      while (!lexer_.IsPunctuation(';') && !lexer_.AtEnd()) lexer_.Consume();
      body_.prototypes.push_back({word.text, {}, target});
      return lexer_.Expect(';', "'.calltargets'");
    }
    const auto index = static_cast<std::uint32_t>(body_.labels.size());
    if (!scopes_[scope_].labels.try_emplace(word.text, index).second)
      return Status::Invalid("PTX line {}: label '{}' is defined twice", lexer_.LineOf(word.offset),
                             word.text);
    body_.labels.push_back({word.text, static_cast<std::uint32_t>(body_.instructions.size())});
    return Status::Ok();
  }

  Status PrototypeStatement(const Token& word) {
    Prototype prototype;
    prototype.name = word.text;
    CUSPAN_RETURN_IF_ERROR(ParseParameterList(lexer_, &prototype.signature.results));
    if (auto name = lexer_.ExpectIdentifier("'_' in '.callprototype'"); !name.ok())
      return name.status();
    CUSPAN_RETURN_IF_ERROR(ParseParameterList(lexer_, &prototype.signature.parameters));
    while (lexer_.Peek().kind == Token::Kind::kDirective ||
           lexer_.Peek().kind == Token::Kind::kInteger)
      lexer_.Consume();  // .noreturn, .abi_preserve N
    CUSPAN_RETURN_IF_ERROR(lexer_.Expect(';', "'.callprototype'"));
    body_.prototypes.push_back(std::move(prototype));
    return Status::Ok();
  }

  // `opcode`: the first word, already read. Empty if a guard comes first.
  Status InstructionStatement(const Token& opcode) {
    Instruction instruction;
    instruction.line = lexer_.LineOf(opcode.text.empty() ? lexer_.Peek().offset : opcode.offset);
    instruction.opcode = opcode.text;
    if (lexer_.Accept('@')) {
      instruction.guard_negated = lexer_.Accept('!');
      CUSPAN_ASSIGN_OR_RETURN(auto name, lexer_.ExpectIdentifier("a predicate after '@'"));
      const Named* const guard = Find(name);
      if (guard == nullptr || !guard->is_register ||
          body_.registers[guard->index].type != Type::kPred)
        return lexer_.Error(Format("'{}' after '@' is not a predicate register", name));
      instruction.guard = guard->index;
      CUSPAN_ASSIGN_OR_RETURN(instruction.opcode,
                              lexer_.ExpectIdentifier("an instruction after the guard"));
    }
    std::size_t type_count = 0;
    while (lexer_.Peek().kind == Token::Kind::kDirective) {
      const auto modifier = lexer_.Consume().text;
      instruction.modifiers.push_back(modifier);
      const Type type = TypeNamed(modifier);
      if (type != Type::kNone && type_count < std::size(instruction.types))
        instruction.types[type_count++] = type;
    }
    if (!lexer_.IsPunctuation(';')) {
      do {
        Operand operand;
        CUSPAN_RETURN_IF_ERROR(ParseOperand(0, &operand));
        instruction.operands.push_back(std::move(operand));
      } while (lexer_.Accept(','));
    }
    if (IsOperator()) return NotImplemented("a constant expression");
    if (!lexer_.IsPunctuation(';'))
      return lexer_.Error(
          Format("expected ';' after '{}', found {}", instruction.Name(), lexer_.Describe()));
    lexer_.Consume();
    NoteLabels(instruction);
    body_.instructions.push_back(std::move(instruction));
    return Status::Ok();
  }

  void NoteLabels(const Instruction& instruction) {
    const std::size_t position = instruction.opcode == "bra"   ? 0
                                 : instruction.opcode == "brx" ? 1
                                                               : kNoIndex;
    if (position >= instruction.operands.size()) return;
    const Operand& operand = instruction.operands[position];
    if (operand.kind != Operand::Kind::kSymbol) return;
    uses_.push_back({scope_, operand.name, instruction.line,
                     static_cast<std::uint32_t>(body_.instructions.size()),
                     static_cast<std::uint32_t>(position), kNoIndex});
  }

  Status ParseList(int depth, char close, Operand* operand) {
    lexer_.Consume();
    operand->kind = Operand::Kind::kVector;
    if (lexer_.Accept(close)) return Status::Ok();
    do {
      Operand element;
      CUSPAN_RETURN_IF_ERROR(ParseOperand(depth + 1, &element));
      operand->elements.push_back(std::move(element));
    } while (lexer_.Accept(','));
    return lexer_.Expect(close, "a list of operands");
  }

  Status ParseOperand(int depth, Operand* operand) {
    if (depth > kMaxNesting) return lexer_.Error("an operand is nested too deeply");
    if (lexer_.IsPunctuation('{')) return ParseList(depth, '}', operand);
    if (lexer_.IsPunctuation('(')) return ParseList(depth, ')', operand);
    if (lexer_.IsPunctuation('[')) {
      CUSPAN_RETURN_IF_ERROR(ParseList(depth, ']', operand));
      if (operand->elements.empty()) return lexer_.Error("an address is empty");
      operand->kind = Operand::Kind::kAddress;
      operand->offset = operand->elements[0].offset;
      operand->elements[0].offset = 0;
      return Status::Ok();
    }
    if (lexer_.Accept('!')) {
      CUSPAN_RETURN_IF_ERROR(ParseOperand(depth + 1, operand));
      operand->negated = !operand->negated;
      return Status::Ok();
    }
    if (lexer_.Accept('~')) {
      CUSPAN_RETURN_IF_ERROR(ParseOperand(depth + 1, operand));
      if (operand->kind != Operand::Kind::kInteger)
        return lexer_.Error("'~' needs an integer constant");
      operand->bits = ~operand->bits;
      return Status::Ok();
    }
    if (lexer_.Peek().kind == Token::Kind::kIdentifier) return NamedOperand(depth, operand);
    return Number(operand);
  }

  Status Number(Operand* operand) {
    bool negative = false;
    while (lexer_.IsPunctuation('-') || lexer_.IsPunctuation('+'))
      if (lexer_.Consume().punctuation == '-') negative = !negative;
    const Token& token = lexer_.Peek();
    operand->bits = token.bits;
    if (token.kind == Token::Kind::kInteger) {
      operand->kind = Operand::Kind::kInteger;
      if (negative) operand->bits = 0 - operand->bits;
    } else if (token.kind == Token::Kind::kFloat32) {
      operand->kind = Operand::Kind::kFloat32;
      if (negative) operand->bits ^= std::uint64_t{1} << 31;
    } else if (token.kind == Token::Kind::kFloat64) {
      operand->kind = Operand::Kind::kFloat64;
      if (negative) operand->bits ^= std::uint64_t{1} << 63;
    } else {
      const bool legal = token.kind == Token::Kind::kIdentifier || lexer_.IsPunctuation('(');
      return legal ? NotImplemented("an operand that is computed")
                   : lexer_.Error(Format("expected an operand, found {}", lexer_.Describe()));
    }
    lexer_.Consume();
    return Status::Ok();
  }

  // Error for valid PTX: negated names, and constant expressions (PTX ISA, "Constant Expressions").
  Status NotImplemented(std::string_view what) {
    return Status::Unsupported("PTX line {}: {} is not implemented",
                               lexer_.LineOf(lexer_.Peek().offset), what);
  }
  bool IsOperator() {
    for (const char operation : {'+', '-', '*', '/', '%', '<', '>', '&', '|', '^', '?', '=', '('})
      if (lexer_.IsPunctuation(operation)) return true;
    return false;
  }

  // Reads a register, variable, label or symbol, with "+ offset", ".selector" and "| second".
  Status NamedOperand(int depth, Operand* operand) {
    const Token token = lexer_.Consume();
    std::string_view selector;
    if (lexer_.Peek().kind == Token::Kind::kDirective) selector = lexer_.Consume().text;
    operand->name = token.text;
    operand->selector = selector;
    if (const Named* const named = Find(token.text); named != nullptr) {
      operand->kind = named->is_register ? Operand::Kind::kRegister : Operand::Kind::kVariable;
      operand->index = named->index;
    } else if (token.text == "_") {
      operand->kind = Operand::Kind::kNone;
    } else if (token.text == "WARP_SZ") {
      operand->kind = Operand::Kind::kInteger;
      operand->bits = 32;
    } else if (token.text[0] == '%') {
      operand->kind = Operand::Kind::kSpecial;
      operand->special = SpecialRegisterNamed(token.text, selector);
      if (operand->special == SpecialRegister::kNone) {
        const std::string where =
            Format("PTX line {}: '{}{}{}' in function '{}'", lexer_.LineOf(token.offset),
                   token.text, selector.empty() ? "" : ".", selector, function_.name);
        if (IsUnknownHere(token.text))
          return Status::Unsupported("{} is a special register that is not implemented", where);
        return Status::Invalid("{} is not declared", where);
      }
      operand->selector = {};
    } else {
      operand->kind = Operand::Kind::kSymbol;
    }
    if (depth == 0 && lexer_.IsPunctuation('['))
      CUSPAN_RETURN_IF_ERROR(ParseElement(operand));
    else
      CUSPAN_RETURN_IF_ERROR(ParseOffset(operand));
    if (lexer_.Accept('|')) {
      Operand second;
      CUSPAN_RETURN_IF_ERROR(ParseOperand(depth + 1, &second));
      Operand pair;
      pair.kind = Operand::Kind::kPair;
      pair.elements.push_back(std::move(*operand));
      pair.elements.push_back(std::move(second));
      *operand = std::move(pair);
    }
    return Status::Ok();
  }

  // Reads "[5]" after a variable's name: the address of this element (PTX ISA, "mov").
  Status ParseElement(Operand* operand) {
    const bool is_variable = operand->kind == Operand::Kind::kVariable;
    if (!is_variable && operand->kind != Operand::Kind::kSymbol)
      return lexer_.Error("an index follows an operand that is not a variable");
    lexer_.Consume();
    const bool negative = lexer_.Accept('-');
    CUSPAN_ASSIGN_OR_RETURN(const auto index, lexer_.ExpectInteger("an index", kMaxElements));
    CUSPAN_RETURN_IF_ERROR(lexer_.Expect(']', "an index"));
    if (!is_variable) {
      if (index == 0) return Status::Ok();
      return Status::Unsupported(
          "PTX line {}: the address of element {} of '{}' is implemented only for variables of a "
          "function",
          lexer_.LineOf(lexer_.Peek().offset), index, operand->name);
    }
    const auto offset =
        static_cast<std::int64_t>(index * BytesOf(body_.variables[operand->index].type));
    operand->offset = negative ? -offset : offset;
    return Status::Ok();
  }

  // Reads "+4", "+-4" or "-4" after a name.
  Status ParseOffset(Operand* operand) {
    while (lexer_.IsPunctuation('+') || lexer_.IsPunctuation('-')) {
      bool negative = false;
      while (lexer_.IsPunctuation('+') || lexer_.IsPunctuation('-'))
        if (lexer_.Consume().punctuation == '-') negative = !negative;
      if (lexer_.IsPunctuation('(')) return NotImplemented("a constant expression");
      CUSPAN_ASSIGN_OR_RETURN(auto value, lexer_.ExpectInteger("an offset", ~std::uint64_t{0}));
      if (IsOperator() && !lexer_.IsPunctuation('+') && !lexer_.IsPunctuation('-'))
        return NotImplemented("a constant expression");
      const std::uint64_t sum =
          static_cast<std::uint64_t>(operand->offset) + (negative ? 0 - value : value);
      operand->offset = static_cast<std::int64_t>(sum);
    }
    return Status::Ok();
  }

  // Finds the name in the innermost scope; null if not found. Registers of a range are created on
  // first use.
  const Named* Find(std::string_view name) {
    for (std::uint32_t scope = scope_; scope != kNoIndex; scope = scopes_[scope].parent) {
      const auto found = scopes_[scope].names.find(name);
      if (found != scopes_[scope].names.end()) return &found->second;
      if (const RegisterRange* const range = FindRange(scopes_[scope], name); range != nullptr) {
        return &scopes_[scope]
                    .names.emplace(name, Named{true, AddRegister(name, range->type)})
                    .first->second;
      }
    }
    return nullptr;
  }

  static const RegisterRange* FindRange(const Scope& scope, std::string_view name) {
    for (const auto& range : scope.ranges) {
      if (name.size() <= range.name.size() || name.substr(0, range.name.size()) != range.name)
        continue;
      const auto digits = name.substr(range.name.size());
      if (digits.size() > 1 && digits[0] == '0') continue;
      std::uint32_t number = 0;
      const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), number);
      if (result.ec == std::errc() && result.ptr == digits.data() + digits.size() &&
          number < range.count)
        return &range;
    }
    return nullptr;
  }

  Status ResolveLabels() {
    std::unordered_map<std::string_view, std::uint32_t> tables;
    for (std::size_t i = 0; i < body_.branch_tables.size(); ++i)
      tables.emplace(body_.branch_tables[i].name, static_cast<std::uint32_t>(i));
    for (const auto& use : uses_) {
      if (use.instruction != kNoIndex && body_.instructions[use.instruction].opcode == "brx") {
        const auto found = tables.find(use.name);
        if (found == tables.end())
          return Status::Invalid("PTX line {}: there is no .branchtargets '{}'", use.line,
                                 use.name);
        Operand& operand = body_.instructions[use.instruction].operands[use.operand];
        operand.kind = Operand::Kind::kTable;
        operand.index = found->second;
        continue;
      }
      const std::uint32_t label = FindLabel(use.scope, use.name);
      if (label == kNoIndex)
        return Status::Invalid("PTX line {}: label '{}' does not exist", use.line, use.name);
      if (use.instruction == kNoIndex) {
        body_.branch_tables[use.table].labels.push_back(label);
      } else {
        Operand& operand = body_.instructions[use.instruction].operands[use.operand];
        operand.kind = Operand::Kind::kLabel;
        operand.index = label;
      }
    }
    return Status::Ok();
  }

  std::uint32_t FindLabel(std::uint32_t scope, std::string_view name) const {
    for (; scope != kNoIndex; scope = scopes_[scope].parent) {
      const auto found = scopes_[scope].labels.find(name);
      if (found != scopes_[scope].labels.end()) return found->second;
    }
    return kNoIndex;
  }

  Lexer lexer_;
  const Function& function_;
  Body body_;
  std::vector<Scope> scopes_;
  std::uint32_t scope_ = 0;
  int scope_depth_ = 0;
  std::vector<LabelUse> uses_;
};

}  // namespace

std::string Instruction::Name() const {
  std::string name(opcode);
  for (auto modifier : modifiers) {
    name += '.';
    name += modifier;
  }
  return name;
}

Result<Body> ParseBody(std::string_view text, const Function& function) {
  return BodyParser(text, function).Parse();
}

}  // namespace cuspan::ptx
