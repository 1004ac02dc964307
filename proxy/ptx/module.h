// A parsed PTX module: its declarations, and the bodies of its functions. All names are views into
// the module's text. The text must outlive them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "proxy/ptx/special_registers.h"
#include "proxy/ptx/types.h"

namespace cuspan::ptx {

inline constexpr std::uint32_t kNoIndex = 0xffffffff;

// Location of a variable. kRegister is a formal parameter in a register.
enum class Space : std::uint8_t { kGeneric, kGlobal, kConst, kShared, kLocal, kParam, kRegister };

// Address of `symbol` plus `addend`, in the initial value of a variable.
struct Relocation {
  std::uint64_t offset;
  std::string_view symbol;
  std::int64_t addend;
};

struct Variable {
  std::string_view name;
  Space space = Space::kGlobal;
  Type type = Type::kNone;
  std::uint32_t alignment = 1;
  std::uint64_t bytes = 0;  // 0 for an array without a length (dynamic shared memory).
  bool external = false;    // .extern: defined elsewhere, or dynamic shared memory.
  bool managed = false;     // .attribute(.managed)
  std::uint32_t line = 0;
  std::vector<std::uint8_t> initial;  // Up to `bytes`; the rest is zero.
  std::vector<Relocation> relocations;
};

struct Operand {
  enum class Kind : std::uint8_t {
    kNone,      // The sink "_", or no operand at all.
    kRegister,  // `index` in Body::registers.
    kInteger,   // `bits`, two's complement.
    kFloat32,   // `bits`
    kFloat64,   // `bits`
    kSpecial,   // `special`, for example %tid.x.
    kVariable,  // `index` in Body::variables, plus `offset` bytes.
    kSymbol,    // `name`: variable or function of the module, plus `offset` bytes.
    kLabel,     // `index` in Body::labels.
    kTable,     // `index` in Body::branch_tables.
    kVector,    // `elements`; also the parenthesised lists of a call.
    kPair,      // `elements`: the two destinations of "a|b".
    kAddress,   // "[…]": `elements[0]` is the base, plus `offset`.
  };
  Kind kind = Kind::kNone;
  bool negated = false;  // A predicate with "!".
  std::uint32_t index = kNoIndex;
  SpecialRegister special = SpecialRegister::kNone;
  std::uint64_t bits = 0;
  std::int64_t offset = 0;
  std::string_view name;      // Symbol's name.
  std::string_view selector;  // "b0" in %r1.b0.
  std::vector<Operand> elements;
};

struct Instruction {
  std::string_view opcode;                  // "ld"
  std::vector<std::string_view> modifiers;  // "global", "v2", "f32": all, in order.
  Type types[4] = {};                       // Types among them, in order.
  std::uint32_t line = 0;
  std::uint32_t guard = kNoIndex;  // Register of the guard predicate.
  bool guard_negated = false;
  std::vector<Operand> operands;

  bool Has(std::string_view modifier) const {
    for (auto m : modifiers)
      if (m == modifier) return true;
    return false;
  }
  // Returns "ld.global.v2.f32".
  std::string Name() const;
};

struct Register {
  std::string_view name;
  Type type;
};

struct Label {
  std::string_view name;
  std::uint32_t position = kNoIndex;  // Index of the next instruction.
};

struct BranchTable {
  std::string_view name;
  std::vector<std::uint32_t> labels;  // Indices in Body::labels.
};

// Parameters and results of a function, or of an indirect call's prototype.
struct Signature {
  std::vector<Variable> parameters;
  std::vector<Variable> results;
};

// Possible functions of an indirect call: all with a signature (.callprototype), or with the
// signature of the first function in a list (.calltargets).
struct Prototype {
  std::string_view name;
  Signature signature;
  std::string_view target;  // First of .calltargets, else empty.
};

// Contains registers and variables of all scopes in one list each. Operands are already resolved to
// the right one.
struct Body {
  std::vector<Register> registers;
  // Formal results first, then formal parameters, then the body's own.
  std::vector<Variable> variables;
  std::vector<std::uint32_t> formal_registers;  // One for each formal, or kNoIndex.
  std::vector<Instruction> instructions;
  std::vector<Label> labels;
  std::vector<BranchTable> branch_tables;
  std::vector<Prototype> prototypes;
  // Source of the instructions (.loc), valid from a line of the PTX up to the next entry.
  struct SourceLine {
    std::uint32_t ptx_line;
    std::uint32_t file;  // Number in .file.
    std::uint32_t line;
  };
  std::vector<SourceLine> source_lines;
};

struct Function {
  std::string_view name;
  bool entry = false;
  bool defined = false;
  Signature signature;
  std::size_t declared_results = 0;  // Maximum over declarations and definition.
  std::uint32_t line = 0;
  std::size_t body_begin = 0;  // Offsets in the text: after '{' and at '}'.
  std::size_t body_end = 0;
  std::size_t text_begin = 0;  // The same for the function: after .entry or .func, and its end.
  std::size_t text_end = 0;
  std::uint32_t max_ntid[3] = {0, 0, 0};       // .maxntid, or zeros.
  std::uint32_t required_ntid[3] = {0, 0, 0};  // .reqntid, or zeros.
  std::string unsupported;  // Reason, with the line, if it cannot be compiled; otherwise empty.
};

struct Module {
  std::uint32_t version = 0;        // Major × 10 + minor.
  std::uint32_t target = 0;         // 75 for sm_75.
  std::vector<Variable> variables;  // .global, .const and module-level .shared.
  std::vector<Function> functions;
  std::unordered_map<std::string_view, std::uint32_t> variable_index;
  std::unordered_map<std::string_view, std::uint32_t> function_index;
  std::map<std::uint32_t, std::string_view> source_files;  // Key: number.

  const Variable* FindVariable(std::string_view name) const {
    const auto found = variable_index.find(name);
    return found == variable_index.end() ? nullptr : &variables[found->second];
  }
  const Function* FindFunction(std::string_view name) const {
    const auto found = function_index.find(name);
    return found == function_index.end() ? nullptr : &functions[found->second];
  }
};

}  // namespace cuspan::ptx
