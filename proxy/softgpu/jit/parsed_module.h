// The text of a PTX module with its index, and the bodies that were parsed so far.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/status.h"
#include "proxy/ptx/module.h"
#include "proxy/softgpu/analysis/plan.h"

namespace cuspan::softgpu::jit {

// One thread at a time plans; everything else stays as it is from Parse on.
class ParsedModule {
 public:
  // Indexes `text` (without a trailing NUL). kInvalid, naming the line, for text that is not PTX.
  static Result<std::unique_ptr<ParsedModule>> Parse(std::shared_ptr<const std::string> text);
  ParsedModule(const ParsedModule&) = delete;

  const std::shared_ptr<const std::string>& text() const { return text_; }
  const ptx::Module& module() const { return module_; }
  // The kernel's index in module().functions; kNotFound when it is not defined.
  Result<std::uint32_t> FindKernel(std::string_view name) const;
  // Parses all bodies, and keeps none. kInvalid, naming the line, for what no version of PTX
  // allows: a compiler would refuse the whole text. `linked`: nothing is added to it, so its
  // functions are all there are. Kernels that are PTX and can not be run here are not found.
  Status Check(bool linked);
  // Parses the kernel and all that it may reach. What it points to lives as long as this object.
  Result<analysis::KernelPlan> Plan(std::uint32_t kernel);

 private:
  explicit ParsedModule(std::shared_ptr<const std::string> text) : text_(std::move(text)) {}
  Result<const ptx::Body*> BodyOf(std::uint32_t function);

  const std::shared_ptr<const std::string> text_;
  ptx::Module module_;
  std::vector<std::unique_ptr<ptx::Body>> bodies_;
};

}  // namespace cuspan::softgpu::jit
