// Names of PTX instructions, up to the first dot.
#pragma once

#include <string_view>

namespace cuspan::ptx {

// True for an opcode of any version of PTX. (PTX ISA 9.0, "Instruction Set")
bool IsOpcode(std::string_view opcode);

}  // namespace cuspan::ptx
