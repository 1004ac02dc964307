// Registers that are written in several places become several registers, one
// for each value, so that what is known of a value is not spoilt by another
// that the program keeps in the same register: static single assignment, with
// copies where ways join.
#pragma once

#include "proxy/ptx/module.h"

namespace cuspan::softgpu::analysis {

// Changes the body's instructions, labels and registers; what it computes stays the same. Leaves
// bodies alone whose control flow is too large to be worth it.
void SplitRegisters(ptx::Body* body);

}  // namespace cuspan::softgpu::analysis
