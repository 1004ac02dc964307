// What is kept on disk of a kernel: what a launch needs to know of it, and its code.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "proxy/softgpu/jit/program.h"

namespace cuspan::softgpu::jit {

std::string WriteInfo(const KernelInfo& info);
// Nullopt for bytes that are not an information of the kernel `name`.
std::optional<KernelInfo> ReadInfo(std::string_view bytes, std::string_view name);

// The code of a kernel for some blocks, and how to run it; its entry is not linked.
struct KernelCode {
  bool needs_fibers = false;  // This and the next two: as in CompiledKernel.
  bool warps = false;
  std::uint32_t frame_bytes = 0;
  std::string object;
};
std::string WriteCode(const KernelCode& code);
std::optional<KernelCode> ReadCode(std::string_view bytes);

}  // namespace cuspan::softgpu::jit
