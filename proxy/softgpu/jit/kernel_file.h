// Disk format of a kernel: the facts needed by a launch, and its code.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "proxy/softgpu/jit/program.h"

namespace cuspan::softgpu::jit {

std::string WriteInfo(const KernelInfo& info);
// Returns nullopt if the bytes are not the information of kernel `name`.
std::optional<KernelInfo> ReadInfo(std::string_view bytes, std::string_view name);

// Code of a kernel for some blocks, and its mode of execution; the code is not linked.
struct KernelCode {
  bool needs_fibers = false;  // See CompiledKernel for these three.
  bool warps = false;
  std::uint32_t frame_bytes = 0;
  std::string object;
};
std::string WriteCode(const KernelCode& code);
std::optional<KernelCode> ReadCode(std::string_view bytes);

}  // namespace cuspan::softgpu::jit
