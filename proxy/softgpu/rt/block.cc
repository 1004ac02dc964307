#include "proxy/softgpu/rt/block.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "common/round_up.h"
#include "common/status.h"
#include "proxy/softgpu/rt/sanitizer.h"

namespace cuspan::softgpu {

constinit thread_local Block* t_running_block = nullptr;

namespace {

constexpr std::size_t kGuardBytes = 4096;  // Page after shared memory.
// Prefetch distances in threads, for a thread's Fiber and for its stack.
constexpr std::uint32_t kAhead = 5, kStackAhead = 2;

constexpr std::uint32_t LanesBelow(std::uint32_t count) {
  return count >= 32 ? ~0u : (1u << count) - 1;
}

}  // namespace

Block::~Block() {
  if (shared_mapping_ != nullptr) munmap(shared_mapping_, shared_capacity_ + kGuardBytes);
}

bool Block::Start(Worker& worker, const Launch& launch, std::uint64_t index) {
  end_ = index + 1;
  return Begin(worker, launch, index);
}

bool Block::Begin(Worker& worker, const Launch& launch, std::uint64_t index) {
  if (!Prepare(worker, launch, index))
    Fail(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "the host has no memory for it");
  return Resume(worker);
}

void Block::Execute(Worker& worker, const Launch& launch, std::uint64_t index, std::uint64_t end) {
  end_ = end;
  Begin(worker, launch, index);
}

bool Block::Resume(Worker&) {
  // A failure of another block ends this one too.
  if (!failed_ && launch_->errors->error() == CUDA_SUCCESS && !Run()) return false;
  Finish();
  return true;
}

void Block::Finish() {
  if (failed_ && error_ != CUDA_SUCCESS) {
    launch_->errors->Raise(error_, Format("kernel {}: {}", launch_->kernel, message_));
  }
  // Stacks are kept for the launch's next block, overwriting abandoned frames.
  if (sanitizer::kWatchesStacks || failed_) GiveStacks();
}

void Block::Release(Worker& worker) { worker.GiveBlock(std::unique_ptr<Block>(this)); }

bool Block::Prepare(Worker& worker, const Launch& launch, std::uint64_t index) {
  worker_ = &worker;
  launch_ = &launch;
  started_ = 0;
  failed_ = false;
  error_ = CUDA_SUCCESS;
  SetCurrent(nullptr, 0);
  outside_ = nullptr;
  ready_.Clear();
  yielded_.Clear();
  for (; barriers_used_ != 0; barriers_used_ &= barriers_used_ - 1) {
    const auto number = static_cast<unsigned>(std::countr_zero(barriers_used_));
    barriers_[number].Reset();
    everyone_[number] = 0;
  }
  if (serial_ != launch.serial && !PrepareLaunch()) return false;
  SetIndex(index);
  alive_ = units_;
  const std::uint32_t warps = (threads_ + kWarpLanes - 1) / kWarpLanes;
  warps_alive_ = LanesBelow(warps);
  for (std::uint32_t warp = 0; !launch_->compiled.warps && warp < warps; ++warp) {
    warps_[warp].Begin(LanesBelow(threads_ - warp * kWarpLanes));
  }
  if (launch_->races != nullptr) [[unlikely]]
    BeginRaces();
  else
    races_.reset();
  if (launch_->order) BeginOrder(*launch_->order);
  return true;
}

bool Block::PrepareLaunch() {
  GiveStacks();
  serial_ = 0;
  threads_ = static_cast<std::uint32_t>(launch_->block.count());
  units_ = launch_->compiled.warps ? (threads_ + kWarpLanes - 1) / kWarpLanes : threads_;
  for (Warp& warp : warps_) warp.BeginLaunch();
  for (std::uint32_t warp = 0; launch_->compiled.warps && warp < units_; ++warp) {
    const std::uint32_t thread = warp * kWarpLanes;
    const Dimensions& block = launch_->block;
    first_tids_[warp] = {thread % block.x, thread / block.x % block.y, thread / block.x / block.y};
  }
  const std::uint32_t fibers = launch_->compiled.needs_fibers ? units_ : 1;
  // A few more, so that prefetching needs no bounds check.
  if (fibers_.size() < fibers + kAhead) fibers_.resize(fibers + kAhead);
  if (!PrepareShared()) return false;
  serial_ = launch_->serial;
  return true;
}

void Block::SetIndex(std::uint64_t index) {
  const Dimensions& grid = launch_->grid;
  index_ = index;
  ctaid_[0] = static_cast<std::uint32_t>(index % grid.x);
  ctaid_[1] = static_cast<std::uint32_t>(index / grid.x % grid.y);
  ctaid_[2] = static_cast<std::uint32_t>(index / grid.x / grid.y);
}

// Places the block's shared memory before an inaccessible page, so that a kernel running past its
// end faults.
bool Block::PrepareShared() {
  const std::size_t bytes =
      std::size_t{launch_->static_shared_bytes} + launch_->dynamic_shared_bytes;
  const std::size_t needed = RoundUp(std::max<std::size_t>(bytes, 1), kSharedAlignment);
  if (needed > shared_capacity_) {
    if (shared_mapping_ != nullptr) munmap(shared_mapping_, shared_capacity_ + kGuardBytes);
    shared_mapping_ = nullptr;
    shared_capacity_ = 0;
    const std::size_t capacity = RoundUp(needed, 64 * 1024);
    void* mapping = mmap(nullptr, capacity + kGuardBytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) return false;
    shared_mapping_ = static_cast<std::uint8_t*>(mapping);
    shared_capacity_ = capacity;
    mprotect(shared_mapping_ + capacity, kGuardBytes, PROT_NONE);
  }
  shared_ = shared_mapping_ + shared_capacity_ - needed;
  return true;
}

void Block::FillContext(Fiber& fiber, std::uint32_t unit) {
  const std::uint32_t thread = launch_->compiled.warps ? unit * kWarpLanes : unit;
  const Dimensions& block = launch_->block;
  const Dimensions& grid = launch_->grid;
  const std::uint32_t tid[3] = {thread % block.x, thread / block.x % block.y,
                                thread / block.x / block.y};
  fiber.block = this;
  fiber.unit = unit;
  fiber.context = ThreadContext{
      {tid[0], tid[1], tid[2]},
      {block.x, block.y, block.z},
      {ctaid_[0], ctaid_[1], ctaid_[2]},
      {grid.x, grid.y, grid.z},
      thread % kWarpLanes,
      thread / kWarpLanes,
      shared_,
      launch_->static_shared_bytes + launch_->dynamic_shared_bytes,
      launch_->dynamic_shared_bytes,
      reinterpret_cast<const std::uint8_t*>(launch_->params.data()),
      launch_->grid_id,
      {launch_->envreg[0], launch_->envreg[1], launch_->envreg[2], launch_->envreg[3]},
      &fiber,
      {tid[0], tid[1], tid[2]},
      launch_->compiled.warps ? LanesBelow(threads_ - thread) : 1};
}

void Block::RenewContext(Fiber& fiber) {
  ThreadContext& context = fiber.context;
  std::copy_n(ctaid_, 3, context.ctaid);
  // Restores fields changed by SelectLane.
  if (launch_->compiled.warps) context.lane = 0;
  std::copy_n(context.first_tid, 3, context.tid);
}

void Block::SelectLane(ThreadContext* context, std::uint32_t lane) const {
  const Dimensions& block = launch_->block;
  const std::uint32_t thread = context->warp * kWarpLanes + lane;
  context->lane = lane;
  context->tid[0] = thread % block.x;
  context->tid[1] = thread / block.x % block.y;
  context->tid[2] = thread / block.x / block.y;
}

// Executes until the block has ended (true) or yields (false).
bool Block::Run() {
  unsigned interleavings = 0;
  for (;;) {
    Fiber* next = current_;
    if (outside_ == nullptr) {
      next = PickReady();
      if (next == nullptr) next = StartNext();
    }
    if (failed_) return true;
    if (next == nullptr) {
      if (alive_ == 0) return true;
      if (yielded_.empty()) {
        Fail(CUDA_ERROR_LAUNCH_FAILED, Waiting());
        return true;
      }
      if (!launch_->compiled.warps)
        yielded_.ForEachWord([this](auto warp, auto lanes) { warps_[warp].GoAll(lanes); });
      ready_.AddAll(yielded_);
      yielded_.Clear();
      // Interleaved threads make progress. Other blocks run only after this many rounds.
      constexpr unsigned kMaxInterleavings = 64;
      if (std::exchange(let_others_run_, false) && ++interleavings < kMaxInterleavings) continue;
      return false;
    }
    outside_ = nullptr;
    SetCurrent(next, next->unit);
    t_running_block = this;
    if (!guard().Enter(next->execution)) {
      HandleFault();
      return true;
    }
    if (failed_) return true;
    if (outside_ != nullptr && !worker_->RunGuarded(outside_, outside_argument_)) {
      HandleFault();
      return true;
    }
  }
}

void Block::GiveStacks() {
  for (std::uint32_t i = 0; i < prepared_; ++i) {
    if (fibers_[i].stack != nullptr) worker_->stacks().Give(fibers_[i].stack);
    fibers_[i].stack = nullptr;
  }
  prepared_ = 0;
}

Fiber* Block::PickReady() { return ready_.empty() ? nullptr : &fibers_[PickReadyUnit()]; }

// Prefers the current warp: its data is still in the cache. ready_ must not be empty.
inline std::uint32_t Block::PickReadyUnit() {
  if (launch_->order) [[unlikely]]
    return ready_.AcquireAny(Random());
  const std::uint32_t unit = ready_.Acquire(current_unit_ / kWarpLanes);
  if (launch_->compiled.warps) return unit;
  const Fiber* const next = &fibers_[unit];
  // Prefetches threads likely to follow: each stack is in another page, slow to load.
  const auto* const frame =
      static_cast<const std::uint8_t*>(next[kStackAhead].execution.stack_pointer);
  __builtin_prefetch(frame);
  __builtin_prefetch(frame + 64);
  __builtin_prefetch(&next[kAhead].execution);
  return unit;
}

// Returns the next unit to start, with its context.
Fiber& Block::NextUnit() {
  Fiber& fiber = fibers_[started_];
  if (started_ == prepared_) {
    FillContext(fiber, started_);
    ++prepared_;
  } else {
    RenewContext(fiber);
  }
  ++started_;
  return fiber;
}

Fiber* Block::StartNext() {
  if (started_ == units_) return nullptr;
  Fiber& fiber = NextUnit();
  if (fiber.stack == nullptr) fiber.stack = worker_->stacks().Acquire(launch_->stack_bytes);
  if (fiber.stack == nullptr) {
    Fail(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "the host has no memory for a thread's stack");
    return nullptr;
  }
  fiber.execution = Execution::OnStack(
      *fiber.stack, launch_->compiled.needs_fibers ? &FiberMain : &LoopMain, &fiber);
  if (!launch_->compiled.needs_fibers) started_ = units_;
  return &fiber;
}

void* Block::LoopMain(void* argument) {
  FiberStarted();
  auto& fiber = *static_cast<Fiber*>(argument);
  fiber.block->RunLoop(fiber);
}

// Runs all threads or warps of the blocks up to end_.
void Block::RunLoop(Fiber& fiber) {
  ThreadContext& context = fiber.context;
  const KernelEntry entry = launch_->compiled.entry;
  const Dimensions& block = launch_->block;
  const bool warps = launch_->compiled.warps;
  const std::uint32_t units = units_;
  for (;;) {
    for (std::uint32_t warp = 0; warps && warp < units; ++warp) {
      context.lane = 0;
      context.warp = warp;
      context.lanes = LanesBelow(threads_ - warp * kWarpLanes);
      std::copy_n(first_tids_[warp].data(), 3, context.tid);
      std::copy_n(first_tids_[warp].data(), 3, context.first_tid);
      entry(&context);
    }
    for (std::uint32_t thread = 0; !warps && thread < units; ++thread) {
      context.lane = thread % kWarpLanes;
      context.warp = thread / kWarpLanes;
      entry(&context);
      if (++context.tid[0] < block.x) continue;
      context.tid[0] = 0;
      if (++context.tid[1] < block.y) continue;
      context.tid[1] = 0;
      ++context.tid[2];
    }
    context.tid[2] = 0;
    if (races_ != nullptr) [[unlikely]]
      races_->Settle();
    if (++index_ >= end_ || launch_->errors->error() != CUDA_SUCCESS) break;
    if (races_ != nullptr) [[unlikely]]
      BeginRaces();
    if (++context.ctaid[0] < context.nctaid[0]) continue;
    context.ctaid[0] = 0;
    if (++context.ctaid[1] < context.nctaid[1]) continue;
    context.ctaid[1] = 0;
    ++context.ctaid[2];
  }
  alive_ = 0;
  guard().LeaveForGood();
}

CUSPAN_RT_SWITCHES void* Block::FiberMain(void* argument) {
  FiberStarted();
  auto* fiber = static_cast<Fiber*>(argument);
  Block& block = *fiber->block;
  for (;;) {
    block.launch_->compiled.entry(&fiber->context);
    block.ThreadEnded(fiber);
    // Reuses this stack for the next thread, unless a thread with a stack can continue.
    if (!block.ready_.empty() || block.started_ == block.units_) break;
    Fiber& next = block.NextUnit();
    std::swap(next.stack, fiber->stack);
    next.execution = fiber->execution;
    fiber = &next;
    block.SetCurrent(fiber, fiber->unit);
  }
  if (sanitizer::kWatchesStacks) block.Exit(nullptr);
  Fiber* const next = block.PickReady();
  if (next == nullptr) return block.guard().home();
  block.SetCurrent(next, next->unit);
  return next->execution.stack_pointer;
}

// Continues with another thread and does not return. `self` ends now, unless it is null.
void Block::Exit(Fiber* self) {
  if (self != nullptr) ThreadEnded(self);
  if (Fiber* next = PickReady(); next != nullptr) {
    SetCurrent(next, next->unit);
    SwitchAway(next->execution);
  }
  // Threads not yet started get other stacks: frames of this one may be anywhere on its own.
  guard().LeaveForGood();
}

void Block::ThreadEnded(Fiber* self) {
  const std::uint32_t warp = launch_->compiled.warps ? self->unit : self->warp();
  --alive_;
  if (races_ != nullptr) [[unlikely]] {
    races_->Settle();
    races_->clocks().Leave(self->unit);
  }
  if (launch_->compiled.warps) {
    warps_alive_ &= ~(1u << warp);
  } else {
    warps_[warp].Exit(self->lane());
    if (warps_[warp].alive() == 0) warps_alive_ &= ~(1u << warp);
  }
  for (std::uint32_t used = barriers_used_; used != 0; used &= used - 1) {
    const auto number = static_cast<std::uint32_t>(std::countr_zero(used));
    Barrier& barrier = barriers_[number];
    Generalise(number);
    if (!launch_->compiled.warps) barrier.ThreadExited(warp, warps_[warp].alive());
    if (barrier.Complete(warps_alive_)) Complete(barrier, number, nullptr);
  }
  if (!launch_->compiled.warps) CheckMeetings(warp, nullptr);
}

void Block::Suspend(Fiber* self) {
  if (!ready_.empty()) {
    const std::uint32_t unit = PickReadyUnit();
    Fiber* const next = &fibers_[unit];
    if (next == self) return;
    SetCurrent(next, unit);
    Switch(self->execution, next->execution);
    return;
  }
  if (started_ < prepared_ && fibers_[started_].stack != nullptr) {
    Fiber& next = NextUnit();
    SetCurrent(&next, next.unit);
    SwitchToNew(self->execution, next.execution, *next.stack, &FiberMain, &next);
    return;
  }
  // Run starts another thread, or ends the block. Not done here: it allocates, and this stack may
  // be nearly full.
  guard().Leave(self->execution);
}

void Block::Wake(std::uint32_t warp, std::uint32_t lanes, const Fiber* except) {
  warps_[warp].GoAll(lanes);
  if (except != nullptr && except->warp() == warp) lanes &= ~(1u << except->lane());
  if (lanes != 0) ready_.AddWord(warp, lanes);
}

void Block::CheckMeetings(std::uint32_t warp, const Fiber* self) {
  Warp& own = warps_[warp];
  while (own.HasMeetings()) {
    const std::uint32_t lanes = own.ExtractCompleted();
    if (lanes == 0) break;
    if (races_ != nullptr) [[unlikely]]
      NoteMeeting(warp, lanes);
    Wake(warp, lanes, self);
  }
  // Completed meetings come first: reconverging lanes continue only if no lane runs.
  if (const std::uint32_t lanes = own.ExtractReconverged(); lanes != 0) Wake(warp, lanes, self);
}

LaneResult Block::Meet(Fiber* self, const CollectiveCall& call) {
  const ThreadContext& at = self->context;
  Warp& warp = WarpOf(self);
  if (call.mask != 0 && (call.mask >> at.lane & 1) == 0) {
    Abandon(
        self, CUDA_ERROR_LAUNCH_FAILED,
        Format("the member mask {:#010x} of a warp-wide operation omits lane {}, which executes it",
               call.mask, at.lane));
  }
  const std::uint32_t lanes = warp.Arrive(at.lane, call);
  if (lanes != 0) {
    if (races_ != nullptr) [[unlikely]]
      NoteMeeting(at.warp, lanes);
    Wake(at.warp, lanes, self);
    return warp.result(at.lane);
  }
  warp.Wait(at.lane);
  if (warp.running() == 0) CheckMeetings(at.warp, nullptr);
  Suspend(self);
  return warp.result(at.lane);
}

void Block::RefuseBarrier(Fiber* self, std::uint32_t barrier, std::uint32_t threads) {
  Abandon(self, CUDA_ERROR_ILLEGAL_INSTRUCTION,
          Format("barrier {} for {} threads: a block has {} barriers, and they count whole warps",
                 barrier, threads, kBarriers));
}

// Completes a barrier: wakes its waiters; `self`, if any, continues at once.
void Block::Complete(Barrier& barrier, std::uint32_t number, Fiber* self) {
  barriers_used_ &= ~(1u << number);
  if (races_ != nullptr) [[unlikely]]
    NoteBarrier(barrier, number, self);
  if (barrier.reduces()) {
    const std::uint32_t results[3] = {barrier.Result(BarrierReduction::kPopulation),
                                      barrier.Result(BarrierReduction::kAnd),
                                      barrier.Result(BarrierReduction::kOr)};
    if (self != nullptr) std::copy_n(results, 3, self->barrier_result);
    barrier.waiters().ForEach(
        [&](std::uint32_t unit) { std::copy_n(results, 3, fibers_[unit].barrier_result); });
  }
  if (!launch_->compiled.warps)
    barrier.waiters().ForEachWord([this](auto warp, auto lanes) { warps_[warp].GoAll(lanes); });
  ready_.AddAll(barrier.waiters());
  barrier.Reset();
}

void Block::Generalise(std::uint32_t number) {
  for (std::uint32_t warps = everyone_[number]; warps != 0; warps &= warps - 1) {
    const auto warp = static_cast<std::uint32_t>(std::countr_zero(warps));
    barriers_[number].ArriveWarp(warp, 0, {});
    barriers_[number].AddWaiter(warp);
  }
  everyone_[number] = 0;
}

void Block::ArriveBarrier(Fiber* self, std::uint32_t number, std::uint32_t threads) {
  CheckBarrierNumber(self, number, threads);
  Barrier& barrier = barriers_[number];
  // The barrier has not completed since this thread arrived.
  while (barrier.HasArrived(self->unit)) Yield(self);
  if (races_ != nullptr) [[unlikely]]
    NoteArrival(self, number);
  barriers_used_ |= 1u << number;
  barrier.Arrive(self->unit, WarpOf(self).alive(), threads, {});
  if (barrier.Complete(warps_alive_)) Complete(barrier, number, nullptr);
}

void Block::SyncBarrier(Fiber* self, std::uint32_t number, std::uint32_t threads, bool reduces,
                        bool predicate) {
  CheckBarrierNumber(self, number, threads);
  Barrier& barrier = barriers_[number];
  while (barrier.HasArrived(self->unit)) Yield(self);
  Warp& warp = WarpOf(self);
  barriers_used_ |= 1u << number;
  barrier.Arrive(self->unit, warp.alive(), threads, {reduces, 1, predicate ? 1u : 0u});
  if (barrier.Complete(warps_alive_)) {
    Complete(barrier, number, self);
    return;
  }
  barrier.AddWaiter(self->unit);
  warp.Wait(self->lane());
  if (warp.running() == 0) CheckMeetings(self->warp(), nullptr);
  Suspend(self);
}

void Block::SyncAll(std::uint32_t number) {
  Fiber* const self = current_;
  const std::uint32_t unit = current_unit_;
  if (number >= kBarriers || barriers_[number].HasArrived(unit)) {
    SyncBarrier(self, number, 0, false, false);
    return;
  }
  Barrier& barrier = barriers_[number];
  const std::uint32_t lane = unit % kWarpLanes;
  Warp& warp = warps_[unit / kWarpLanes];
  barriers_used_ |= 1u << number;
  barrier.Arrive(unit, warp.alive(), 0, {});
  if (barrier.Complete(warps_alive_)) {
    Complete(barrier, number, self);
    return;
  }
  barrier.AddWaiter(unit);
  warp.Wait(lane);
  if (warp.running() == 0) CheckMeetings(unit / kWarpLanes, nullptr);
  Suspend(self);
}

void Block::SyncAllWarps(std::uint32_t number) {
  Fiber* const self = current_;
  if (number >= kBarriers || barriers_[number].InUse()) {
    SyncWarpBarrier(self, number, 0, false, 0, 0);
    return;
  }
  const std::uint32_t own = 1u << current_unit_;
  const std::uint32_t here = everyone_[number] | own;
  if ((warps_alive_ & ~here) != 0) {
    everyone_[number] = here;
    barriers_used_ |= 1u << number;
    Suspend(self);
    return;
  }
  everyone_[number] = 0;
  barriers_used_ &= ~(1u << number);
  if (here != own) ready_.AddWord(0, here & ~own);
}

void Block::ArriveWarpBarrier(Fiber* self, std::uint32_t number, std::uint32_t threads) {
  CheckBarrierNumber(self, number, threads);
  Barrier& barrier = barriers_[number];
  Generalise(number);
  while (barrier.HasArrived(self->unit)) Yield(self);
  barriers_used_ |= 1u << number;
  barrier.ArriveWarp(self->unit, threads, {});
  if (barrier.Complete(warps_alive_)) Complete(barrier, number, nullptr);
}

void Block::SyncWarpBarrier(Fiber* self, std::uint32_t number, std::uint32_t threads, bool reduces,
                            std::uint32_t lanes, std::uint32_t votes) {
  CheckBarrierNumber(self, number, threads);
  Barrier& barrier = barriers_[number];
  Generalise(number);
  while (barrier.HasArrived(self->unit)) Yield(self);
  barriers_used_ |= 1u << number;
  Barrier::Votes counts;
  if (reduces)
    counts = {true, static_cast<std::uint32_t>(std::popcount(lanes)),
              static_cast<std::uint32_t>(std::popcount(votes))};
  barrier.ArriveWarp(self->unit, threads, counts);
  if (barrier.Complete(warps_alive_)) {
    Complete(barrier, number, self);
    return;
  }
  barrier.AddWaiter(self->unit);
  Suspend(self);
}

void Block::Yield(Fiber* self) {
  LeaveIfCancelled();
  yielded_.Add(self->unit);
  if (!launch_->compiled.warps) {
    Warp& warp = WarpOf(self);
    warp.Yield(self->lane());
    if (warp.running() == 0) CheckMeetings(self->warp(), nullptr);
  }
  Suspend(self);
}

void Block::CallOutside(Fiber* self, void (*function)(void*), void* argument) {
  outside_ = function;
  outside_argument_ = argument;
  guard().Leave(self->execution);
}

}  // namespace cuspan::softgpu
