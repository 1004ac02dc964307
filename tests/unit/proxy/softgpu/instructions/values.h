// Edge values of each kind, and comparison and output of results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/unit/proxy/softgpu/instructions/forms.h"

namespace cuspan::ptx_forms {

unsigned BitsOf(Kind kind);  // 1 for a predicate.
const char* NameOf(Kind kind);

// Inputs for a form, `slots` values for each case: all combinations of edge values or a selection
// of them, and random values. At most `most` cases.
std::vector<std::uint64_t> CasesOf(const Form& form, unsigned slots, std::size_t most);

// Replaces all NaNs by the same NaN: PTX defines no payload.
std::uint64_t Canonical(Kind kind, std::uint64_t value);
bool Agrees(Kind kind, std::uint64_t got, std::uint64_t expected, const Tolerance& tolerance);
std::string Show(Kind kind, std::uint64_t value);

}  // namespace cuspan::ptx_forms
