#include "proxy/softgpu/rt/block.h"

#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "common/status.h"

namespace cuspan::softgpu {
namespace {

constexpr std::size_t kPage = 4096;
// The strictest alignment that a shared variable may ask for.
constexpr std::size_t kSharedAlignment = 1024;

constexpr std::uint32_t LanesBelow(std::uint32_t count) {
  return count >= 32 ? ~0u : (1u << count) - 1;
}

constexpr std::size_t RoundUp(std::size_t value, std::size_t to) {
  return (value + to - 1) / to * to;
}

const char* SignalName(int signal) {
  switch (signal) {
    case SIGSEGV:
      return "access to an address that is not mapped";
    case SIGBUS:
      return "access to memory that the host can not provide";
    case SIGFPE:
      return "arithmetic trap";
    default:
      return "illegal instruction";
  }
}

}  // namespace

void Block::FiberList::PushBack(Fiber* fiber) {
  fiber->next = nullptr;
  (last == nullptr ? first : last->next) = fiber;
  last = fiber;
}

void Block::FiberList::PushFront(Fiber* fiber) {
  fiber->next = first;
  first = fiber;
  if (last == nullptr) last = fiber;
}

Fiber* Block::FiberList::PopFront() {
  Fiber* fiber = first;
  if (fiber == nullptr) return nullptr;
  first = fiber->next;
  if (first == nullptr) last = nullptr;
  return fiber;
}

Block::~Block() {
  if (shared_mapping_ != nullptr) munmap(shared_mapping_, shared_capacity_ + kPage);
}

bool Block::Start(Worker& worker, const Launch& launch, std::uint64_t index) {
  worker_ = &worker;
  launch_ = &launch;
  if (!Prepare(index)) Fail(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "the host has no memory for it");
  return Resume(worker);
}

bool Block::Resume(Worker&) {
  // Another block's failure ends this one too.
  if (!failed_ && launch_->errors->error() == CUDA_SUCCESS && !Run()) return false;
  if (failed_ && error_ != CUDA_SUCCESS) {
    launch_->errors->Raise(error_, Format("kernel {}: {}", launch_->kernel, message_));
  }
  GiveStacks();
  return true;
}

void Block::Release(Worker& worker) { worker.GiveBlock(std::unique_ptr<Block>(this)); }

bool Block::Prepare(std::uint64_t index) {
  index_ = index;
  threads_ = static_cast<std::uint32_t>(launch_->block.count());
  started_ = 0;
  barriers_used_ = 0;
  failed_ = false;
  error_ = CUDA_SUCCESS;
  current_ = nullptr;
  ready_ = yielded_ = {};
  outside_ = nullptr;
  for (Barrier& barrier : barriers_) barrier.Reset();
  const std::uint32_t warps = (threads_ + kWarpLanes - 1) / kWarpLanes;
  units_ = launch_->warps ? warps : threads_;
  alive_ = units_;
  warps_alive_ = LanesBelow(warps);
  for (std::uint32_t warp = 0; warp < warps; ++warp) {
    warps_[warp].Begin(LanesBelow(threads_ - warp * kWarpLanes));
  }
  const std::uint32_t fibers = launch_->needs_fibers ? units_ : 1;
  if (fibers_.size() < fibers) fibers_.resize(fibers);
  return PrepareShared();
}

// The block's shared memory ends where an inaccessible page begins, so that a
// kernel that runs past it faults.
bool Block::PrepareShared() {
  const std::size_t bytes =
      std::size_t{launch_->static_shared_bytes} + launch_->dynamic_shared_bytes;
  const std::size_t needed = RoundUp(std::max<std::size_t>(bytes, 1), kSharedAlignment);
  if (needed > shared_capacity_) {
    if (shared_mapping_ != nullptr) munmap(shared_mapping_, shared_capacity_ + kPage);
    shared_mapping_ = nullptr;
    shared_capacity_ = 0;
    const std::size_t capacity = RoundUp(needed, 64 * 1024);
    void* mapping = mmap(nullptr, capacity + kPage, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) return false;
    shared_mapping_ = static_cast<std::uint8_t*>(mapping);
    shared_capacity_ = capacity;
    mprotect(shared_mapping_ + capacity, kPage, PROT_NONE);
  }
  shared_ = shared_mapping_ + shared_capacity_ - needed;
  return true;
}

void Block::FillContext(Fiber& fiber, std::uint32_t unit) {
  const std::uint32_t thread = launch_->warps ? unit * kWarpLanes : unit;
  const Dimensions& block = launch_->block;
  const Dimensions& grid = launch_->grid;
  const auto x = static_cast<std::uint32_t>(index_ % grid.x);
  const auto y = static_cast<std::uint32_t>(index_ / grid.x % grid.y);
  const auto z = static_cast<std::uint32_t>(index_ / grid.x / grid.y);
  fiber.block = this;
  fiber.context = ThreadContext{
      {thread % block.x, thread / block.x % block.y, thread / block.x / block.y},
      {block.x, block.y, block.z},
      {x, y, z},
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
      {},
      0};
  if (launch_->warps) FillWarp(&fiber.context, unit);
}

void Block::FillWarp(ThreadContext* context, std::uint32_t warp) const {
  context->warp = warp;
  SelectLane(context, 0);
  std::copy_n(context->tid, 3, context->first_tid);
  context->lanes = LanesBelow(threads_ - warp * kWarpLanes);
}

void Block::SelectLane(ThreadContext* context, std::uint32_t lane) const {
  const Dimensions& block = launch_->block;
  const std::uint32_t thread = context->warp * kWarpLanes + lane;
  context->lane = lane;
  context->tid[0] = thread % block.x;
  context->tid[1] = thread / block.x % block.y;
  context->tid[2] = thread / block.x / block.y;
}

// Executes until the block ended (true) or yields.
bool Block::Run() {
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
      for (Fiber* fiber = yielded_.first; fiber != nullptr; fiber = fiber->next) {
        WarpOf(fiber).Go(fiber->context.lane);
      }
      std::swap(ready_, yielded_);
      return false;
    }
    outside_ = nullptr;
    current_ = next;
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

void Block::HandleFault() {
  const Fault& fault = guard().fault();
  if (fault.signal == 0) {
    Fail(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "the host has no memory for a stack");
    return;
  }
  if (current_->stack->InGuard(fault.address)) {
    // What a GPU says when a thread leaves its stack (observed on an H200).
    Fail(CUDA_ERROR_ILLEGAL_ADDRESS, Format("{}: its stack of {} bytes overflowed",
                                            Whereabouts(current_), current_->stack->bytes));
    return;
  }
  const CUresult error =
      fault.signal == SIGILL ? CUDA_ERROR_ILLEGAL_INSTRUCTION : CUDA_ERROR_ILLEGAL_ADDRESS;
  Fail(error, Format("{}: {} ({})", Whereabouts(current_), SignalName(fault.signal),
                     static_cast<const void*>(fault.address)));
}

// Noted here, on whatever stack, and raised by Resume on the worker's own.
void Block::Fail(CUresult error, std::string what) {
  failed_ = true;
  error_ = error;
  message_ = std::move(what);
}

std::string Block::Where(const Fiber* fiber) const {
  const ThreadContext& at = fiber->context;
  return Format("block ({},{},{}), thread ({},{},{})", at.ctaid[0], at.ctaid[1], at.ctaid[2],
                at.tid[0], at.tid[1], at.tid[2]);
}

std::string Block::Whereabouts(const Fiber* fiber) const {
  const ThreadContext& at = fiber->context;
  if (!launch_->warps || std::has_single_bit(at.lanes)) return Where(fiber);
  ThreadContext last = at;
  SelectLane(&last, static_cast<std::uint32_t>(std::popcount(at.lanes)) - 1);
  return Format("block ({},{},{}), one of the threads ({},{},{}) to ({},{},{})", at.ctaid[0],
                at.ctaid[1], at.ctaid[2], at.first_tid[0], at.first_tid[1], at.first_tid[2],
                last.tid[0], last.tid[1], last.tid[2]);
}

// What the threads that are left wait for, when nobody will wake them.
std::string Block::Waiting() const {
  std::string text = Format("block {}: {} {} wait for what never comes:", index_, alive_,
                            launch_->warps ? "warps" : "threads");
  for (std::uint32_t i = 0; i < kBarriers; ++i) {
    if (!barriers_[i].InUse()) continue;
    text += Format(" barrier {} has {} of {} warps", i, std::popcount(barriers_[i].arrived_warps()),
                   barriers_[i].expected_threads() == 0
                       ? static_cast<std::uint32_t>(std::popcount(warps_alive_))
                       : barriers_[i].expected_threads() / kWarpLanes);
  }
  for (std::uint32_t warp = 0; warp * kWarpLanes < threads_; ++warp) {
    if (!warps_[warp].HasMeetings()) continue;
    text += Format(" warp {} lacks lanes that a warp-wide operation names", warp);
    break;
  }
  return text;
}

void Block::GiveStacks() {
  for (Stack* stack : stacks_) worker_->stacks().Give(stack);
  stacks_.clear();
  for (std::uint32_t i = 0; i < started_ && i < fibers_.size(); ++i) fibers_[i].stack = nullptr;
}

Fiber* Block::PickReady() { return ready_.PopFront(); }

Fiber* Block::StartNext() {
  if (started_ == units_) return nullptr;
  Stack* stack = worker_->stacks().Take(launch_->stack_bytes);
  if (stack == nullptr) {
    Fail(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "the host has no memory for a thread's stack");
    return nullptr;
  }
  stacks_.push_back(stack);
  Fiber& fiber = fibers_[launch_->needs_fibers ? started_ : 0];
  FillContext(fiber, started_);
  fiber.stack = stack;
  fiber.execution =
      Execution::OnStack(*stack, launch_->needs_fibers ? &FiberMain : &LoopMain, &fiber);
  started_ = launch_->needs_fibers ? started_ + 1 : units_;
  return &fiber;
}

void Block::LoopMain(void* argument) {
  FiberStarted();
  auto& fiber = *static_cast<Fiber*>(argument);
  Block& block = *fiber.block;
  ThreadContext& context = fiber.context;
  const KernelEntry entry = block.launch_->entry;
  for (std::uint32_t warp = 0; block.launch_->warps && warp < block.units_; ++warp) {
    block.FillWarp(&context, warp);
    entry(&context);
  }
  for (std::uint32_t thread = 0; !block.launch_->warps && thread < block.threads_; ++thread) {
    context.lane = thread % kWarpLanes;
    context.warp = thread / kWarpLanes;
    entry(&context);
    if (++context.tid[0] < context.ntid[0]) continue;
    context.tid[0] = 0;
    if (++context.tid[1] < context.ntid[1]) continue;
    context.tid[1] = 0;
    ++context.tid[2];
  }
  block.alive_ = 0;
  block.guard().LeaveForGood();
}

void Block::FiberMain(void* argument) {
  FiberStarted();
  auto* fiber = static_cast<Fiber*>(argument);
  Block& block = *fiber->block;
  for (;;) {
    block.launch_->entry(&fiber->context);
    block.ThreadEnded(fiber);
    // This stack serves the next thread, unless one that has a stack can go on.
    if (!block.ready_.empty() || block.started_ == block.units_) break;
    Fiber& next = block.fibers_[block.started_];
    block.FillContext(next, block.started_++);
    next.stack = std::exchange(fiber->stack, nullptr);
    next.execution = fiber->execution;
    fiber = &next;
    block.current_ = fiber;
  }
  block.Exit(nullptr);
}

// Goes on with another thread, for good; `self` ends now unless it is null.
void Block::Exit(Fiber* self) {
  if (self != nullptr) ThreadEnded(self);
  if (Fiber* next = PickReady(); next != nullptr) {
    current_ = next;
    SwitchAway(next->execution);
  }
  // Threads not yet started get fresh stacks: frames of this one may be anywhere on its own.
  guard().LeaveForGood();
}

void Block::ThreadEnded(Fiber* self) {
  const std::uint32_t warp = self->context.warp;
  Warp& own = WarpOf(self);
  --alive_;
  if (launch_->warps) {
    own.Begin(0);
  } else {
    own.Exit(self->context.lane);
  }
  if (own.alive() == 0) warps_alive_ &= ~(1u << warp);
  for (std::uint32_t used = barriers_used_; used != 0; used &= used - 1) {
    const int number = std::countr_zero(used);
    Barrier& barrier = barriers_[number];
    barrier.ThreadExited(warp, own.alive());
    if (barrier.Complete(warps_alive_)) {
      barriers_used_ &= ~(1u << number);
      WakeWaiters(barrier, nullptr);
    }
  }
  CheckMeetings(warp, nullptr);
}

void Block::Suspend(Fiber* self) {
  Fiber* next = PickReady();
  if (next == self) return;
  if (next == nullptr) {
    // Run starts another, or ends the block. Not here: that allocates, and this
    // stack may be about to overflow.
    guard().Leave(self->execution);
    return;
  }
  current_ = next;
  Switch(self->execution, next->execution);
}

// Woken lanes go first: what a warp touches is still in the cache.
void Block::Wake(std::uint32_t warp, std::uint32_t lanes, const Fiber* except) {
  Warp& own = warps_[warp];
  while (lanes != 0) {
    const std::uint32_t lane = 31 - static_cast<std::uint32_t>(std::countl_zero(lanes));
    lanes &= ~(1u << lane);
    own.Go(lane);
    Fiber* fiber = &fibers_[warp * kWarpLanes + lane];
    if (fiber != except) ready_.PushFront(fiber);
  }
}

void Block::CheckMeetings(std::uint32_t warp, const Fiber* self) {
  Warp& own = warps_[warp];
  while (own.HasMeetings()) {
    const std::uint32_t lanes = own.TakeCompleted();
    if (lanes == 0) return;
    Wake(warp, lanes, self);
  }
}

LaneResult Block::Meet(Fiber* self, const CollectiveCall& call) {
  const ThreadContext& at = self->context;
  Warp& warp = WarpOf(self);
  if (call.mask != 0 && (call.mask >> at.lane & 1) == 0) {
    Abandon(self, CUDA_ERROR_LAUNCH_FAILED,
            Format("a warp-wide operation with member mask {:#010x} is executed by lane {}, "
                   "which the mask leaves out",
                   call.mask, at.lane));
  }
  const std::uint32_t lanes = warp.Arrive(at.lane, call);
  if (lanes != 0) {
    Wake(at.warp, lanes, self);
    return warp.result(at.lane);
  }
  warp.Wait(at.lane);
  if (warp.running() == 0) CheckMeetings(at.warp, nullptr);
  Suspend(self);
  return warp.result(at.lane);
}

void Block::CheckBarrierNumber(Fiber* self, std::uint32_t barrier, std::uint32_t threads) {
  if (barrier < kBarriers && threads % kWarpLanes == 0) return;
  Abandon(self, CUDA_ERROR_ILLEGAL_INSTRUCTION,
          Format("barrier {} for {} threads: there are {} barriers, and they count whole warps",
                 barrier, threads, kBarriers));
}

void Block::WakeWaiters(Barrier& barrier, Fiber* self) {
  const std::uint32_t results[3] = {barrier.Result(BarrierReduction::kPopulation),
                                    barrier.Result(BarrierReduction::kAnd),
                                    barrier.Result(BarrierReduction::kOr)};
  for (Fiber* fiber = barrier.Reset(); fiber != nullptr;) {
    Fiber* const next = fiber->next;
    WarpOf(fiber).Go(fiber->context.lane);
    std::copy_n(results, 3, fiber->barrier_result);
    if (fiber != self) ready_.PushBack(fiber);
    fiber = next;
  }
  if (self != nullptr) std::copy_n(results, 3, self->barrier_result);
}

void Block::ArriveBarrier(Fiber* self, std::uint32_t number, std::uint32_t threads) {
  CheckBarrierNumber(self, number, threads);
  Barrier& barrier = barriers_[number];
  const ThreadContext& at = self->context;
  // The barrier has not completed since this thread came to it.
  while (barrier.HasArrived(at.warp, at.lane)) Yield(self);
  barriers_used_ |= 1u << number;
  barrier.Arrive(at.warp, at.lane, WarpOf(self).alive(), threads, false);
  if (barrier.Complete(warps_alive_)) {
    barriers_used_ &= ~(1u << number);
    WakeWaiters(barrier, nullptr);
  }
}

void Block::SyncBarrier(Fiber* self, std::uint32_t number, std::uint32_t threads, bool predicate) {
  CheckBarrierNumber(self, number, threads);
  Barrier& barrier = barriers_[number];
  const ThreadContext& at = self->context;
  while (barrier.HasArrived(at.warp, at.lane)) Yield(self);
  Warp& warp = WarpOf(self);
  barriers_used_ |= 1u << number;
  barrier.Arrive(at.warp, at.lane, warp.alive(), threads, predicate);
  if (barrier.Complete(warps_alive_)) {
    barriers_used_ &= ~(1u << number);
    WakeWaiters(barrier, self);
    return;
  }
  barrier.AddWaiter(self);
  warp.Wait(at.lane);
  if (warp.running() == 0) CheckMeetings(at.warp, nullptr);
  Suspend(self);
}

void Block::ArriveWarpBarrier(Fiber* self, std::uint32_t number, std::uint32_t threads,
                              std::uint32_t lanes) {
  CheckBarrierNumber(self, number, threads);
  Barrier& barrier = barriers_[number];
  const std::uint32_t warp = self->context.warp;
  while (barrier.HasArrived(warp, 0)) Yield(self);
  barriers_used_ |= 1u << number;
  barrier.ArriveWarp(warp, lanes, threads, 0);
  if (barrier.Complete(warps_alive_)) {
    barriers_used_ &= ~(1u << number);
    WakeWaiters(barrier, nullptr);
  }
}

void Block::SyncWarpBarrier(Fiber* self, std::uint32_t number, std::uint32_t threads,
                            std::uint32_t lanes, std::uint32_t votes) {
  CheckBarrierNumber(self, number, threads);
  Barrier& barrier = barriers_[number];
  const std::uint32_t warp = self->context.warp;
  while (barrier.HasArrived(warp, 0)) Yield(self);
  barriers_used_ |= 1u << number;
  barrier.ArriveWarp(warp, lanes, threads, votes);
  if (barrier.Complete(warps_alive_)) {
    barriers_used_ &= ~(1u << number);
    WakeWaiters(barrier, self);
    return;
  }
  barrier.AddWaiter(self);
  Suspend(self);
}

void Block::Yield(Fiber* self) {
  // The poll that lets a spinning block end when its launch has failed elsewhere.
  if (launch_->errors->error() != CUDA_SUCCESS) {
    failed_ = true;
    guard().LeaveForGood();
  }
  Warp& warp = WarpOf(self);
  warp.Wait(self->context.lane);
  yielded_.PushBack(self);
  if (warp.running() == 0) CheckMeetings(self->context.warp, nullptr);
  Suspend(self);
}

void Block::Abandon(Fiber* self, CUresult error, std::string what) {
  Fail(error, Format("{}: {}", Where(self), what));
  std::string().swap(what);  // Nothing unwinds this stack.
  guard().LeaveForGood();
}

void Block::CallOutside(Fiber* self, void (*function)(void*), void* argument) {
  outside_ = function;
  outside_argument_ = argument;
  guard().Leave(self->execution);
}

}  // namespace cuspan::softgpu
