// Conversion to static single assignment: a register written in several places becomes one register
// per value, with copies where paths join. Facts about one value are then not lost by another value
// in the same register.
#pragma once

#include "proxy/ptx/module.h"

namespace cuspan::softgpu::analysis {

// Changes the body's instructions, labels and registers, but not its results. Skips bodies with too
// large a control flow.
void SplitRegisters(ptx::Body* body);

}  // namespace cuspan::softgpu::analysis
