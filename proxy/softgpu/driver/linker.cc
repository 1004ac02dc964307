// cuLink*: links the PTX of several inputs into one image.
#include "proxy/softgpu/driver/linker.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "common/log.h"
#include "protocol/fatbin/fatbin.h"
#include "proxy/ptx/index.h"
#include "proxy/ptx/link.h"
#include "proxy/softgpu/analysis/device_runtime.h"
#include "proxy/softgpu/driver/elf.h"
#include "proxy/softgpu/driver/errors.h"
#include "proxy/softgpu/driver/image.h"
#include "proxy/softgpu/driver/state.h"
#include "proxy/softgpu/jit/program.h"

namespace cuspan::softgpu {
namespace {

using Bytes = std::span<const std::uint8_t>;

// True if an object is the toolkit's device runtime (libcudadevrt.a). The software GPU has its own.
bool IsDeviceRuntime(const std::string& ptx) {
  static constexpr std::string_view kName = " __cudaCDP2LaunchDeviceV2";
  for (std::size_t at = ptx.find(kName); at != std::string::npos; at = ptx.find(kName, at + 1)) {
    const std::size_t line = ptx.rfind('\n', at) + 1;
    if (ptx.compare(line, 8, ".visible") == 0) return true;
  }
  return false;
}

// Cooperative-groups functions of the device runtime, for compilers calling them; nvcc inlines them
// from headers. Blocks meet at the second word of the workspace of a cooperative launch (%envreg1,
// 2). Its highest bit changes when the last block arrives.
constexpr std::string_view kCooperativeGroups = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .func (.param .b64 handle) cudaCGGetIntrinsicHandle(.param .b32 scope)
{
  .reg .b64 %rd<2>;
  mov.u64 %rd1, 1;
  st.param.b64 [handle], %rd1;
  ret;
}
.visible .func (.param .b32 result) cudaCGSynchronize(.param .b64 handle, .param .b32 flags)
{
  .reg .pred %p<5>;
  .reg .b32 %r<24>;
  .reg .b64 %rd<5>;
  mov.u32 %r1, %envreg1;
  mov.u32 %r2, %envreg2;
  cvt.u64.u32 %rd1, %r1;
  cvt.u64.u32 %rd2, %r2;
  bfi.b64 %rd3, %rd1, %rd2, 32, 32;
  setp.ne.s64 %p1, %rd3, 0;
  @%p1 bra there;
  trap;
there:
  barrier.sync 0;
  mov.u32 %r3, %tid.x;
  mov.u32 %r4, %tid.y;
  mov.u32 %r5, %tid.z;
  or.b32 %r6, %r3, %r4;
  or.b32 %r7, %r6, %r5;
  setp.ne.s32 %p2, %r7, 0;
  @%p2 bra done;
  add.s64 %rd4, %rd3, 4;
  mov.u32 %r8, %nctaid.x;
  mov.u32 %r9, %nctaid.y;
  mov.u32 %r10, %nctaid.z;
  mul.lo.s32 %r11, %r8, %r9;
  mul.lo.s32 %r12, %r11, %r10;
  mov.u32 %r13, %ctaid.x;
  mov.u32 %r14, %ctaid.y;
  mov.u32 %r15, %ctaid.z;
  or.b32 %r16, %r13, %r14;
  or.b32 %r17, %r16, %r15;
  setp.eq.s32 %p3, %r17, 0;
  mov.u32 %r18, -2147483647;
  sub.s32 %r19, %r18, %r12;
  selp.b32 %r20, %r19, 1, %p3;
  atom.add.release.gpu.u32 %r21, [%rd4], %r20;
wait:
  ld.acquire.gpu.u32 %r22, [%rd4];
  xor.b32 %r22, %r22, %r21;
  setp.gt.s32 %p4, %r22, -1;
  @%p4 bra wait;
done:
  barrier.sync 0;
  mov.u32 %r23, 0;
  st.param.b32 [result], %r23;
  ret;
}
)";
bool IsOfCooperativeGroups(const std::string& name) { return name.starts_with("cudaCG"); }

CUresult AddPtx(std::string ptx, int capability, LinkState& state, std::string* why) {
  const Result<ptx::Module> module = ptx::IndexModule(ptx);
  if (!module.ok()) {
    *why = module.status().message();
    return CUDA_ERROR_INVALID_PTX;
  }
  CUSPAN_SOFT_RETURN_IF_ERROR(CheckPtx(module->version, module->target, capability, why));
  if (const auto names = ptx::UndefinedNames(ptx); !names.ok()) {
    *why = names.status().message();
    return CUDA_ERROR_INVALID_PTX;
  }
  state.texts.push_back(std::move(ptx));
  return CUDA_SUCCESS;
}

// Adds PTX text of the program. All of it is checked, because the driver compiles all of it.
CUresult AddText(std::string ptx, int capability, LinkState& state, std::string* why) {
  const Result<std::unique_ptr<Program>> program = Program::Load(ptx);
  Status status = program.status();
  if (program.ok()) {
    CUSPAN_SOFT_RETURN_IF_ERROR(
        CheckPtx((*program)->ptx_version(), (*program)->target(), capability, why));
    status = (*program)->Check(false);
  }
  if (!status.ok()) {
    *why = status.message();
    return CUDA_ERROR_INVALID_PTX;
  }
  return AddPtx(std::move(ptx), capability, state, why);
}

CUresult AddFatbins(const std::vector<Bytes>& containers, int capability, LinkState& state,
                    std::string* why) {
  for (const Bytes container : containers) {
    std::string text;
    const CUresult result = PtxOfFatbin(container, capability, &text, why);
    // The device runtime is recognized even if it is for other devices.
    constexpr int kAny = 1 << 20;
    std::string ignored;
    if (result != CUDA_SUCCESS) PtxOfFatbin(container, kAny, &text, &ignored);
    if (IsDeviceRuntime(text)) {
      why->clear();
      continue;
    }
    CUSPAN_SOFT_RETURN_IF_ERROR(result);
    CUSPAN_SOFT_RETURN_IF_ERROR(AddPtx(std::move(text), capability, state, why));
  }
  return CUDA_SUCCESS;
}

CUresult AddInput(CUjitInputType type, Bytes bytes, int capability, LinkState& state,
                  std::string* why) {
  const auto* const text = reinterpret_cast<const char*>(bytes.data());
  const bool container = bytes.size() >= 4 && fatbin::IsContainer(bytes.data());
  const bool elf = bytes.size() >= 4 && IsElf(bytes.data());
  switch (type) {
    case CU_JIT_INPUT_PTX:
      return AddText({text, strnlen(text, bytes.size())}, capability, state, why);
    case CU_JIT_INPUT_CUBIN: {
      if (!elf) return CUDA_ERROR_INVALID_IMAGE;
      std::string ptx;
      CUSPAN_SOFT_RETURN_IF_ERROR(PtxOfElf(bytes, &ptx, why));
      return AddPtx(std::move(ptx), capability, state, why);
    }
    case CU_JIT_INPUT_FATBINARY:
    case CU_JIT_INPUT_OBJECT:
    case CU_JIT_INPUT_LIBRARY: {
      const std::vector<Bytes> containers = container ? std::vector{bytes}
                                            : elf     ? FatbinsOfObject(bytes)
                                                      : FatbinsOfArchive(bytes);
      if (containers.empty()) return CUDA_ERROR_INVALID_IMAGE;
      return AddFatbins(containers, capability, state, why);
    }
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// Linked text of all `texts`, and its undefined names.
struct Linked {
  std::string text;
  std::vector<std::string> undefined;
};
Result<Linked> LinkTexts(const std::vector<std::string>& texts) {
  Linked linked;
  CUSPAN_ASSIGN_OR_RETURN(linked.text, ptx::LinkModules(texts));
  CUSPAN_ASSIGN_OR_RETURN(linked.undefined, ptx::UndefinedNames(linked.text));
  return linked;
}

// Returns CUDA_ERROR_UNKNOWN, as NVIDIA's linker, if the objects do not fit together.
CUresult Link(LinkState& state, std::string* why) {
  Result<Linked> linked = LinkTexts(state.texts);
  if (linked.ok() && std::ranges::any_of(linked->undefined, IsOfCooperativeGroups)) {
    state.texts.emplace_back(kCooperativeGroups);
    linked = LinkTexts(state.texts);
  }
  if (!linked.ok()) {
    *why = linked.status().message();
    return CUDA_ERROR_UNKNOWN;
  }
  for (const std::string& name : linked->undefined) {
    if (analysis::IsOfDeviceRuntime(name)) continue;
    *why = Format("undefined reference to '{}'", name);
    return CUDA_ERROR_UNKNOWN;
  }
  state.image = ImageOfPtx(linked->text);
  return CUDA_SUCCESS;
}

// Calls work(Driver&, LinkState&, std::string* why) → CUresult, measures its time and logs its
// error.
template <typename Work>
CUresult WithState(CUlinkState handle, Work&& work) {
  CUSPAN_SOFT_ENTER(driver);
  const std::shared_ptr<LinkState> state = driver->link_states.Find(Number(handle));
  if (state == nullptr) return driver->InvalidHandle();
  CUSPAN_SOFT_RETURN_IF_ERROR(state->context->error());
  const std::lock_guard lock(state->mutex);
  const auto start = std::chrono::steady_clock::now();
  std::string why;
  const CUresult result = work(*driver, *state, &why);
  state->spent += std::chrono::steady_clock::now() - start;
  state->options.ReportTime(state->spent);
  if (!why.empty()) {
    LogInfo("software GPU: {}", why);
    state->options.AppendError(why);
  }
  return result;
}

}  // namespace

CUSPAN_SOFT_API CUresult CUDAAPI cuLinkCreate(unsigned count, CUjit_option* names, void** values,
                                              CUlinkState* handle) {
  CUSPAN_SOFT_ENTER(driver);
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto state = std::make_shared<LinkState>();
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->UsableContext(&state->context));
  CUSPAN_SOFT_RETURN_IF_ERROR(state->options.Read(count, names, values));
  *handle = AsHandle<CUlinkState>(driver->link_states.Add(state));
  return CUDA_SUCCESS;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuLinkAddData(CUlinkState handle, CUjitInputType type, void* data,
                                               std::size_t bytes, const char* name, unsigned count,
                                               CUjit_option* names, void** values) {
  JitOptions own;
  CUSPAN_SOFT_RETURN_IF_ERROR(own.Read(count, names, values));
  if (data == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  return WithState(handle, [&](Driver& driver, LinkState& state, std::string* why) {
    const CUresult result = AddInput(type, {static_cast<const std::uint8_t*>(data), bytes},
                                     driver.configuration.Capability(), state, why);
    if (!why->empty() && name != nullptr) *why = Format("{}: {}", name, *why);
    return result;
  });
}

CUSPAN_SOFT_API CUresult CUDAAPI cuLinkComplete(CUlinkState handle, void** image,
                                                std::size_t* bytes) {
  if (image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return WithState(handle, [&](Driver&, LinkState& state, std::string* why) {
    // A second completion fails (measured natively, driver 580).
    if (!state.image.empty()) return CUDA_ERROR_INVALID_HANDLE;
    CUSPAN_SOFT_RETURN_IF_ERROR(Link(state, why));
    *image = state.image.data();
    if (bytes != nullptr) *bytes = state.image.size();
    return CUDA_SUCCESS;
  });
}

CUSPAN_SOFT_API CUresult CUDAAPI cuLinkDestroy(CUlinkState handle) {
  CUSPAN_SOFT_ENTER(driver);
  return driver->link_states.Remove(Number(handle)) != nullptr ? CUDA_SUCCESS
                                                               : driver->InvalidHandle();
}

}  // namespace cuspan::softgpu
