// Table of the runtime functions for the JIT.
#include "proxy/softgpu/rt/abi.h"

namespace cuspan::softgpu {

#define CUSPAN_RT_SYMBOL(name) \
  RuntimeSymbol { #name, reinterpret_cast<void*>(&name) }

const RuntimeSymbol kRuntimeSymbols[] = {
    CUSPAN_RT_SYMBOL(cuspan_rt_barrier),
    CUSPAN_RT_SYMBOL(cuspan_rt_barrier_arrive),
    CUSPAN_RT_SYMBOL(cuspan_rt_barrier_reduce),
    CUSPAN_RT_SYMBOL(cuspan_rt_warp_sync),
    CUSPAN_RT_SYMBOL(cuspan_rt_shuffle),
    CUSPAN_RT_SYMBOL(cuspan_rt_vote),
    CUSPAN_RT_SYMBOL(cuspan_rt_match),
    CUSPAN_RT_SYMBOL(cuspan_rt_reduce),
    CUSPAN_RT_SYMBOL(cuspan_rt_yield),
    CUSPAN_RT_SYMBOL(cuspan_rt_interleave),
    CUSPAN_RT_SYMBOL(cuspan_rt_reconverge),
    CUSPAN_RT_SYMBOL(cuspan_rt_exit),
    CUSPAN_RT_SYMBOL(cuspan_rt_active_mask),
    CUSPAN_RT_SYMBOL(cuspan_rt_fault),
    CUSPAN_RT_SYMBOL(cuspan_rt_vprintf),
    CUSPAN_RT_SYMBOL(cuspan_rt_assert_fail),
    CUSPAN_RT_SYMBOL(cuspan_rt_malloc),
    CUSPAN_RT_SYMBOL(cuspan_rt_free),
    CUSPAN_RT_SYMBOL(cuspan_rt_warp_barrier),
    CUSPAN_RT_SYMBOL(cuspan_rt_warp_barrier_arrive),
    CUSPAN_RT_SYMBOL(cuspan_rt_warp_barrier_reduce),
    CUSPAN_RT_SYMBOL(cuspan_rt_select_lane),
    CUSPAN_RT_SYMBOL(cuspan_rt_warp_match),
    CUSPAN_RT_SYMBOL(cuspan_rt_warp_reduce),
    CUSPAN_RT_SYMBOL(cuspan_rt_is_local),
    CUSPAN_RT_SYMBOL(cuspan_rt_clock),
    CUSPAN_RT_SYMBOL(cuspan_rt_matrix),
    CUSPAN_RT_SYMBOL(cuspan_rt_matrix_warp),
    CUSPAN_RT_SYMBOL(cuspan_rt_image),
    CUSPAN_RT_SYMBOL(cuspan_rt_tensor_copy),
    CUSPAN_RT_SYMBOL(cuspan_rt_tensor_replace),
    CUSPAN_RT_SYMBOL(cuspan_rt_bulk_reduce),
    CUSPAN_RT_SYMBOL(cuspan_rt_check),
    CUSPAN_RT_SYMBOL(cuspan_rt_check_fence),
    CUSPAN_RT_SYMBOL(cuspan_rt_launch_buffer),
    CUSPAN_RT_SYMBOL(cuspan_rt_launch),
    CUSPAN_RT_SYMBOL(cuspan_rt_make_handle),
    CUSPAN_RT_SYMBOL(cuspan_rt_drop_handle),
    CUSPAN_RT_SYMBOL(cuspan_rt_record),
    CUSPAN_RT_SYMBOL(cuspan_rt_wait_event),
    CUSPAN_RT_SYMBOL(cuspan_rt_copy),
    CUSPAN_RT_SYMBOL(cuspan_rt_set),
    CUSPAN_RT_SYMBOL(cuspan_rt_take_error),
    CUSPAN_RT_SYMBOL(cuspan_rt_peek_error),
    CUSPAN_RT_SYMBOL(cuspan_rt_error_name),
    CUSPAN_RT_SYMBOL(cuspan_rt_error_string),
    CUSPAN_RT_SYMBOL(cuspan_rt_cuda_malloc),
    CUSPAN_RT_SYMBOL(cuspan_rt_cuda_free),
    CUSPAN_RT_SYMBOL(cuspan_rt_set_condition),
};
const std::size_t kRuntimeSymbolCount = sizeof(kRuntimeSymbols) / sizeof(kRuntimeSymbols[0]);

#undef CUSPAN_RT_SYMBOL

}  // namespace cuspan::softgpu
