// Cache keys of a kernel's code. They are computed by scanning the text, without parsing it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "proxy/ptx/module.h"
#include "proxy/softgpu/jit/kernel_cache.h"

namespace cuspan::softgpu::jit {

// Key of kernel `kernel` (index in module.functions) of the module with this `text`. It covers the
// kernel's text and line, all reachable functions, and variables named by them. It also covers the
// PTX version and the compiler (our build, LLVM and this machine's processor).
CacheKey KeyOfKernel(std::string_view text, const ptx::Module& module, std::uint32_t kernel);

// Derives a different key from `key` for each `variant`.
CacheKey KeyOfVariant(const CacheKey& key, std::string_view variant);

// Identifies this build, in hexadecimal. If it is empty, builds cannot be distinguished, and
// nothing must be cached.
const std::string& BuildName();

}  // namespace cuspan::softgpu::jit
