// The names of PTX's instructions, as far as they stand before the first dot.
#pragma once

#include <string_view>

namespace cuspan::ptx {

// Whether an instruction of any version of PTX begins so. (PTX ISA 9.0, "Instruction Set")
bool IsOpcode(std::string_view opcode);

}  // namespace cuspan::ptx
