// Variable and parameter declarations at module level, in parameter lists and in function bodies.
#pragma once

#include <vector>

#include "common/status.h"
#include "proxy/ptx/lexer.h"
#include "proxy/ptx/module.h"

namespace cuspan::ptx {

// Maximum size of a variable in bytes: 1 TiB, above any device's memory.
inline constexpr std::uint64_t kMaxVariableBytes = std::uint64_t{1} << 40;
// Maximum of .local memory for one thread. (CUDA C++ Programming Guide, "Technical Specifications")
inline constexpr std::uint64_t kMaxLocalBytes = 512 << 10;
// Maximum size of all parameters of a kernel, since PTX 8.1. (PTX ISA, "Kernel Function
// Parameters")
inline constexpr std::uint64_t kMaxParameterBytes = 32764;

// Reads the text after the state space: "[.align N] .type name[dims] [= init]", and further names
// after commas, up to the ';' (excluded). Appends to *out.
Status ParseVariables(Lexer& lexer, Space space, bool external, std::vector<Variable>* out);

// Reads "( .param .u32 a, .reg .b32 b, … )" if the next token is '('; otherwise nothing.
Status ParseParameterList(Lexer& lexer, std::vector<Variable>* out);

// Reads a register declaration after ".reg": a type, then "name" or "name<count>", up to the ';'.
struct RegisterRange {
  std::string_view name;
  Type type;
  std::uint32_t count;  // kNoIndex: one register with exactly this name.
};
Status ParseRegisters(Lexer& lexer, std::vector<RegisterRange>* out);

// Returns the next aligned offset, for the layout of kernel parameters.
inline std::uint64_t AlignUp(std::uint64_t offset, std::uint64_t alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

}  // namespace cuspan::ptx
