// Interface between compiled kernels (emit/, jit/) and the runtime executing them (rt/). Compiled
// code uses only the declarations here: the context of its thread, and the runtime functions.
//
// Execution models: one call of a KernelEntry executes one CUDA thread, or a warp of 32 lanes, from
// its first instruction to its exit. If a kernel has needs_fibers, each thread or warp runs on its
// own fiber, so that the runtime functions below may suspend it. All fibers of a block run on one
// worker. Otherwise the kernel is called in a plain loop over the block's threads or warps. It then
// calls none of the functions that may suspend.
//
// Addresses: global, constant and generic addresses are host addresses. A .shared address is an
// offset from ThreadContext::shared (static variables first, then dynamic shared memory). A .local
// address is a host address in the part of the stack frame owned by its thread or warp.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cuspan::softgpu {

// Alignment of a block's shared memory: the strictest one a shared variable may request.
inline constexpr std::uint64_t kSharedAlignment = 1024;

// Maximum padding between the lanes' copies of a .local variable, as a divisor of its size.
inline constexpr std::uint64_t kLocalPadding = 8;

// State of the thread or warp being executed. The field offsets are part of the interface: the
// emitter reads them by offsetof.
struct ThreadContext {
  std::uint32_t tid[3];
  std::uint32_t ntid[3];
  std::uint32_t ctaid[3];
  std::uint32_t nctaid[3];
  std::uint32_t lane;          // 0 … 31. For a warp: the lane calling the runtime, as `tid`.
  std::uint32_t warp;          // Index within the block.
  std::uint8_t* shared;        // The block's shared memory.
  std::uint32_t shared_bytes;  // Static and dynamic together.
  std::uint32_t dynamic_shared_bytes;
  const std::uint8_t* params;  // The kernel's parameters, at their PTX offsets.
  std::uint64_t grid_id;
  std::uint32_t envreg[4];  // %envreg0 … 3.
  void* fiber;              // Used by the runtime only. Compiled code passes it on unread.
  // --- Warps only
  std::uint32_t first_tid[3];  // `tid` of lane 0.
  std::uint32_t lanes;         // Existing lanes, one bit each.
};

using KernelEntry = void (*)(ThreadContext*);

enum class ShuffleMode : std::uint32_t { kUp, kDown, kButterfly, kIndex };
enum class VoteMode : std::uint32_t { kAll, kAny, kUniform, kBallot };
enum class BarrierReduction : std::uint32_t { kPopulation, kAnd, kOr };
enum class MatchMode : std::uint32_t { kAny, kAll };

// Flags of an access, for cuspan_rt_check.
inline constexpr std::uint32_t kCheckWrite = 1, kCheckShared = 2;
// Strong: an atomic, or a volatile, relaxed, acquire or release access. Learns: may order the
// thread after others' accesses. Tells: may order others after this thread's accesses, those before
// its last fence or all.
inline constexpr std::uint32_t kCheckStrong = 4, kCheckAcquires = 8, kCheckReleasesFenced = 16,
                               kCheckReleasesAll = 32;
// Not compared with accesses of other threads: accesses of asynchronous engines, and joint accesses
// of a warp's threads.
inline constexpr std::uint32_t kCheckAlone = 64;
// A volatile access. It creates no order between the lanes of a warp.
inline constexpr std::uint32_t kCheckVolatile = 128;

extern "C" {

// --- May suspend the calling thread; only called by kernels with needs_fibers.

// bar.sync / barrier.sync `barrier`[, `threads`]; threads 0 means the whole block.
void cuspan_rt_barrier(ThreadContext*, std::uint32_t barrier, std::uint32_t threads);
// bar.arrive: counts the caller's warp without waiting.
void cuspan_rt_barrier_arrive(ThreadContext*, std::uint32_t barrier, std::uint32_t threads);
// bar.red: a barrier combining `predicate` (0 or 1) of the threads.
std::uint32_t cuspan_rt_barrier_reduce(ThreadContext*, std::uint32_t barrier, std::uint32_t threads,
                                       BarrierReduction, std::uint32_t predicate);
// bar.warp.sync.
void cuspan_rt_warp_sync(ThreadContext*, std::uint32_t member_mask);
// shfl.sync on 32 bits; `c` is PTX's packed clamp and segment mask. Writes 1 to *in_range if the
// source lane is in range. Else writes 0 and returns the caller's own value.
std::uint32_t cuspan_rt_shuffle(ThreadContext*, ShuffleMode, std::uint32_t value, std::uint32_t b,
                                std::uint32_t c, std::uint32_t member_mask,
                                std::uint32_t* in_range);
// vote.sync: returns 0 or 1, or the ballot.
std::uint32_t cuspan_rt_vote(ThreadContext*, VoteMode, std::uint32_t predicate,
                             std::uint32_t member_mask);
// match.sync; 32-bit values are passed zero-extended. *all_equal is written for MatchMode::kAll.
std::uint32_t cuspan_rt_match(ThreadContext*, MatchMode, std::uint64_t value,
                              std::uint32_t member_mask, std::uint32_t* all_equal);
// redux.sync: `operation` is 0 add, 1 min signed, 2 max signed, 3 min unsigned, 4 max unsigned, 5
// and, 6 or, 7 xor.
std::uint32_t cuspan_rt_reduce(ThreadContext*, std::uint32_t operation, std::uint32_t value,
                               std::uint32_t member_mask);
// Matrix operation of the whole warp (rt/matrix.h, packed) on the registers of the caller's lane.
// The inputs are in sequence; the results overwrite them.
void cuspan_rt_matrix(ThreadContext*, std::uint64_t operation, std::uint32_t* registers);
// Back edge of a spin loop, or nanosleep: lets other threads of the block, then other blocks, run.
void cuspan_rt_yield(ThreadContext*);
// Called before a memory access, if threads are interleaved at these.
void cuspan_rt_interleave(ThreadContext*);
// Makes the calling lane wait for the others of its warp. Returns when no lane of the warp can
// continue otherwise, and no other waits at a lower place.
void cuspan_rt_reconverge(ThreadContext*, std::uint64_t place);
// exit inside a called function. Does not return.
void cuspan_rt_exit(ThreadContext*);

// Same for a warp: `lanes` arrive together. `votes`: lanes with a true predicate.
void cuspan_rt_warp_barrier(ThreadContext*, std::uint32_t barrier, std::uint32_t threads,
                            std::uint32_t lanes);
void cuspan_rt_warp_barrier_arrive(ThreadContext*, std::uint32_t barrier, std::uint32_t threads,
                                   std::uint32_t lanes);
std::uint32_t cuspan_rt_warp_barrier_reduce(ThreadContext*, std::uint32_t barrier,
                                            std::uint32_t threads, BarrierReduction,
                                            std::uint32_t lanes, std::uint32_t votes);

// --- Never suspend; any kernel may call them.

// Sets lane and tid. Called by a warp's code before functions working for one thread.
void cuspan_rt_select_lane(ThreadContext*, std::uint32_t lane);
// match.sync and redux.sync for the lanes of `active`. Each lane has its own member mask; arrays
// have 32 elements.
void cuspan_rt_warp_match(MatchMode, std::uint32_t active, const std::uint64_t* values,
                          const std::uint32_t* members, std::uint32_t* results,
                          std::uint32_t* all_equal);
void cuspan_rt_warp_reduce(std::uint32_t operation, std::uint32_t active,
                           const std::uint32_t* values, const std::uint32_t* members,
                           std::uint32_t* results);

// cuspan_rt_matrix for the registers of all lanes: word i of a lane is registers[32 * i + lane].
void cuspan_rt_matrix_warp(std::uint64_t operation, std::uint32_t* registers);
// A texture or surface instruction (rt/image_operation.h, packed) for the lanes of `mask`; word i
// of a lane is words[lanes * i + lane].
void cuspan_rt_image(ThreadContext*, std::uint64_t operation, std::uint32_t mask,
                     std::uint32_t* words, std::uint32_t lanes);
// Copy by a tensor map (rt/tensor_operation.h) of one thread, with kTensorWords words. Returns the
// bytes of the box.
std::uint32_t cuspan_rt_tensor_copy(ThreadContext*, std::uint32_t operation, const void* map,
                                    const std::int32_t* words, std::uint8_t* shared);
// tensormap.replace of a TensorField (rt/tensor_operation.h) of the map at `map`.
void cuspan_rt_tensor_replace(ThreadContext*, void* map, std::uint32_t field, std::uint32_t ordinal,
                              std::uint64_t value);
// cp.reduce.async.bulk of `bytes` bytes, with an Element and one of its Reductions (rt/element.h).
void cuspan_rt_bulk_reduce(ThreadContext*, std::uint32_t element, std::uint32_t reduction,
                           std::uint8_t* to, const std::uint8_t* from, std::uint32_t bytes);
// Lanes of the caller's warp not yet exited. (activemask)
std::uint32_t cuspan_rt_active_mask(ThreadContext*);
// Ends the kernel with a sticky driver error (trap: 719, illegal instruction: 715, …). `what`:
// reason for the log, or null. Does not return.
void cuspan_rt_fault(ThreadContext*, std::uint32_t driver_error, const char* what);
// Checking mode: called before an access of `bytes` bytes at `address`, a multiple of `alignment`.
// Returns if the thread may make it, else faults. `where` names kernel, line and instruction.
void cuspan_rt_check(ThreadContext*, const void* address, std::uint64_t bytes,
                     std::uint32_t alignment, std::uint32_t kind, const char* where);
// Checking mode: called at a fence.
void cuspan_rt_check_fence(ThreadContext*);
// Device-side functions called by name in nvcc's code.
std::uint32_t cuspan_rt_vprintf(ThreadContext*, const char* format, const void* arguments);
void cuspan_rt_assert_fail(ThreadContext*, const char* message, const char* file,
                           std::uint32_t line, const char* function, std::uint64_t char_size);
void* cuspan_rt_malloc(ThreadContext*, std::uint64_t bytes);
void cuspan_rt_free(ThreadContext*, void* memory);
// Device runtime for launching kernels; errors are numbers of cudaError_t. Launches of a thread
// start one after another once its grid has finished. Streams and events therefore only need to
// exist.
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
// Sets a condition of the graph containing the kernel; any other handle is a fault.
void cuspan_rt_set_condition(ThreadContext*, std::uint64_t handle, std::uint32_t value);
// Returns 1 if `address` is in the thread's own stack, the location of its .local memory; else 0.
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
