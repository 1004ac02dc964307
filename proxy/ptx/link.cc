#include "proxy/ptx/link.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "proxy/ptx/index.h"
#include "proxy/ptx/lexer.h"
#include "proxy/ptx/parser.h"

namespace cuspan::ptx {
namespace {

enum class Linkage : std::uint8_t { kOwn, kVisible, kWeak, kExtern };

// Declaration at the top level of a text. Other statements have no name.
struct Statement {
  std::size_t begin = 0, end = 0;  // Offsets in the text.
  std::string_view name;
  Linkage linkage = Linkage::kOwn;
  bool defines = false;
  std::uint32_t line = 0;
};

struct Object {
  std::string_view text;
  std::string_view version, target;  // Arguments of these directives.
  std::vector<Statement> statements;
};

class Splitter {
 public:
  explicit Splitter(std::string_view text) : lexer_(text) { object_.text = text; }

  Result<Object> Split() {
    while (!lexer_.AtEnd()) CUSPAN_RETURN_IF_ERROR(TopLevel());
    if (object_.version.empty() || object_.target.empty())
      return lexer_.Error("there is no .version or no .target directive");
    return std::move(object_);
  }

 private:
  Status TopLevel() {
    if (lexer_.Accept(';')) return Status::Ok();
    if (lexer_.Peek().kind != Token::Kind::kDirective)
      return lexer_.Error(Format("expected a directive, found {}", lexer_.Describe()));
    Statement statement;
    const Token first = lexer_.Consume();
    statement.begin = first.offset;
    statement.line = lexer_.LineOf(first.offset);
    std::string_view word = first.text;
    if (word == "version" || word == "target" || word == "address_size") {
      Header(word);
      return Status::Ok();
    }
    if (word == "file" || word == "loc") {
      lexer_.SkipLine();
      return Keep(statement);
    }
    while (word == "extern" || word == "visible" || word == "weak" || word == "common") {
      if (word == "extern") statement.linkage = Linkage::kExtern;
      if (word == "visible") statement.linkage = Linkage::kVisible;
      if (word == "weak" || word == "common") statement.linkage = Linkage::kWeak;
      word = lexer_.Consume().text;
    }
    const bool function = word == "func" || word == "entry";
    const bool named = function || word == "global" || word == "const" || word == "shared";
    bool has_body = false;
    CUSPAN_RETURN_IF_ERROR(Rest(named, function || word == "section", &statement, &has_body));
    statement.defines =
        named && statement.linkage != Linkage::kExtern && (function ? has_body : true);
    return Keep(statement);
  }

  // Reads the rest of .version, .target or .address_size, up to the next directive.
  void Header(std::string_view word) {
    const std::size_t begin = lexer_.Peek().offset;
    std::size_t end = begin;
    while (!lexer_.AtEnd() && lexer_.Peek().kind != Token::Kind::kDirective) {
      const Token token = lexer_.Consume();
      end = token.offset + std::max<std::size_t>(token.text.size(), 1);
    }
    const std::string_view value = object_.text.substr(begin, end - begin);
    if (word == "version") object_.version = value;
    if (word == "target") object_.target = value;
  }

  // Reads to the end of the declaration: a ';' or a body. The name is the first identifier outside
  // parentheses, since these enclose results and parameters.
  Status Rest(bool named, bool body_ends, Statement* statement, bool* has_body) {
    int parentheses = 0;
    while (!lexer_.AtEnd()) {
      if (lexer_.IsPunctuation('{')) {
        if (!lexer_.SkipBraces())
          return Status::Invalid("PTX line {}: a '{{' has no closing brace", statement->line);
        statement->end = lexer_.BehindBraces();
        if (!body_ends) continue;
        *has_body = true;
        return Status::Ok();
      }
      const Token token = lexer_.Consume();
      if (token.kind == Token::Kind::kPunctuation) {
        if (token.punctuation == '(') ++parentheses;
        if (token.punctuation == ')') --parentheses;
        if (token.punctuation == ';') {
          statement->end = token.offset + 1;
          return Status::Ok();
        }
      }
      if (named && parentheses == 0 && statement->name.empty() &&
          token.kind == Token::Kind::kIdentifier)
        statement->name = token.text;
    }
    return Status::Invalid("PTX line {}: the declaration has no end", statement->line);
  }

  Status Keep(Statement statement) {
    // A statement ended by its line.
    if (statement.end == 0)
      statement.end = lexer_.AtEnd() ? object_.text.size() : lexer_.Peek().offset;
    object_.statements.push_back(statement);
    return Status::Ok();
  }

  Lexer lexer_;
  Object object_;
};

// Location of the definition of a name visible to other objects.
struct Definition {
  std::size_t object;
  std::size_t statement;
  bool weak;
};

class Linker {
 public:
  explicit Linker(std::vector<Object> objects) : objects_(std::move(objects)) {}

  Result<std::string> Link() {
    for (std::size_t i = 0; i < objects_.size(); ++i) CUSPAN_RETURN_IF_ERROR(Define(i));
    // Compared as texts, by length first: 10.0 is greater than 9.2.
    const auto newest = [&](std::string_view Object::*part) {
      std::string_view most = objects_.front().*part;
      for (const Object& object : objects_) {
        const std::string_view value = object.*part;
        if (std::pair(value.size(), value) > std::pair(most.size(), most)) most = value;
      }
      return most;
    };
    text_ = Format(".version {}\n.target {}\n.address_size 64\n", newest(&Object::version),
                   newest(&Object::target));
    for (std::size_t i = 0; i < objects_.size(); ++i) Append(i);
    return std::move(text_);
  }

 private:
  Status Define(std::size_t index) {
    const Object& object = objects_[index];
    for (std::size_t i = 0; i < object.statements.size(); ++i) {
      const Statement& statement = object.statements[i];
      if (statement.name.empty()) continue;
      auto& users = users_[statement.name];
      if (users.empty() || users.back() != index) users.push_back(index);
      if (!statement.defines || statement.linkage == Linkage::kOwn) continue;
      const bool weak = statement.linkage == Linkage::kWeak;
      const auto [known, added] =
          definitions_.try_emplace(statement.name, Definition{index, i, weak});
      if (added || weak) continue;
      if (!known->second.weak)
        return Status::Invalid("PTX line {}: '{}' is defined in two of the objects that are linked",
                               statement.line, statement.name);
      known->second = {index, i, false};
    }
    return Status::Ok();
  }

  // Returns this object's private names also used in other objects.
  std::unordered_set<std::string_view> Clashes(const Object& object) const {
    std::unordered_set<std::string_view> names;
    for (const Statement& statement : object.statements)
      if (!statement.name.empty() && statement.defines && statement.linkage == Linkage::kOwn &&
          users_.at(statement.name).size() > 1)
        names.insert(statement.name);
    return names;
  }

  void Append(std::size_t index) {
    const Object& object = objects_[index];
    const auto clashes = Clashes(object);
    for (std::size_t i = 0; i < object.statements.size(); ++i) {
      const Statement& statement = object.statements[i];
      if (statement.defines && statement.linkage != Linkage::kOwn) {
        const Definition& stays = definitions_.at(statement.name);
        if (stays.object != index || stays.statement != i) continue;
      }
      const std::string_view text =
          object.text.substr(statement.begin, statement.end - statement.begin);
      if (clashes.empty())
        text_ += text;
      else
        AppendRenamed(text, clashes, index);
      text_ += '\n';
    }
  }

  void AppendRenamed(std::string_view text, const std::unordered_set<std::string_view>& names,
                     std::size_t index) {
    std::size_t done = 0;
    for (Lexer lexer(text); !lexer.AtEnd();) {
      const Token token = lexer.Consume();
      if (token.kind != Token::Kind::kIdentifier || names.count(token.text) == 0) continue;
      const std::size_t end = token.offset + token.text.size();
      text_ += text.substr(done, end - done);
      text_ += Format("$object{}", index);
      done = end;
    }
    text_ += text.substr(done);
  }

  const std::vector<Object> objects_;
  std::unordered_map<std::string_view, std::vector<std::size_t>> users_;  // Name to objects.
  std::unordered_map<std::string_view, Definition> definitions_;
  std::string text_;
};

// Adds the module's names used in an operand.
void AddSymbols(const Operand& operand, std::set<std::string_view>* names) {
  if (operand.kind == Operand::Kind::kSymbol) names->insert(operand.name);
  for (const Operand& element : operand.elements) AddSymbols(element, names);
}

bool IsDefined(const Module& module, std::string_view name) {
  if (const Function* const function = module.FindFunction(name)) return function->defined;
  const Variable* const variable = module.FindVariable(name);
  // Dynamic shared memory is .extern without any definition.
  return variable == nullptr || !variable->external || variable->space == Space::kShared;
}

}  // namespace

Result<std::string> LinkModules(std::span<const std::string> texts) {
  std::vector<Object> objects;
  for (const std::string& text : texts) {
    CUSPAN_ASSIGN_OR_RETURN(Object object, Splitter(text).Split());
    objects.push_back(std::move(object));
  }
  if (objects.empty()) return Status::Invalid("there is no PTX to link");
  return Linker(std::move(objects)).Link();
}

Result<std::vector<std::string>> UndefinedNames(std::string_view text) {
  CUSPAN_ASSIGN_OR_RETURN(const Module module, IndexModule(text));
  std::set<std::string_view> used;
  for (const Variable& variable : module.variables)
    for (const Relocation& relocation : variable.relocations) used.insert(relocation.symbol);
  for (const Function& function : module.functions) {
    if (!function.defined) continue;
    const Result<Body> body = ParseBody(text, function);
    if (!body.ok() && body.status().code() == StatusCode::kInvalid) return body.status();
    if (!body.ok()) continue;
    for (const Instruction& instruction : body->instructions)
      for (const Operand& operand : instruction.operands) AddSymbols(operand, &used);
  }
  std::vector<std::string> undefined;
  for (const std::string_view name : used)
    if (!IsDefined(module, name)) undefined.emplace_back(name);
  return undefined;
}

}  // namespace cuspan::ptx
