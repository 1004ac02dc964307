#include "proxy/slicing/slice_ptx.h"

#include <utility>

#include "proxy/ptx/declarations.h"
#include "proxy/ptx/index.h"
#include "proxy/ptx/lexer.h"
#include "proxy/ptx/module.h"
#include "proxy/slicing/kernel_needs.h"
#include "proxy/slicing/rewriter.h"

namespace cuspan::slicing {
namespace {

using ptx::Token;

// Maximum size of all parameters before PTX 8.1 or sm_70. (PTX ISA, "Kernel Function Parameters")
constexpr std::uint64_t kMaxParameterBytesThen = 4352;

std::uint64_t MostParameterBytes(const ptx::Module& module) {
  return module.version >= 81 && module.target >= 70 ? ptx::kMaxParameterBytes
                                                     : kMaxParameterBytesThen;
}

// .version, .target and .address_size. The target "debug" is removed: it requires debug sections,
// missing in the new module.
std::string HeaderOf(std::string_view text) {
  std::string header;
  ptx::Lexer lexer(text);
  while (!lexer.AtEnd() && !lexer.IsDirective("version")) lexer.Consume();
  lexer.Consume();
  header += Format(".version {}\n", lexer.Peek().text);
  while (!lexer.AtEnd() && !lexer.IsDirective("target")) lexer.Consume();
  lexer.Consume();
  std::string targets;
  do {
    if (lexer.Peek().text == "debug") continue;
    targets += Format("{}{}", targets.empty() ? "" : ", ", lexer.Peek().text);
  } while (lexer.Consume().kind == Token::Kind::kIdentifier && lexer.Accept(','));
  return header + Format(".target {}\n.address_size 64\n", targets);
}

// A function's text after .entry or .func, up to the body, or the ';' of a declaration.
std::string_view HeadOf(std::string_view text, const ptx::Function& function) {
  const std::size_t end = function.defined ? function.body_begin - 1 : function.text_end;
  return text.substr(function.text_begin, end - function.text_begin);
}

// The kernel's head with an additional parameter.
std::string HeadWithArguments(std::string_view text, const ptx::Function& entry,
                              const std::string& name) {
  const std::string_view head = HeadOf(text, entry);
  const std::string parameter = Format(".param .align 4 .b8 {}[{}]", name, sizeof(SliceArguments));
  ptx::Lexer lexer(head);
  // Parentheses may also occur before the name.
  const auto at_name = [&] {
    return lexer.Peek().kind == Token::Kind::kIdentifier && lexer.Peek().text == entry.name;
  };
  while (!lexer.AtEnd() && !at_name()) lexer.Consume();
  const Token named = lexer.Consume();
  std::size_t at = named.offset + named.text.size();
  // The kernel may have no parameter list.
  if (!lexer.IsPunctuation('('))
    return Format("{}({}){}", head.substr(0, at), parameter, head.substr(at));
  int depth = 0;
  do {
    const Token token = lexer.Consume();
    at = token.offset;
    if (token.punctuation == '(') ++depth;
    if (token.punctuation == ')') --depth;
  } while (depth > 0 && !lexer.AtEnd());
  return Format("{}{}\n\t{}\n{}", head.substr(0, at), entry.signature.parameters.empty() ? "" : ",",
                parameter, head.substr(at));
}

// Declares a variable of the new module, as an array of bytes.
std::string DeclarationOf(const ptx::Variable& variable) {
  const bool shared = variable.space == ptx::Space::kShared;
  return Format("{}.{} .align {} .b8 {}[{}];\n", variable.external ? ".extern " : "",
                shared ? "shared" : "const", variable.alignment, variable.name,
                variable.external ? "" : Format("{}", variable.bytes));
}

// Writes the module with `entry` and its needs. Only the kernel is visible to other modules.
Result<std::string> Write(const Rewriting& rewriting, const ptx::Function& entry,
                          const KernelNeeds& needs) {
  const std::string_view text = rewriting.text;
  std::string out = HeaderOf(text);
  for (const auto* variables : {&needs.shared, &needs.constants})
    for (const ptx::Variable* const variable : *variables) out += DeclarationOf(*variable);
  for (const ptx::Function* const function : needs.externals)
    out += Format(".extern .func {};\n", HeadOf(text, *function));
  // Declared first: functions may call each other in any order.
  for (const ptx::Function* const function : needs.functions)
    out += Format(".func {};\n", HeadOf(text, *function));
  for (const ptx::Function* const function : needs.functions) {
    CUSPAN_ASSIGN_OR_RETURN(const std::string body, RewriteBody(rewriting, *function));
    out += Format(".func {}{}", HeadOf(text, *function), body);
  }
  CUSPAN_ASSIGN_OR_RETURN(const std::string body, RewriteBody(rewriting, entry));
  return out + Format(".visible .entry {}{}",
                      HeadWithArguments(text, entry, rewriting.ArgumentsName()), body);
}

}  // namespace

Result<SlicedPtx> SlicePtx(std::string_view text, std::string_view kernel,
                           const AddressOf& address_of) {
  const Result<ptx::Module> module = ptx::IndexModule(text);
  if (!module.ok()) return Status::Unsupported("{} ({})", reasons::kPtx, module.status().message());
  const ptx::Function* const entry = module->FindFunction(kernel);
  if (entry == nullptr || !entry->entry || !entry->defined)
    return Status::NotFound("the module has no kernel '{}'", Printable(kernel, 100));

  SlicedPtx sliced;
  std::uint64_t end = 0;
  for (const ptx::Variable& parameter : entry->signature.parameters)
    end = ptx::AlignUp(end, parameter.alignment) + parameter.bytes;
  end = ptx::AlignUp(end, alignof(SliceArguments));
  if (end + sizeof(SliceArguments) > MostParameterBytes(*module))
    return RefusedFor(reasons::kParameters, entry->line, Format("{} bytes", end));
  sliced.arguments_offset = static_cast<std::uint32_t>(end);
  sliced.parameter_bytes = static_cast<std::uint32_t>(end + sizeof(SliceArguments));

  CUSPAN_ASSIGN_OR_RETURN(const KernelNeeds needs, FindNeeds(text, *module, *entry));
  for (const ptx::Variable* const constant : needs.constants)
    sliced.constants.push_back({std::string(constant->name), constant->bytes});
  Rewriting rewriting{text, StemFor(text), {}};
  for (const ptx::Variable* const variable : needs.globals) {
    const std::optional<std::uint64_t> address = address_of(variable->name);
    if (!address)
      return RefusedFor(reasons::kVariable, variable->line, Printable(variable->name, 100));
    rewriting.addresses.emplace(variable->name, *address);
  }
  CUSPAN_ASSIGN_OR_RETURN(sliced.text, Write(rewriting, *entry, needs));
  return sliced;
}

}  // namespace cuspan::slicing
