// The contract between compiled kernels (emit/, jit/) and the code that runs
// them (rt/). Compiled code sees exactly what is declared here: the context of
// the thread that it executes and the runtime functions it may call.
//
// Execution models: one call of a KernelEntry executes one CUDA thread, or a warp
// of 32 lanes, from its first instruction to its exit. A kernel with needs_fibers
// runs each thread or warp on a fiber of its own, so that the runtime functions
// below may suspend it; all of a block run on one worker. A kernel without it is
// called in a plain loop over the block's threads or warps and calls none of the
// functions that may suspend.
//
// Addresses: global, constant and generic addresses are host addresses. A
// .shared address is an offset from ThreadContext::shared (static variables
// first, then dynamic shared memory); a .local address is a host address in
// the thread's own part of its stack frame, or its warp's.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cuspan::softgpu {

// What the beginning of a block's shared memory is a multiple of: the strictest alignment that a
// shared variable may ask for.
inline constexpr std::uint64_t kSharedAlignment = 1024;

// The copies of a .local variable that the lanes of a warp have are apart by its bytes and up to
// this part of them more.
inline constexpr std::uint64_t kLocalPadding = 8;

// What a compiled kernel knows of the thread or warp it executes. The offsets of these
// fields are part of the contract: the emitter reads them by offsetof.
struct ThreadContext {
  std::uint32_t tid[3];
  std::uint32_t ntid[3];
  std::uint32_t ctaid[3];
  std::uint32_t nctaid[3];
  std::uint32_t lane;          // 0 … 31; with `tid`, of a warp the lane that called the runtime.
  std::uint32_t warp;          // Within the block.
  std::uint8_t* shared;        // The block's shared memory.
  std::uint32_t shared_bytes;  // Static and dynamic together.
  std::uint32_t dynamic_shared_bytes;
  const std::uint8_t* params;  // The kernel's parameters, at their PTX offsets.
  std::uint64_t grid_id;
  std::uint32_t envreg[4];  // %envreg0 … 3.
  void* fiber;  // The runtime's own; compiled code passes the context on and never reads this.
  // Of a warp.
  std::uint32_t first_tid[3];  // Of lane 0.
  std::uint32_t lanes;         // Those that there are, one bit each.
};

using KernelEntry = void (*)(ThreadContext*);

enum class ShuffleMode : std::uint32_t { kUp, kDown, kButterfly, kIndex };
enum class VoteMode : std::uint32_t { kAll, kAny, kUniform, kBallot };
enum class BarrierReduction : std::uint32_t { kPopulation, kAnd, kOr };
enum class MatchMode : std::uint32_t { kAny, kAll };

// Of an access that cuspan_rt_check looks at, as bits.
inline constexpr std::uint32_t kCheckWrite = 1, kCheckShared = 2;
// An atomic, or an access that others may see in order: volatile, relaxed, acquire or release. By
// it the thread may learn what others did, or tell what it did itself: before its last fence, or
// all.
inline constexpr std::uint32_t kCheckStrong = 4, kCheckLearns = 8, kCheckTellsFenced = 16,
                               kCheckTellsAll = 32;
// Not compared with accesses of other threads: what asynchronous engines do, and what a warp's
// threads do together.
inline constexpr std::uint32_t kCheckAlone = 64;
// A volatile access: no order between the lanes of a warp comes from it.
inline constexpr std::uint32_t kCheckVolatile = 128;

extern "C" {

// --- May suspend the calling thread; only called by kernels with needs_fibers.

// bar.sync / barrier.sync `barrier`[, `threads`]; threads 0 means the whole block.
void cuspan_rt_barrier(ThreadContext*, std::uint32_t barrier, std::uint32_t threads);
// bar.arrive: counts the caller's warp in and goes on.
void cuspan_rt_barrier_arrive(ThreadContext*, std::uint32_t barrier, std::uint32_t threads);
// bar.red: a barrier that combines `predicate` (0 or 1) over the threads.
std::uint32_t cuspan_rt_barrier_reduce(ThreadContext*, std::uint32_t barrier, std::uint32_t threads,
                                       BarrierReduction, std::uint32_t predicate);
// bar.warp.sync.
void cuspan_rt_warp_sync(ThreadContext*, std::uint32_t member_mask);
// shfl.sync on 32 bits; `c` is PTX's packed clamp and segment mask.
// Writes 1 to *in_range when the source lane was in range, else 0 (then the caller's own value
// returns).
std::uint32_t cuspan_rt_shuffle(ThreadContext*, ShuffleMode, std::uint32_t value, std::uint32_t b,
                                std::uint32_t c, std::uint32_t member_mask,
                                std::uint32_t* in_range);
// vote.sync: 0 or 1, or the ballot.
std::uint32_t cuspan_rt_vote(ThreadContext*, VoteMode, std::uint32_t predicate,
                             std::uint32_t member_mask);
// match.sync; values of 32 bits come zero-extended. *all_equal is written for MatchMode::kAll.
std::uint32_t cuspan_rt_match(ThreadContext*, MatchMode, std::uint64_t value,
                              std::uint32_t member_mask, std::uint32_t* all_equal);
// redux.sync: `operation` is 0 add, 1 min signed, 2 max signed, 3 min unsigned, 4 max unsigned, 5
// and, 6 or, 7 xor.
std::uint32_t cuspan_rt_reduce(ThreadContext*, std::uint32_t operation, std::uint32_t value,
                               std::uint32_t member_mask);
// A matrix operation of the whole warp (rt/matrix.h, packed) on the registers of the caller's
// lane, the inputs one behind the other; the results take their place.
void cuspan_rt_matrix(ThreadContext*, std::uint64_t operation, std::uint32_t* registers);
// A spin loop's back edge, nanosleep: lets other threads of the block, then other blocks, run.
void cuspan_rt_yield(ThreadContext*);
// Before an access to memory, where threads take turns at these.
void cuspan_rt_interleave(ThreadContext*);
// The calling lane waits for the others of its warp. Returns when no lane of the warp can go on but
// by such a return, and no other waits at a lower place.
void cuspan_rt_reconverge(ThreadContext*, std::uint64_t place);
// exit from inside a called function. Does not return.
void cuspan_rt_exit(ThreadContext*);

// The same for a warp: `lanes` arrive together. `votes` are the lanes whose predicate is true.
void cuspan_rt_warp_barrier(ThreadContext*, std::uint32_t barrier, std::uint32_t threads,
                            std::uint32_t lanes);
void cuspan_rt_warp_barrier_arrive(ThreadContext*, std::uint32_t barrier, std::uint32_t threads,
                                   std::uint32_t lanes);
std::uint32_t cuspan_rt_warp_barrier_reduce(ThreadContext*, std::uint32_t barrier,
                                            std::uint32_t threads, BarrierReduction,
                                            std::uint32_t lanes, std::uint32_t votes);

// --- Never suspend; any kernel may call them.

// What a warp's code calls before a function that speaks for one thread: sets lane and tid.
void cuspan_rt_select_lane(ThreadContext*, std::uint32_t lane);
// match.sync and redux.sync for the lanes of `active`, each with the member mask of its own;
// arrays of 32.
void cuspan_rt_warp_match(MatchMode, std::uint32_t active, const std::uint64_t* values,
                          const std::uint32_t* members, std::uint32_t* results,
                          std::uint32_t* all_equal);
void cuspan_rt_warp_reduce(std::uint32_t operation, std::uint32_t active,
                           const std::uint32_t* values, const std::uint32_t* members,
                           std::uint32_t* results);

// The same with the registers of all 32 lanes: word i of a lane is registers[32 * i + lane].
void cuspan_rt_matrix_warp(std::uint64_t operation, std::uint32_t* registers);
// A texture or surface instruction (rt/image_operation.h, packed) for the lanes of `mask`; word i
// of a lane is words[lanes * i + lane].
void cuspan_rt_image(ThreadContext*, std::uint64_t operation, std::uint32_t mask,
                     std::uint32_t* words, std::uint32_t lanes);
// A copy by a tensor map (rt/tensor_operation.h) of one thread, with kTensorWords words. Returns
// how many bytes the box has.
std::uint32_t cuspan_rt_tensor_copy(ThreadContext*, std::uint32_t operation, const void* map,
                                    const std::int32_t* words, std::uint8_t* shared);
// tensormap.replace of a TensorField (rt/tensor_operation.h) of the map at `map`.
void cuspan_rt_tensor_replace(ThreadContext*, void* map, std::uint32_t field, std::uint32_t ordinal,
                              std::uint64_t value);
// cp.reduce.async.bulk of `bytes` bytes: an Element and a Reduction that it has (rt/element.h).
void cuspan_rt_bulk_reduce(ThreadContext*, std::uint32_t element, std::uint32_t reduction,
                           std::uint8_t* to, const std::uint8_t* from, std::uint32_t bytes);
// The lanes of the caller's warp that have not exited. (activemask)
std::uint32_t cuspan_rt_active_mask(ThreadContext*);
// A kernel that ends here with a sticky error of the driver (trap: 719, illegal instruction: 715,
// …). `what` names the reason for the log; may be null. Does not return.
void cuspan_rt_fault(ThreadContext*, std::uint32_t driver_error, const char* what);
// In checking mode, before an access of `bytes` bytes at `address`, a multiple of `alignment`:
// returns when the thread may make it, else faults. `where` names kernel, line and instruction.
void cuspan_rt_check(ThreadContext*, const void* address, std::uint64_t bytes,
                     std::uint32_t alignment, std::uint32_t kind, const char* where);
// In checking mode, at a fence.
void cuspan_rt_check_fence(ThreadContext*);
// The device-side functions that nvcc's code calls by name.
std::uint32_t cuspan_rt_vprintf(ThreadContext*, const char* format, const void* arguments);
void cuspan_rt_assert_fail(ThreadContext*, const char* message, const char* file,
                           std::uint32_t line, const char* function, std::uint64_t char_size);
void* cuspan_rt_malloc(ThreadContext*, std::uint64_t bytes);
void cuspan_rt_free(ThreadContext*, void* memory);
// The device runtime that launches kernels; errors are numbers of cudaError_t. What a thread
// launches begins when its grid is through, one after another, so that streams and events need
// nothing but to exist.
void* cuspan_rt_launch_buffer(ThreadContext*, const void* kernel, const std::uint32_t* grid,
                              const std::uint32_t* block, std::uint32_t shared_bytes);
std::uint32_t cuspan_rt_launch(ThreadContext*, void* arguments, std::uint64_t stream);
std::uint32_t cuspan_rt_make_handle(ThreadContext*, void** handle, std::uint32_t flags);
std::uint32_t cuspan_rt_drop_handle(ThreadContext*, void* handle);
std::uint32_t cuspan_rt_record(ThreadContext*, void* event, void* stream);
std::uint32_t cuspan_rt_wait_event(ThreadContext*, void* stream, void* event, std::uint32_t flags);
std::uint32_t cuspan_rt_copy(ThreadContext*, void* to, const void* from, std::uint64_t bytes,
                             std::uint32_t kind, void* stream);
std::uint32_t cuspan_rt_set(ThreadContext*, void* to, std::uint32_t value, std::uint64_t bytes,
                            void* stream);
std::uint32_t cuspan_rt_take_error(ThreadContext*);
std::uint32_t cuspan_rt_peek_error(ThreadContext*);
const char* cuspan_rt_error_name(ThreadContext*, std::uint32_t error);
const char* cuspan_rt_error_string(ThreadContext*, std::uint32_t error);
std::uint32_t cuspan_rt_cuda_malloc(ThreadContext*, void** memory, std::uint64_t bytes);
std::uint32_t cuspan_rt_cuda_free(ThreadContext*, void* memory);
// Sets a condition of the graph that the kernel is part of; any other handle is a fault.
void cuspan_rt_set_condition(ThreadContext*, std::uint64_t handle, std::uint32_t value);
// 1 when `address` lies in the thread's own stack, where its .local memory is; else 0.
std::uint32_t cuspan_rt_is_local(ThreadContext*, std::uint64_t address);
// %clock64 and %globaltimer: nanoseconds of the device's clock.
std::uint64_t cuspan_rt_clock(ThreadContext*);

}  // extern "C"

// Name and address of every function above, for the JIT's symbol table. Defined in rt/symbols.cc.
struct RuntimeSymbol {
  const char* name;
  void* address;
};
extern const RuntimeSymbol kRuntimeSymbols[];
extern const std::size_t kRuntimeSymbolCount;

}  // namespace cuspan::softgpu
