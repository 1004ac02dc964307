#include "proxy/slicing/rewriter.h"

#include <algorithm>
#include <vector>

#include "proxy/ptx/lexer.h"
#include "proxy/ptx/types.h"
#include "proxy/slicing/kernel_needs.h"
#include "proxy/slicing/slice_ptx.h"

namespace cuspan::slicing {
namespace {

using ptx::Token;

constexpr std::string_view kComponents[] = {"x", "y", "z"};

// Components of %ctaid and %nctaid read by a body.
struct IndexReads {
  bool block[3] = {};
  bool grid[3] = {};
};

// Code before a kernel's first instruction: computes the values read by the kernel, in registers.
std::string PrologueOf(const Rewriting& rewriting, const IndexReads& reads) {
  const auto [x, y, z] = reads.block;
  const bool indices = x || y || z;
  const std::string r = "%" + rewriting.stem;
  std::string code;
  const auto add = [&code](const std::string& line) { code += line + "\n\t"; };
  const auto load = [&](std::string_view to, unsigned offset) {
    add(Format("ld.param.u32 {}{}, [{}+{}];", r, to, rewriting.ArgumentsName(), offset));
  };
  if (indices || reads.grid[0]) load("grid_x", 4);
  if (y || z || reads.grid[1]) load("grid_y", 8);
  if (reads.grid[2]) load("grid_z", 12);
  if (!indices) return code;
  add(Format("mov.u32 {}part, %ctaid.x;", r));
  load("block_x", 0);
  add(Format("add.u32 {0}block_x, {0}block_x, {0}part;", r));
  if (y) add(Format("mov.u32 {}block_y, 0;", r));
  if (z) add(Format("mov.u32 {}block_z, 0;", r));
  // A one-dimensional grid needs no division, a two-dimensional grid only one. The branches are
  // uniform in a block.
  const auto leave_if_below = [&](std::string_view value, std::string_view limit) {
    add(Format("setp.lt.u32 {0}known, {0}{1}, {0}{2};", r, value, limit));
    add(Format("@{}known bra.uni {}indexed;", r, rewriting.stem));
  };
  // rest -= quotient × divisor
  const auto reduce = [&](std::string_view rest, std::string_view quotient,
                          std::string_view divisor) {
    add(Format("mul.lo.u32 {0}part, {0}{1}, {0}{2};", r, quotient, divisor));
    add(Format("sub.u32 {0}{1}, {0}{1}, {0}part;", r, rest));
  };
  leave_if_below("block_x", "grid_x");
  add(Format("div.u32 {0}row, {0}block_x, {0}grid_x;", r));
  if (x) reduce("block_x", "row", "grid_x");
  if (y) add(Format("mov.u32 {0}block_y, {0}row;", r));
  if (y || z) {
    leave_if_below("row", "grid_y");
    const std::string_view plane = z ? "block_z" : "plane";
    add(Format("div.u32 {0}{1}, {0}row, {0}grid_y;", r, plane));
    if (y) reduce("block_y", plane, "grid_y");
  }
  add(rewriting.stem + "indexed:");
  return code;
}

// Declares the registers of PrologueOf. Unused ones have no cost.
std::string RegistersOf(const Rewriting& rewriting) {
  std::string text = ".reg .b32 ";
  for (const std::string_view name :
       {"grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "part", "row", "plane"})
    AppendFormat(text, "%{}{}{}", rewriting.stem, name, name == "plane" ? ";\n" : ", ");
  return text + Format(".reg .pred %{}known;\n", rewriting.stem);
}

// Copies the statements of one body, with replacements.
class BodyRewriter {
 public:
  BodyRewriter(const Rewriting& rewriting, const ptx::Function& function)
      : rewriting_(rewriting),
        function_(function),
        lexer_(rewriting.text, function.body_begin, function.body_end),
        copied_(function.body_begin) {}

  Result<std::string> Rewrite() {
    while (!lexer_.AtEnd()) CUSPAN_RETURN_IF_ERROR(Statement());
    CopyTo(function_.body_end);
    std::string registers, prologue;
    if (!addresses_.empty())
      registers = Format(".reg .b64 %{}address<{}>;\n", rewriting_.stem, addresses_.size());
    for (const auto& [address, number] : addresses_)
      AppendFormat(prologue, "mov.u64 %{}address{}, {};\n\t", rewriting_.stem, number, address);
    if (const std::string indices = PrologueOf(rewriting_, reads_); !indices.empty()) {
      registers += RegistersOf(rewriting_);
      prologue += indices;
    }
    copy_.insert(prologue_at_, prologue);
    return "{\n" + registers + copy_ + "}\n";
  }

 private:
  Status Statement() {
    if (lexer_.Peek().kind == Token::Kind::kDirective) {
      Directive();
      return Status::Ok();
    }
    if (lexer_.Accept(';') || lexer_.Accept('}')) return Status::Ok();
    // After the declarations at the start of a body: some pragmas must be first.
    if (!begun_) {
      begun_ = true;
      CopyTo(lexer_.Peek().offset);
      prologue_at_ = copy_.size();
    }
    if (lexer_.Accept('{')) return Status::Ok();
    tokens_.clear();
    tokens_.push_back(lexer_.Consume());
    if (lexer_.Accept(':')) return Status::Ok();  // Label.
    while (!lexer_.AtEnd() && !lexer_.IsPunctuation(';')) tokens_.push_back(lexer_.Consume());
    lexer_.Accept(';');
    return Instruction();
  }

  void Directive() {
    if (!lexer_.IsDirective("loc") && !lexer_.IsDirective("file")) return SkipStatement();
    // Dropped: the new module has no .file directives.
    CopyTo(lexer_.Consume().offset);
    lexer_.SkipLine();
    copied_ = lexer_.Peek().offset;
  }

  void SkipStatement() {
    while (!lexer_.AtEnd() && !lexer_.IsPunctuation(';')) lexer_.Consume();
    lexer_.Accept(';');
  }

  // tokens_ is an instruction, possibly with a guard, without its ';'.
  Status Instruction() {
    std::size_t i = 0;
    if (tokens_[0].punctuation == '@') i = TokenAt(1).punctuation == '!' ? 3 : 2;
    unsigned bits = 0;  // Operand size from the last type: for cvt its source type.
    for (++i; TokenAt(i).kind == Token::Kind::kDirective; ++i)
      if (const ptx::Type type = ptx::TypeNamed(tokens_[i].text); type != ptx::Type::kNone)
        bits = ptx::BitsOf(type);
    int brackets = 0, lists = 0;
    for (; i < tokens_.size(); ++i) {
      const Token& token = tokens_[i];
      if (token.punctuation == '[') ++brackets;
      if (token.punctuation == ']') --brackets;
      if (token.punctuation == '{' || token.punctuation == '(') ++lists;
      if (token.punctuation == '}' || token.punctuation == ')') --lists;
      if (token.kind != Token::Kind::kIdentifier) continue;
      if (token.text == "%ctaid" || token.text == "%nctaid") {
        if (lists > 0 || brackets > 0 || bits != 32) return Refused(token);
        CUSPAN_RETURN_IF_ERROR(Index(i));
      } else if (const auto found = rewriting_.addresses.find(token.text);
                 found != rewriting_.addresses.end()) {
        if (lists > 0 || (brackets == 0 && bits != 64)) return Refused(token);
        CUSPAN_RETURN_IF_ERROR(Variable(i, found->second));
      }
    }
    return Status::Ok();
  }

  // "%ctaid.x" at `i`: replaced by a register of the prologue.
  Status Index(std::size_t i) {
    const bool block = tokens_[i].text == "%ctaid";
    const Token& component = TokenAt(i + 1);
    for (unsigned axis = 0; axis < 3; ++axis) {
      if (component.kind != Token::Kind::kDirective || component.text != kComponents[axis])
        continue;
      (block ? reads_.block : reads_.grid)[axis] = true;
      Replace(tokens_[i].offset, EndOf(component),
              Format("%{}{}_{}", rewriting_.stem, block ? "block" : "grid", kComponents[axis]));
      return Status::Ok();
    }
    return Refused(tokens_[i]);
  }

  // "variable", "variable+8" at `i`: replaced by a register. ptxas treats a constant in brackets as
  // an address in .local memory.
  Status Variable(std::size_t i, std::uint64_t address) {
    std::size_t end = EndOf(tokens_[i]);
    std::size_t next = i + 1;
    while (IsSign(TokenAt(next))) {
      bool negative = false;
      for (; IsSign(TokenAt(next)); ++next) negative ^= tokens_[next].punctuation == '-';
      const Token& offset = TokenAt(next);
      if (offset.kind != Token::Kind::kInteger) return Refused(tokens_[i]);
      address += negative ? 0 - offset.bits : offset.bits;
      end = EndOf(offset);
      ++next;
    }
    // An element, or a part of the address: not supported.
    if (TokenAt(next).punctuation == '[' || TokenAt(next).kind == Token::Kind::kDirective)
      return Refused(tokens_[i]);
    const std::size_t number = addresses_.try_emplace(address, addresses_.size()).first->second;
    Replace(tokens_[i].offset, end, Format("%{}address{}", rewriting_.stem, number));
    return Status::Ok();
  }

  static bool IsSign(const Token& token) {
    return token.punctuation == '+' || token.punctuation == '-';
  }
  // Returns a token of kind kEnd after the last one.
  const Token& TokenAt(std::size_t i) const {
    static const Token kNone;
    return i < tokens_.size() ? tokens_[i] : kNone;
  }
  // End offset of an identifier, directive or integer.
  static std::size_t EndOf(const Token& token) {
    return token.offset + token.text.size() + (token.kind == Token::Kind::kDirective ? 1 : 0);
  }

  void CopyTo(std::size_t offset) {
    if (offset <= copied_) return;
    copy_ += rewriting_.text.substr(copied_, offset - copied_);
    copied_ = offset;
  }

  void Replace(std::size_t begin, std::size_t end, std::string_view with) {
    CopyTo(begin);
    copy_ += with;
    copied_ = end;
  }

  Status Refused(const Token& token) {
    return RefusedFor(reasons::kForm, lexer_.LineOf(token.offset), Printable(token.text, 100));
  }

  const Rewriting& rewriting_;
  const ptx::Function& function_;
  ptx::Lexer lexer_;
  std::string copy_;
  std::size_t copied_;  // Position in the text; everything before it is copied or dropped.
  bool begun_ = false;
  std::size_t prologue_at_ = 0;  // Offset in copy_.
  IndexReads reads_;
  std::map<std::uint64_t, std::size_t> addresses_;  // Register numbers of the addresses used.
  std::vector<Token> tokens_;                       // Tokens of the current instruction.
};

}  // namespace

std::string StemFor(std::string_view text) {
  constexpr std::string_view kWord = "slice";
  std::size_t most = 0;  // Maximum number of underscores after the word.
  for (std::size_t at = text.find(kWord); at != std::string_view::npos; at = text.find(kWord, at)) {
    at += kWord.size();
    std::size_t end = at;
    while (end < text.size() && text[end] == '_') ++end;
    most = std::max(most, end - at);
  }
  return std::string(kWord) + std::string(most + 1, '_');
}

Result<std::string> RewriteBody(const Rewriting& rewriting, const ptx::Function& function) {
  return BodyRewriter(rewriting, function).Rewrite();
}

}  // namespace cuspan::slicing
