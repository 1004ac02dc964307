// Executes one block of a launch on one worker thread.
//
// What follows is said of threads and holds for warps where one call executes a
// warp: these are then started, suspended and counted in their place.
//
// A kernel that never suspends runs as a loop over the block's threads, on one
// stack. Otherwise each thread gets a fiber, started when nothing else can go
// on; a thread that ends without ever waiting leaves its stack to the next.
// Threads run one at a time and go on until they wait, so a block needs no
// locks. A Block that executes several blocks of one launch, one after the other,
// keeps its threads' stacks and what is the same in their contexts. When no thread can go on: the
// block is finished, or all threads that are left yielded (the worker may run something else), or
// they wait for what never comes, which is an error of the launch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "proxy/softgpu/rt/barrier.h"
#include "proxy/softgpu/rt/fiber.h"
#include "proxy/softgpu/rt/launch.h"
#include "proxy/softgpu/rt/pool.h"
#include "proxy/softgpu/rt/races.h"
#include "proxy/softgpu/rt/unit_set.h"
#include "proxy/softgpu/rt/warp.h"

namespace cuspan::softgpu {

// One CUDA thread, or warp. Aligned so that all that a switch touches is one cache line.
struct alignas(64) Fiber {
  ThreadContext context;
  Execution execution;
  Block* block = nullptr;
  Stack* stack = nullptr;  // Kept from block to block of a launch; perhaps another thread's before.
  std::uint32_t unit = 0;  // Its number in the block.
  std::uint32_t barrier_result[3] = {0, 0, 0};  // By BarrierReduction; of bar.red only.
  // An odd number of cache lines: what a switch touches lies in all sets of the cache.
  std::uint8_t unused[64];

  std::uint32_t warp() const { return unit / kWarpLanes; }  // Of a thread.
  std::uint32_t lane() const { return unit % kWarpLanes; }
};
static_assert(offsetof(Fiber, context) == 0 && sizeof(ThreadContext) % 64 == 0 &&
              sizeof(Execution) + 2 * sizeof(void*) + sizeof(std::uint32_t) <= 64 &&
              sizeof(Fiber) % 128 == 64);

class Block;
// The block whose threads the calling worker runs. What a barrier needs is found from here,
// not from the thread that calls: the processor can then begin a switch while it still waits
// for the memory of the one before.
extern constinit __attribute__((tls_model("initial-exec"))) thread_local Block* t_running_block;

class Block : public Resident {
 public:
  Block() = default;
  ~Block() override;

  // Executes block `index` of `launch` until it ends or yields; true when it
  // ended. Errors go to launch.errors.
  bool Start(Worker& worker, const Launch& launch, std::uint64_t index);
  // Executes the blocks from `index` to `end` of a launch without needs_fibers to their ends.
  void Execute(Worker& worker, const Launch& launch, std::uint64_t index, std::uint64_t end);
  bool Resume(Worker& worker) override;
  void Release(Worker& worker) override;

  // --- Called on a fiber, by the runtime functions of abi.h.

  // bar.sync for the whole block, of the running thread or warp.
  void SyncAll(std::uint32_t barrier);
  void SyncAllWarps(std::uint32_t barrier);
  // `reduces`: it is a bar.red; its result is then in self->barrier_result.
  void SyncBarrier(Fiber* self, std::uint32_t barrier, std::uint32_t threads, bool reduces,
                   bool predicate);
  void ArriveBarrier(Fiber* self, std::uint32_t barrier, std::uint32_t threads);
  // Of a warp: `lanes` come to the barrier, `votes` of them with a true predicate.
  void SyncWarpBarrier(Fiber* self, std::uint32_t barrier, std::uint32_t threads, bool reduces,
                       std::uint32_t lanes, std::uint32_t votes);
  void ArriveWarpBarrier(Fiber* self, std::uint32_t barrier, std::uint32_t threads);
  // Lets the context speak for one lane of its warp.
  void SelectLane(ThreadContext* context, std::uint32_t lane) const;
  // The running thread waits for the others of its warp (cuspan_rt_reconverge).
  void Reconverge(std::uint64_t place);
  LaneResult Meet(Fiber* self, const CollectiveCall& call);
  void Yield(Fiber* self);
  // Before an access to memory, where threads take turns at these.
  void Interleave(Fiber* self);
  [[noreturn]] void Exit(Fiber* self);
  // Ends the block and poisons the context.
  [[noreturn]] void Abandon(Fiber* self, CUresult error, std::string what);
  // Calls `function(argument)` on a larger stack, where faults are the kernel's still.
  void CallOutside(Fiber* self, void (*function)(void*), void* argument);

  const Launch& launch() const { return *launch_; }
  bool suspends() const { return launch_->compiled.needs_fibers; }
  FaultGuard& guard() { return worker_->guard(); }
  // Null unless races are looked for.
  BlockRaces* races() { return races_.get(); }
  // Text in the making; kept by the block, so that nothing leaks when its maker faults.
  std::string& scratch() { return scratch_; }

 private:
  bool Begin(Worker& worker, const Launch& launch, std::uint64_t index);
  bool Prepare(Worker& worker, const Launch& launch, std::uint64_t index);
  // The part that is the same for all blocks of a launch.
  bool PrepareLaunch();
  bool PrepareShared();
  void SetIndex(std::uint64_t index);
  // Of a fiber's context: all; what changes from block to block.
  void FillContext(Fiber& fiber, std::uint32_t unit);
  void RenewContext(Fiber& fiber);
  void Finish();
  bool Run();
  void HandleFault();
  void Fail(CUresult error, std::string what);
  std::string Where(const Fiber* fiber) const;
  // The same when it is not known which lane of a warp it was.
  std::string Whereabouts(const Fiber* fiber) const;
  std::string Waiting() const;
  void GiveStacks();
  [[noreturn]] void RunLoop(Fiber& fiber);

  // The next thread to run: one that was woken, or, on the worker's own stack
  // only, the next not yet started; null when there is none.
  Fiber* PickReady();
  std::uint32_t PickReadyUnit();
  Fiber* StartNext();
  Fiber& NextUnit();
  // Lets another run; returns when `self`, the running one, is woken and picked.
  void Suspend(Fiber* self);
  void SetCurrent(Fiber* fiber, std::uint32_t unit) {
    current_ = fiber;
    current_unit_ = unit;
  }
  void Wake(std::uint32_t warp, std::uint32_t lanes, const Fiber* except);
  void Complete(Barrier& barrier, std::uint32_t number, Fiber* self);
  void BeginRaces();
  void BeginOrder(std::uint64_t seed);
  std::uint32_t Random();
  // Ends the running thread's block when its launch has failed elsewhere.
  void LeaveIfCancelled();
  // Those that came know of each other, of each as far as it came.
  // Barriers are places below kBarriers, where no memory is.
  void NoteArrival(const Fiber* self, std::uint32_t number);
  void NoteBarrier(const Barrier& barrier, std::uint32_t number, const Fiber* self);
  void NoteMeeting(std::uint32_t warp, std::uint32_t lanes);
  // From the short form of a barrier to the general one.
  void Generalise(std::uint32_t barrier);
  void CheckMeetings(std::uint32_t warp, const Fiber* self);
  void ThreadEnded(Fiber* self);
  void CheckBarrierNumber(Fiber* self, std::uint32_t barrier, std::uint32_t threads) {
    if (barrier >= kBarriers || threads % kWarpLanes != 0) RefuseBarrier(self, barrier, threads);
  }
  [[noreturn]] void RefuseBarrier(Fiber* self, std::uint32_t barrier, std::uint32_t threads);

  static void* FiberMain(void* fiber);
  static void* LoopMain(void* fiber);

  Warp& WarpOf(const Fiber* fiber) { return warps_[fiber->warp()]; }

  Worker* worker_ = nullptr;
  const Launch* launch_ = nullptr;
  std::uint64_t serial_ = 0;  // Of the launch that it is prepared for.
  std::uint64_t index_ = 0;
  std::uint64_t end_ = 0;  // One past the last that is executed in one go.
  std::uint32_t ctaid_[3] = {0, 0, 0};
  // Of a launch with warps: where each begins.
  std::array<std::array<std::uint32_t, 3>, kMaxBlockThreads / kWarpLanes> first_tids_;
  std::uint32_t threads_ = 0;
  std::uint32_t units_ = 0;          // Calls of the kernel's entry: threads, or warps.
  std::uint32_t prepared_ = 0;       // Units whose contexts were filled for this launch.
  std::uint32_t started_ = 0;        // Units that have been given a stack; all in loop mode.
  std::uint32_t alive_ = 0;          // Units that have not ended.
  std::uint32_t warps_alive_ = 0;    // Warps with such threads.
  std::uint32_t barriers_used_ = 0;  // One bit each: only these need a look when a thread ends.
  bool failed_ = false;
  CUresult error_ = CUDA_SUCCESS;  // Of a failure that is this block's own.
  std::string message_;
  Fiber* current_ = nullptr;  // The thread that runs, or ran last.
  std::uint32_t current_unit_ = 0;
  UnitSet ready_, yielded_;

  void (*outside_)(void*) = nullptr;  // What CallOutside asks for.
  void* outside_argument_ = nullptr;
  std::string scratch_;

  std::unique_ptr<BlockRaces> races_;
  std::uint64_t random_ = 0;  // Of a launch whose threads have a random order.
  bool took_turn_ = false;    // A thread has let others get on that might have gone on itself.

  std::array<Barrier, kBarriers> barriers_;
  // The short form, of what warps do most: which of them wait at a barrier for all of the block.
  // Empty while the general form is in use.
  std::array<std::uint32_t, kBarriers> everyone_{};
  std::array<Warp, kMaxBlockThreads / kWarpLanes> warps_;
  std::vector<Fiber> fibers_;

  std::uint8_t* shared_mapping_ = nullptr;  // Ends with an inaccessible page.
  std::size_t shared_capacity_ = 0;
  std::uint8_t* shared_ = nullptr;
};

}  // namespace cuspan::softgpu
