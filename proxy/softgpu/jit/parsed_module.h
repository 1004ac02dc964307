// Text of a PTX module with its index, and the bodies parsed so far.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/status.h"
#include "proxy/ptx/module.h"
#include "proxy/softgpu/analysis/plan.h"

namespace cuspan::softgpu::jit {

// Threads: Plan is called by one at a time; everything else is constant after Parse.
class ParsedModule {
 public:
  // Indexes `text` (without a trailing NUL). Returns kInvalid, naming the line, for invalid PTX.
  static Result<std::unique_ptr<ParsedModule>> Parse(std::shared_ptr<const std::string> text);
  ParsedModule(const ParsedModule&) = delete;

  const std::shared_ptr<const std::string>& text() const { return text_; }
  const ptx::Module& module() const { return module_; }
  // Returns the kernel's index in module().functions, or kNotFound if it is not defined.
  Result<std::uint32_t> FindKernel(std::string_view name) const;
  // Parses all bodies, and keeps none. Returns kInvalid, naming the line, for text invalid in every
  // PTX version: NVIDIA's compiler would refuse it. `linked`: nothing is linked to it later, so all
  // its functions must be present. Does not detect valid kernels unsupported here.
  Status Check(bool linked);
  // Parses the kernel and everything reachable. The plan's pointers are valid as long as this
  // object.
  Result<analysis::KernelPlan> Plan(std::uint32_t kernel);

 private:
  explicit ParsedModule(std::shared_ptr<const std::string> text) : text_(std::move(text)) {}
  Result<const ptx::Body*> BodyOf(std::uint32_t function);

  const std::shared_ptr<const std::string> text_;
  ptx::Module module_;
  std::vector<std::unique_ptr<ptx::Body>> bodies_;
};

}  // namespace cuspan::softgpu::jit
