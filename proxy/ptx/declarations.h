// Variable and parameter declarations, as they stand at module level, in
// parameter lists and in function bodies.
#pragma once

#include <vector>

#include "common/status.h"
#include "proxy/ptx/lexer.h"
#include "proxy/ptx/module.h"

namespace cuspan::ptx {

// Largest variable that is accepted, in bytes: 1 TiB, above any device's memory.
inline constexpr std::uint64_t kMaxVariableBytes = std::uint64_t{1} << 40;
// What one thread may have as .local memory. (CUDA C++ Programming Guide, "Technical
// Specifications")
inline constexpr std::uint64_t kMaxLocalBytes = 512 << 10;
// All parameters of a kernel together, since PTX 8.1. (PTX ISA, "Kernel Function Parameters")
inline constexpr std::uint64_t kMaxParameterBytes = 32764;

// Reads what follows the state space: "[.align N] .type name[dims] [= init]",
// and further names after commas, up to but without the ';'. Appends to *out.
Status ParseVariables(Lexer& lexer, Space space, bool external, std::vector<Variable>* out);

// Reads "( .param .u32 a, .reg .b32 b, … )" when a '(' is next; else nothing.
Status ParseParameterList(Lexer& lexer, std::vector<Variable>* out);

// Reads a register declaration behind ".reg": a type, then "name" or "name<count>", up to the ';'.
struct RegisterRange {
  std::string_view name;
  Type type;
  std::uint32_t count;  // kNoIndex: one register with exactly this name.
};
Status ParseRegisters(Lexer& lexer, std::vector<RegisterRange>* out);

// Bytes of kernel parameters before each one: the next offset that fits `alignment`.
inline std::uint64_t AlignUp(std::uint64_t offset, std::uint64_t alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

}  // namespace cuspan::ptx
