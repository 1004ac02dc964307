// What the code of a kernel depends on, as a key: found by looking at the text,
// without parsing it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "proxy/ptx/module.h"
#include "proxy/softgpu/jit/kernel_cache.h"

namespace cuspan::softgpu::jit {

// The key of kernel `kernel` (index in module.functions) of the module with this
// `text`: of its text and line, of all functions that it may reach, of the variables
// that these name, of the PTX version and of what compiles (our own build, LLVM and
// this machine's processor).
CacheKey KeyOfKernel(std::string_view text, const ptx::Module& module, std::uint32_t kernel);

// Another key for each `variant` of what has `key`.
CacheKey KeyOfVariant(const CacheKey& key, std::string_view variant);

// What tells this build from others, in hexadecimal; empty when nothing does: then nothing must be
// kept.
const std::string& BuildName();

}  // namespace cuspan::softgpu::jit
