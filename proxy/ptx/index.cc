#include "proxy/ptx/index.h"

#include <charconv>

#include "proxy/ptx/declarations.h"
#include "proxy/ptx/lexer.h"

namespace cuspan::ptx {
namespace {

class Indexer {
 public:
  explicit Indexer(std::string_view text) : lexer_(text) {}

  Result<Module> Index() {
    while (!lexer_.AtEnd()) CUSPAN_RETURN_IF_ERROR(TopLevel());
    if (module_.version == 0)
      return lexer_.Error("there is no .version directive: this is not PTX");
    if (module_.target == 0) return lexer_.Error("there is no .target directive");
    return std::move(module_);
  }

 private:
  Status TopLevel() {
    if (lexer_.Accept(';')) return Status::Ok();
    if (lexer_.Peek().kind != Token::Kind::kDirective)
      return lexer_.Error(Format("expected a directive, found {}", lexer_.Describe()));
    const Token token = lexer_.Consume();
    const auto word = token.text;
    if (word == "version") return Version();
    if (module_.version == 0)
      return Status::Invalid("PTX line {}: the text does not begin with .version: this is not PTX",
                             lexer_.LineOf(token.offset));
    if (word == "target") return Target();
    if (word == "address_size") return AddressSize();
    if (word == "file" || word == "loc") {
      // Debug information up to the end of the line, without a ';'.
      if (word == "file") NoteSourceFile(lexer_.RestOfLine());
      lexer_.SkipLine();
      return Status::Ok();
    }
    if (word == "section") return Section(token);
    if (word == "pragma" || word == "alias") {
      if (word == "alias")
        return Status::Unsupported("PTX line {}: .alias is not implemented",
                                   lexer_.LineOf(token.offset));
      while (!lexer_.IsPunctuation(';') && !lexer_.AtEnd()) lexer_.Consume();
      return lexer_.Expect(';', "'.pragma'");
    }
    bool external = false;
    auto kind = word;
    while (kind == "extern" || kind == "visible" || kind == "weak" || kind == "common") {
      external = external || kind == "extern";
      if (lexer_.Peek().kind != Token::Kind::kDirective)
        return lexer_.Error(
            Format("expected a declaration after '.{}', found {}", kind, lexer_.Describe()));
      kind = lexer_.Consume().text;
    }
    if (kind == "entry") return FunctionDeclaration(true);
    if (kind == "func") return FunctionDeclaration(false);
    if (kind == "global") return Variables(Space::kGlobal, external);
    if (kind == "const") return Variables(Space::kConst, external);
    if (kind == "shared") return Variables(Space::kShared, external);
    return Status::Unsupported("PTX line {}: the directive '.{}' is not implemented",
                               lexer_.LineOf(token.offset), kind);
  }

  // Reads: .file number "name" {, …}
  void NoteSourceFile(std::string_view rest) {
    std::uint32_t number = 0;
    const auto end = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    const std::size_t open = rest.find('"');
    const std::size_t close = open == std::string_view::npos ? open : rest.find('"', open + 1);
    if (end.ec == std::errc() && close != std::string_view::npos)
      module_.source_files.emplace(number, rest.substr(open + 1, close - open - 1));
  }

  Status Version() {
    const auto number = lexer_.Consume().text;
    const char* const end = number.data() + number.size();
    std::uint32_t major = 0;
    std::uint32_t minor = 0;
    auto result = std::from_chars(number.data(), end, major);
    if (result.ec != std::errc() || result.ptr == end || *result.ptr != '.' || major == 0 ||
        major > 99)
      return lexer_.Error("the .version directive has no number such as 9.0");
    result = std::from_chars(result.ptr + 1, end, minor);
    if (result.ec != std::errc() || result.ptr != end || minor > 9)
      return lexer_.Error("the .version directive has no number such as 9.0");
    module_.version = major * 10 + minor;
    return Status::Ok();
  }

  Status Target() {
    do {
      CUSPAN_ASSIGN_OR_RETURN(auto word, lexer_.ExpectIdentifier("a target such as sm_75"));
      if (word.substr(0, 3) != "sm_") continue;
      const auto digits = word.substr(3);
      const auto result =
          std::from_chars(digits.data(), digits.data() + digits.size(), module_.target);
      if (result.ec != std::errc() || module_.target == 0)
        return lexer_.Error(Format("'{}' is not a target", word));
    } while (lexer_.Accept(','));
    return Status::Ok();
  }

  Status AddressSize() {
    CUSPAN_ASSIGN_OR_RETURN(auto bits, lexer_.ExpectInteger("32 or 64 after '.address_size'", 64));
    if (bits != 64)
      return Status::Unsupported(
          "PTX line {}: .address_size {} is not implemented; compile for 64 bits",
          lexer_.LineOf(lexer_.Peek().offset), bits);
    return Status::Ok();
  }

  Status Section(const Token& start) {
    if (lexer_.Peek().kind == Token::Kind::kDirective ||
        lexer_.Peek().kind == Token::Kind::kIdentifier)
      lexer_.Consume();
    if (!lexer_.IsPunctuation('{'))
      return lexer_.Error(Format("expected '{{' after '.section', found {}", lexer_.Describe()));
    if (!lexer_.SkipBraces())
      return Status::Invalid("PTX line {}: '.section' has no closing brace",
                             lexer_.LineOf(start.offset));
    return Status::Ok();
  }

  Status Variables(Space space, bool external) {
    for (std::string_view opaque : {"texref", "surfref", "samplerref"}) {
      if (lexer_.IsDirective(opaque))
        return Status::Unsupported("PTX line {}: .{} variables are not implemented",
                                   lexer_.LineOf(lexer_.Peek().offset), opaque);
    }
    std::vector<Variable> variables;
    CUSPAN_RETURN_IF_ERROR(ParseVariables(lexer_, space, external, &variables));
    CUSPAN_RETURN_IF_ERROR(lexer_.Expect(';', "a variable"));
    for (auto& variable : variables) {
      const auto [found, added] = module_.variable_index.try_emplace(
          variable.name, static_cast<std::uint32_t>(module_.variables.size()));
      if (added) {
        module_.variables.push_back(std::move(variable));
        continue;
      }
      Variable& known = module_.variables[found->second];
      if (!known.external && !variable.external)
        return Status::Invalid("PTX line {}: '{}' is declared twice, first on line {}",
                               variable.line, variable.name, known.line);
      if (known.external) known = std::move(variable);
    }
    return Status::Ok();
  }

  Status FunctionDeclaration(bool entry) {
    Function function;
    function.entry = entry;
    function.text_begin = lexer_.Peek().offset;
    while (lexer_.IsDirective("noreturn") || lexer_.IsDirective("attribute") ||
           lexer_.IsDirective("unified"))
      CUSPAN_RETURN_IF_ERROR(Attribute(&function));
    if (!entry) CUSPAN_RETURN_IF_ERROR(ParseParameterList(lexer_, &function.signature.results));
    function.declared_results = function.signature.results.size();
    function.line = lexer_.LineOf(lexer_.Peek().offset);
    CUSPAN_ASSIGN_OR_RETURN(function.name, lexer_.ExpectIdentifier("the name of a function"));
    CUSPAN_RETURN_IF_ERROR(ParseParameterList(lexer_, &function.signature.parameters));
    while (lexer_.Peek().kind == Token::Kind::kDirective)
      CUSPAN_RETURN_IF_ERROR(Attribute(&function));
    if (lexer_.IsPunctuation('{')) {
      function.defined = true;
      function.body_begin = lexer_.Peek().offset + 1;
      if (!lexer_.SkipBraces())
        return Status::Invalid("PTX line {}: function '{}' has no closing brace", function.line,
                               function.name);
      function.body_end = lexer_.BehindBraces() - 1;
      function.text_end = function.body_end;
    } else {
      function.text_end = lexer_.Peek().offset;
      CUSPAN_RETURN_IF_ERROR(lexer_.Expect(';', "a function declaration"));
    }
    return Add(std::move(function));
  }

  Status SkipNumbers() {
    while (lexer_.Peek().kind == Token::Kind::kInteger) {
      lexer_.Consume();
      if (!lexer_.Accept(',')) break;
    }
    return Status::Ok();
  }

  // Reads one directive between the parameters and the body.
  Status Attribute(Function* function) {
    const Token token = lexer_.Consume();
    if (token.text == "pragma") {
      while (!lexer_.IsPunctuation(';') && !lexer_.AtEnd()) lexer_.Consume();
      return lexer_.Expect(';', "'.pragma'");
    }
    if (token.text == "maxntid" || token.text == "reqntid") {
      auto* const extent = token.text == "maxntid" ? function->max_ntid : function->required_ntid;
      extent[0] = extent[1] = extent[2] = 1;
      for (int i = 0; i < 3; ++i) {
        CUSPAN_ASSIGN_OR_RETURN(auto value, lexer_.ExpectInteger("the extent of a block", 65535));
        if (value == 0) return lexer_.Error(Format("'.{}' has an extent of 0", token.text));
        extent[i] = static_cast<std::uint32_t>(value);
        if (!lexer_.Accept(',')) break;
      }
      return Status::Ok();
    }
    if (token.text == "explicitcluster" || token.text == "reqnctapercluster" ||
        token.text == "blocksareclusters") {
      // Other functions of the module can still be used.
      if (function->unsupported.empty())
        function->unsupported =
            Format("PTX line {}: clusters of blocks ('.{}') are not implemented",
                   lexer_.LineOf(token.offset), token.text);
      return SkipNumbers();
    }
    if (token.text == "attribute") {
      CUSPAN_RETURN_IF_ERROR(lexer_.Expect('(', "'.attribute'"));
      while (!lexer_.IsPunctuation(')') && !lexer_.AtEnd()) lexer_.Consume();
      return lexer_.Expect(')', "'.attribute('");
    }
    static constexpr std::string_view kIgnored[] = {
        "maxnreg",  "minnctapersm", "maxnctapersm", "maxclusterrank",
        "noreturn", "unified",      "abi_preserve", "abi_preserve_control"};
    for (auto ignored : kIgnored) {
      if (token.text == ignored) return SkipNumbers();
    }
    return Status::Unsupported("PTX line {}: '.{}' on a function is not implemented",
                               lexer_.LineOf(token.offset), token.text);
  }

  Status Add(Function function) {
    if (function.entry) {
      std::uint64_t offset = 0;
      for (const auto& parameter : function.signature.parameters) {
        if (parameter.space == Space::kRegister)
          return Status::Invalid("PTX line {}: parameter '{}' of kernel '{}' is a register",
                                 function.line, parameter.name, function.name);
        offset = AlignUp(offset, parameter.alignment) + parameter.bytes;
      }
      if (offset > kMaxParameterBytes)
        return Status::Invalid(
            "PTX line {}: the parameters of kernel '{}' are larger than {} bytes", function.line,
            function.name, kMaxParameterBytes);
    }
    const auto [found, added] = module_.function_index.try_emplace(
        function.name, static_cast<std::uint32_t>(module_.functions.size()));
    if (added) {
      module_.functions.push_back(std::move(function));
      return Status::Ok();
    }
    Function& known = module_.functions[found->second];
    if (known.defined && function.defined)
      return Status::Invalid("PTX line {}: function '{}' is defined twice, first on line {}",
                             function.line, function.name, known.line);
    if (known.entry != function.entry)
      return Status::Invalid("PTX line {}: '{}' is both a kernel and a function", function.line,
                             function.name);
    function.declared_results = known.declared_results =
        std::max(function.declared_results, known.declared_results);
    if (function.defined) known = std::move(function);
    return Status::Ok();
  }

  Lexer lexer_;
  Module module_;
};

}  // namespace

Result<Module> IndexModule(std::string_view text) { return Indexer(text).Index(); }

}  // namespace cuspan::ptx
