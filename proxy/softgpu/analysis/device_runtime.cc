#include "proxy/softgpu/analysis/device_runtime.h"

namespace cuspan::softgpu::analysis {
namespace {

// Declared in the toolkit's cuda_device_runtime_api.h. The names are __cudaCDP2… since nvcc 12, and
// …_ptsz in code for per-thread default streams.
constexpr RuntimeFunction kFunctions[] = {
    {"vprintf", "cuspan_rt_vprintf", "pp", 'w'},
    {"__assertfail", "cuspan_rt_assert_fail", "ppwpl", 'v'},
    {"malloc", "cuspan_rt_malloc", "l", 'p'},
    {"free", "cuspan_rt_free", "p", 'v'},
    {"__cudaCDP2GetParameterBufferV2", "cuspan_rt_launch_buffer", "pddw", 'p'},
    {kDeviceLaunch, "cuspan_rt_launch", "pl", 'w'},
    {"__cudaCDP2LaunchDeviceV2_ptsz", "cuspan_rt_launch", "pl", 'w'},
    {"__cudaCDP2StreamCreateWithFlags", "cuspan_rt_make_handle", "pw", 'w'},
    {"__cudaCDP2StreamDestroy", "cuspan_rt_drop_handle", "p", 'w'},
    {"__cudaCDP2EventCreateWithFlags", "cuspan_rt_make_handle", "pw", 'w'},
    {"__cudaCDP2EventDestroy", "cuspan_rt_drop_handle", "p", 'w'},
    {"__cudaCDP2EventRecord", "cuspan_rt_record", "pp", 'w'},
    {"__cudaCDP2EventRecord_ptsz", "cuspan_rt_record", "pp", 'w'},
    {"__cudaCDP2StreamWaitEvent", "cuspan_rt_wait_event", "ppw", 'w'},
    {"__cudaCDP2StreamWaitEvent_ptsz", "cuspan_rt_wait_event", "ppw", 'w'},
    {"__cudaCDP2MemcpyAsync", "cuspan_rt_copy", "pplwp", 'w'},
    {"__cudaCDP2MemcpyAsync_ptsz", "cuspan_rt_copy", "pplwp", 'w'},
    {"__cudaCDP2MemsetAsync", "cuspan_rt_set", "pwlp", 'w'},
    {"__cudaCDP2MemsetAsync_ptsz", "cuspan_rt_set", "pwlp", 'w'},
    {"__cudaCDP2GetLastError", "cuspan_rt_take_error", "", 'w'},
    {"__cudaCDP2PeekAtLastError", "cuspan_rt_peek_error", "", 'w'},
    {"__cudaCDP2GetErrorName", "cuspan_rt_error_name", "w", 'p'},
    {"__cudaCDP2GetErrorString", "cuspan_rt_error_string", "w", 'p'},
    {"__cudaCDP2Malloc", "cuspan_rt_cuda_malloc", "pl", 'w'},
    {"__cudaCDP2Free", "cuspan_rt_cuda_free", "p", 'w'},
    {"cudaGraphSetConditional", "cuspan_rt_set_condition", "lw", 'v'},
};

}  // namespace

const RuntimeFunction* FindRuntimeFunction(std::string_view name) {
  for (const RuntimeFunction& function : kFunctions)
    if (function.name == name) return &function;
  return nullptr;
}

bool IsOfDeviceRuntime(std::string_view name) {
  return FindRuntimeFunction(name) != nullptr || name.starts_with("__cuda") ||
         name.starts_with("cuda") || name.starts_with("__nv_ptx_builtin_");
}

bool UsesPrintBuffer(std::string_view name) { return name == "vprintf"; }

bool UsesHeap(std::string_view name) {
  return name == "malloc" || name == "free" || name == "__cudaCDP2Malloc" ||
         name == "__cudaCDP2Free";
}

}  // namespace cuspan::softgpu::analysis
