#include "tests/unit/proxy/softgpu/compiler/device.h"

#include <cuda.h>

#include <bit>
#include <future>

#include "proxy/softgpu/rt/grid.h"
#include "proxy/softgpu/rt/heap.h"
#include "proxy/softgpu/rt/launch.h"
#include "proxy/softgpu/rt/pool.h"

namespace cuspan::softgpu {
namespace {

class FirstError : public ErrorSink {
 public:
  void Raise(CUresult error, const std::string& message) override {
    const std::lock_guard lock(mutex_);
    if (error_ != CUDA_SUCCESS) return;
    error_ = error;
    message_ = message;
  }
  CUresult error() const override {
    const std::lock_guard lock(mutex_);
    return error_;
  }
  std::string message() const {
    const std::lock_guard lock(mutex_);
    return message_;
  }

 private:
  mutable std::mutex mutex_;
  CUresult error_ = CUDA_SUCCESS;
  std::string message_;
};

WorkerPool& Pool() {
  static auto* const pool = new WorkerPool(2);
  return *pool;
}

constexpr std::string_view kHead = R"(
.visible .entry evaluate(.param .u64 inputs, .param .u64 results, .param .u32 count)
{
  .reg .pred %p<10>; .reg .b16 %h<10>; .reg .b32 %r<10>; .reg .b64 %d<10>; .reg .f32 %f<10>; .reg .f64 %g<10>;
  .reg .b32 %i<8>; .reg .b64 %a<8>; .reg .pred %skip;
  mov.u32 %i1, %ctaid.x; mov.u32 %i2, %ntid.x; mov.u32 %i3, %tid.x;
  mad.lo.s32 %i1, %i1, %i2, %i3;
  ld.param.u32 %i4, [count];
  setp.ge.u32 %skip, %i1, %i4;
  @%skip bra DONE;
  ld.param.u64 %a1, [inputs]; ld.param.u64 %a2, [results];
  mul.wide.u32 %a3, %i1, 40; add.s64 %a1, %a1, %a3;
  mul.wide.u32 %a3, %i1, 64; add.s64 %a2, %a2, %a3;
)";

std::string EvaluateModule(std::string_view body) {
  std::string text(kHead);
  for (int i = 1; i <= 5; ++i) {
    const int at = (i - 1) * 8;
    text += Format(
        "ld.global.b64 %d{0}, [%a1+{1}]; ld.global.b32 %r{0}, [%a1+{1}]; ld.global.f32 %f{0}, "
        "[%a1+{1}];"
        "ld.global.f64 %g{0}, [%a1+{1}]; ld.global.b16 %h{0}, [%a1+{1}];\n",
        i, at);
  }
  text += body;
  text += R"(
  cvt.u64.u32 %a3, %r0; st.global.b64 [%a2], %a3;
  st.global.b64 [%a2+8], %d0;
  mov.b32 %i5, %f0; cvt.u64.u32 %a3, %i5; st.global.b64 [%a2+16], %a3;
  st.global.f64 [%a2+24], %g0;
  cvt.u64.u16 %a3, %h0; st.global.b64 [%a2+32], %a3;
  selp.b64 %a3, 1, 0, %p0; st.global.b64 [%a2+40], %a3;
  selp.b64 %a3, 1, 0, %p1; st.global.b64 [%a2+48], %a3;
  cvt.u64.u32 %a3, %r9; st.global.b64 [%a2+56], %a3;
DONE:
  ret;
}
)";
  return Module(text);
}

}  // namespace

Device::Device(std::string ptx, const ProgramOptions& options) {
  auto program = Program::Load(std::move(ptx), options);
  EXPECT_TRUE(program.ok()) << program.status().message();
  if (!program.ok()) return;
  program_ = std::move(*program);
  for (const auto& variable : program_->variables()) {
    auto memory = std::make_unique<std::uint64_t[]>((variable.bytes + 63) / 8 + 8);
    // Aligned by hand: variables may require more than 8.
    auto address = std::bit_cast<std::uint64_t>(memory.get());
    address = (address + 63) / 64 * 64;
    program_->Bind(variable.name, std::bit_cast<void*>(address));
    variables_[variable.name] = std::move(memory);
  }
  for (const auto& variable : program_->variables()) {
    auto* const bytes = static_cast<std::uint8_t*>(Variable(variable.name));
    std::memcpy(bytes, variable.initial.data(), variable.initial.size());
    for (const auto& relocation : variable.relocations) {
      const auto value = std::bit_cast<std::uint64_t>(Variable(relocation.symbol)) +
                         static_cast<std::uint64_t>(relocation.addend);
      std::memcpy(bytes + relocation.offset, &value, sizeof value);
    }
  }
}

void* Device::Variable(std::string_view name) {
  const auto found = variables_.find(name);
  if (found == variables_.end()) return nullptr;
  const auto address = std::bit_cast<std::uint64_t>(found->second.get());
  return std::bit_cast<void*>((address + 63) / 64 * 64);
}

int Device::LaunchBytes(std::string_view kernel, Extent grid, Extent block,
                        std::uint32_t dynamic_shared,
                        const std::vector<std::vector<std::uint8_t>>& arguments) {
  message_.clear();
  if (program_ == nullptr) return CUDA_ERROR_INVALID_PTX;
  const auto info = program_->Kernel(kernel);
  if (!info.ok()) {
    message_ = info.status().message();
    return CUDA_ERROR_INVALID_PTX;
  }
  const auto compiled = program_->Compile(kernel, {block.x, block.y, block.z});
  if (!compiled.ok()) {
    message_ = compiled.status().message();
    return CUDA_ERROR_INVALID_PTX;
  }
  const KernelInfo& described = **info;
  EXPECT_EQ(arguments.size(), described.parameters.size());
  const auto errors = std::make_shared<FirstError>();
  DeviceHeap heap;
  softgpu::Launch launch;
  launch.kernel = std::string(kernel);
  launch.grid = {grid.x, grid.y, grid.z};
  launch.block = {block.x, block.y, block.z};
  launch.static_shared_bytes = described.static_shared_bytes;
  launch.dynamic_shared_bytes = dynamic_shared;
  launch.params.resize((described.parameter_bytes + 7) / 8 + 1);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    EXPECT_EQ(arguments[i].size(), described.parameters[i].bytes);
    std::memcpy(
        reinterpret_cast<std::uint8_t*>(launch.params.data()) + described.parameters[i].offset,
        arguments[i].data(), arguments[i].size());
  }
  launch.stack_of_thread = 4096 + std::size_t{described.local_bytes};
  launch.Use(*compiled);
  launch.errors = errors;
  launch.heap = &heap;
  GridTask task(std::move(launch), 0, Pool().threads());
  std::promise<void> finished;
  Pool().Add(task, [&] { finished.set_value(); });
  finished.get_future().wait();
  message_ = errors->message();
  return errors->error();
}

std::string Module(std::string_view rest) {
  return Format(".version 9.0\n.target sm_80\n.address_size 64\n{}", rest);
}

std::vector<Results> Evaluate(std::string_view body, const std::vector<Words>& inputs) {
  std::vector<Results> results(inputs.size());
  Device device(EvaluateModule(body));
  const auto count = static_cast<std::uint32_t>(inputs.size());
  const int error =
      device.Launch("evaluate", {(count + 63) / 64}, {64}, 0, inputs.data(), results.data(), count);
  EXPECT_EQ(error, 0) << body << "\n" << device.message();
  return results;
}

Status CompileStatus(std::string_view body) {
  CUSPAN_ASSIGN_OR_RETURN(auto program, Program::Load(EvaluateModule(body)));
  return program->Compile("evaluate").status();
}

std::uint64_t Bits(float value) { return std::bit_cast<std::uint32_t>(value); }
std::uint64_t Bits(double value) { return std::bit_cast<std::uint64_t>(value); }
float AsFloat(std::uint64_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits)); }
double AsDouble(std::uint64_t bits) { return std::bit_cast<double>(bits); }

}  // namespace cuspan::softgpu
