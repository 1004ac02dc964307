// Executes one block of a launch on one worker thread.
//
// What follows is said of threads and holds for warps where one call executes a
// warp: these are then started, suspended and counted in their place.
//
// A kernel that never suspends runs as a loop over the block's threads, on one
// stack. Otherwise each thread gets a fiber, started when nothing else can go
// on; a thread that ends without ever waiting leaves its stack to the next.
// Threads run one at a time and go on until they wait, so a block needs no
// locks. When no thread can go on: the block is finished, or all threads that
// are left yielded (the worker may run something else), or they wait for what
// never comes, which is an error of the launch.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "proxy/softgpu/rt/barrier.h"
#include "proxy/softgpu/rt/fiber.h"
#include "proxy/softgpu/rt/launch.h"
#include "proxy/softgpu/rt/pool.h"
#include "proxy/softgpu/rt/warp.h"

namespace cuspan::softgpu {

// One CUDA thread, or warp.
struct Fiber {
  ThreadContext context;
  Block* block = nullptr;
  Stack* stack = nullptr;  // Null before the thread starts and after it ended.
  Execution execution;
  Fiber* next = nullptr;                        // In the list that it waits in.
  std::uint32_t barrier_result[3] = {0, 0, 0};  // By BarrierReduction.
};

class Block : public Resident {
 public:
  Block() = default;
  ~Block() override;

  // Executes block `index` of `launch` until it ends or yields; true when it
  // ended. Errors go to launch.errors.
  bool Start(Worker& worker, const Launch& launch, std::uint64_t index);
  bool Resume(Worker& worker) override;
  void Release(Worker& worker) override;

  // --- Called on a fiber, by the runtime functions of abi.h.

  void SyncBarrier(Fiber* self, std::uint32_t barrier, std::uint32_t threads, bool predicate);
  void ArriveBarrier(Fiber* self, std::uint32_t barrier, std::uint32_t threads);
  // Of a warp: `lanes` come to the barrier, `votes` of them with a true predicate.
  void SyncWarpBarrier(Fiber* self, std::uint32_t barrier, std::uint32_t threads,
                       std::uint32_t lanes, std::uint32_t votes);
  void ArriveWarpBarrier(Fiber* self, std::uint32_t barrier, std::uint32_t threads,
                         std::uint32_t lanes);
  // Lets the context speak for one lane of its warp.
  void SelectLane(ThreadContext* context, std::uint32_t lane) const;
  LaneResult Meet(Fiber* self, const CollectiveCall& call);
  void Yield(Fiber* self);
  [[noreturn]] void Exit(Fiber* self);
  // Ends the block and poisons the context.
  [[noreturn]] void Abandon(Fiber* self, CUresult error, std::string what);
  // Calls `function(argument)` on a larger stack, where faults are the kernel's still.
  void CallOutside(Fiber* self, void (*function)(void*), void* argument);

  const Launch& launch() const { return *launch_; }
  bool suspends() const { return launch_->needs_fibers; }
  FaultGuard& guard() { return worker_->guard(); }
  // Text in the making; kept by the block, so that nothing leaks when its maker faults.
  std::string& scratch() { return scratch_; }

 private:
  struct FiberList {
    Fiber* first = nullptr;
    Fiber* last = nullptr;
    bool empty() const { return first == nullptr; }
    void PushBack(Fiber* fiber);
    void PushFront(Fiber* fiber);
    Fiber* PopFront();
  };

  bool Prepare(std::uint64_t index);
  bool PrepareShared();
  void FillContext(Fiber& fiber, std::uint32_t unit);
  void FillWarp(ThreadContext* context, std::uint32_t warp) const;
  bool Run();
  void HandleFault();
  void Fail(CUresult error, std::string what);
  std::string Where(const Fiber* fiber) const;
  // The same when it is not known which lane of a warp it was.
  std::string Whereabouts(const Fiber* fiber) const;
  std::string Waiting() const;
  void GiveStacks();

  // The next thread to run: one that was woken, or, on the worker's own stack
  // only, the next not yet started; null when there is none.
  Fiber* PickReady();
  Fiber* StartNext();
  // Lets another run; returns when `self` is woken and picked.
  void Suspend(Fiber* self);
  void Wake(std::uint32_t warp, std::uint32_t lanes, const Fiber* except);
  void WakeWaiters(Barrier& barrier, Fiber* self);
  void CheckMeetings(std::uint32_t warp, const Fiber* self);
  void ThreadEnded(Fiber* self);
  void CheckBarrierNumber(Fiber* self, std::uint32_t barrier, std::uint32_t threads);

  static void FiberMain(void* fiber);
  static void LoopMain(void* fiber);

  Warp& WarpOf(const Fiber* fiber) { return warps_[fiber->context.warp]; }

  Worker* worker_ = nullptr;
  const Launch* launch_ = nullptr;
  std::uint64_t index_ = 0;
  std::uint32_t threads_ = 0;
  std::uint32_t units_ = 0;          // Calls of the kernel's entry: threads, or warps.
  std::uint32_t started_ = 0;        // Units that have been given a stack; all in loop mode.
  std::uint32_t alive_ = 0;          // Units that have not ended.
  std::uint32_t warps_alive_ = 0;    // Warps with such threads.
  std::uint32_t barriers_used_ = 0;  // One bit each: only these need a look when a thread ends.
  bool failed_ = false;
  CUresult error_ = CUDA_SUCCESS;  // Of a failure that is this block's own.
  std::string message_;
  Fiber* current_ = nullptr;  // The thread that runs, or ran last.
  FiberList ready_, yielded_;

  void (*outside_)(void*) = nullptr;  // What CallOutside asks for.
  void* outside_argument_ = nullptr;
  std::string scratch_;

  std::array<Barrier, kBarriers> barriers_;
  std::array<Warp, kMostBlockThreads / kWarpLanes> warps_;
  std::vector<Fiber> fibers_;
  std::vector<Stack*> stacks_;  // All that fibers of this block hold.

  std::uint8_t* shared_mapping_ = nullptr;  // Ends with an inaccessible page.
  std::size_t shared_capacity_ = 0;
  std::uint8_t* shared_ = nullptr;
};

}  // namespace cuspan::softgpu
