// Executes one block of a launch on one worker thread.
//
// The comments speak of threads. If one call executes a warp, warps are started, suspended and
// counted instead.
//
// A kernel without suspension runs as a loop over the block's threads, on one stack. Otherwise each
// thread gets a fiber, started when no other can continue. A thread ending without a wait leaves
// its stack to the next. Threads run one at a time until they wait, so a block needs no locks. A
// Block may execute several blocks of one launch, one after the other. It then keeps its threads'
// stacks and the common parts of their contexts.
//
// If no thread can continue, there are three cases: the block is finished; all threads left have
// yielded (the worker may run something else); or they wait forever, an error of the launch.
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

// One CUDA thread, or warp. Aligned so that a switch touches only one cache line.
struct alignas(64) Fiber {
  ThreadContext context;
  Execution execution;
  Block* block = nullptr;
  Stack* stack = nullptr;  // Kept between blocks of a launch; perhaps from another thread.
  std::uint32_t unit = 0;  // Index in the block.
  std::uint32_t barrier_result[3] = {0, 0, 0};  // Indexed by BarrierReduction; bar.red only.
  // Padding to an odd number of cache lines: data touched by switches uses all cache sets.
  std::uint8_t unused[64];

  std::uint32_t warp() const { return unit / kWarpLanes; }  // Threads only.
  std::uint32_t lane() const { return unit % kWarpLanes; }
};
static_assert(offsetof(Fiber, context) == 0 && sizeof(ThreadContext) % 64 == 0 &&
              sizeof(Execution) + 2 * sizeof(void*) + sizeof(std::uint32_t) <= 64 &&
              sizeof(Fiber) % 128 == 64);

class Block;
// Block run by the calling worker. Barriers find their data from here, not from the calling thread.
// The processor can thus begin a switch while still waiting for the memory of the previous one.
extern constinit __attribute__((tls_model("initial-exec"))) thread_local Block* t_running_block;

class Block : public Resident {
 public:
  Block() = default;
  ~Block() override;

  // Executes block `index` of `launch` until it ends or yields. True if it has ended. Errors go to
  // launch.errors.
  bool Start(Worker& worker, const Launch& launch, std::uint64_t index);
  // Executes the blocks from `index` to `end` of a launch without needs_fibers to completion.
  void Execute(Worker& worker, const Launch& launch, std::uint64_t index, std::uint64_t end);
  bool Resume(Worker& worker) override;
  void Release(Worker& worker) override;

  // --- Called on a fiber, by the runtime functions of abi.h.

  // bar.sync of the running thread or warp, for the whole block.
  void SyncAll(std::uint32_t barrier);
  void SyncAllWarps(std::uint32_t barrier);
  // `reduces`: true for bar.red; its result is then in self->barrier_result.
  void SyncBarrier(Fiber* self, std::uint32_t barrier, std::uint32_t threads, bool reduces,
                   bool predicate);
  void ArriveBarrier(Fiber* self, std::uint32_t barrier, std::uint32_t threads);
  // Same for a warp: `lanes` arrive, `votes` of them with a true predicate.
  void SyncWarpBarrier(Fiber* self, std::uint32_t barrier, std::uint32_t threads, bool reduces,
                       std::uint32_t lanes, std::uint32_t votes);
  void ArriveWarpBarrier(Fiber* self, std::uint32_t barrier, std::uint32_t threads);
  // Sets the context to one lane of its warp.
  void SelectLane(ThreadContext* context, std::uint32_t lane) const;
  // Makes the running thread wait for the others of its warp (cuspan_rt_reconverge).
  void Reconverge(std::uint64_t place);
  LaneResult Meet(Fiber* self, const CollectiveCall& call);
  void Yield(Fiber* self);
  // Called before a memory access, if threads are interleaved at these.
  void Interleave(Fiber* self);
  [[noreturn]] void Exit(Fiber* self);
  // Ends the block with a sticky error of the CUDA context.
  [[noreturn]] void Abandon(Fiber* self, CUresult error, std::string what);
  // Calls `function(argument)` on a larger stack. Faults are still the kernel's.
  void CallOutside(Fiber* self, void (*function)(void*), void* argument);

  const Launch& launch() const { return *launch_; }
  bool suspends() const { return launch_->compiled.needs_fibers; }
  FaultGuard& guard() { return worker_->guard(); }
  // Null unless races are detected.
  BlockRaces* races() { return races_.get(); }
  // Buffer for text. Owned by the block, so nothing leaks if its user faults.
  std::string& scratch() { return scratch_; }

 private:
  bool Begin(Worker& worker, const Launch& launch, std::uint64_t index);
  bool Prepare(Worker& worker, const Launch& launch, std::uint64_t index);
  // Prepares the parts common to all blocks of a launch.
  bool PrepareLaunch();
  bool PrepareShared();
  void SetIndex(std::uint64_t index);
  // Fills a fiber's context; updates the parts changing between blocks.
  void FillContext(Fiber& fiber, std::uint32_t unit);
  void RenewContext(Fiber& fiber);
  void Finish();
  bool Run();
  void HandleFault();
  void Fail(CUresult error, std::string what);
  std::string Where(const Fiber* fiber) const;
  // Same if the lane of a warp is not known.
  std::string Whereabouts(const Fiber* fiber) const;
  std::string Waiting() const;
  void GiveStacks();
  [[noreturn]] void RunLoop(Fiber& fiber);

  // Returns the next thread to run, or null: one already woken (PickReady), or, on the worker's own
  // stack only, the next not yet started (StartNext).
  Fiber* PickReady();
  std::uint32_t PickReadyUnit();
  Fiber* StartNext();
  Fiber& NextUnit();
  // Runs another thread. Returns when `self`, the running one, is woken and picked.
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
  // Ends the running thread's block if its launch has failed elsewhere.
  void LeaveIfCancelled();
  // Records for race detection: participants are ordered after each other's accesses before
  // arrival. Barriers use locations below kBarriers, never used by memory.
  void NoteArrival(const Fiber* self, std::uint32_t number);
  void NoteBarrier(const Barrier& barrier, std::uint32_t number, const Fiber* self);
  void NoteMeeting(std::uint32_t warp, std::uint32_t lanes);
  // Converts a barrier from the short to the general form.
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
  std::uint64_t serial_ = 0;  // Serial of the launch it is prepared for.
  std::uint64_t index_ = 0;
  std::uint64_t end_ = 0;  // One past the last block executed in one call.
  std::uint32_t ctaid_[3] = {0, 0, 0};
  // First tid of each warp, for launches with warps.
  std::array<std::array<std::uint32_t, 3>, kMaxBlockThreads / kWarpLanes> first_tids_;
  std::uint32_t threads_ = 0;
  std::uint32_t units_ = 0;          // Calls of the kernel's entry: threads, or warps.
  std::uint32_t prepared_ = 0;       // Units with contexts filled for this launch.
  std::uint32_t started_ = 0;        // Units with a stack; all in loop mode.
  std::uint32_t alive_ = 0;          // Units not yet ended.
  std::uint32_t warps_alive_ = 0;    // Warps with these units.
  std::uint32_t barriers_used_ = 0;  // One bit each: only these are checked when a thread ends.
  bool failed_ = false;
  CUresult error_ = CUDA_SUCCESS;  // Error of this block itself.
  std::string message_;
  Fiber* current_ = nullptr;  // Thread running now or last.
  std::uint32_t current_unit_ = 0;
  UnitSet ready_, yielded_;

  void (*outside_)(void*) = nullptr;  // Function for CallOutside.
  void* outside_argument_ = nullptr;
  std::string scratch_;

  std::unique_ptr<BlockRaces> races_;
  std::uint64_t random_ = 0;     // State of the random order of threads.
  bool let_others_run_ = false;  // True if a runnable thread let others run (Interleave).

  std::array<Barrier, kBarriers> barriers_;
  // Short form for the most frequent case: warps waiting at a barrier of the whole block, one bit
  // each. Empty while the general form is in use.
  std::array<std::uint32_t, kBarriers> everyone_{};
  std::array<Warp, kMaxBlockThreads / kWarpLanes> warps_;
  std::vector<Fiber> fibers_;

  std::uint8_t* shared_mapping_ = nullptr;  // Ends with an inaccessible page.
  std::size_t shared_capacity_ = 0;
  std::uint8_t* shared_ = nullptr;
};

}  // namespace cuspan::softgpu
