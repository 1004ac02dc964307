// Control flow of a warp: nodes in the order of the schedule, each with a mask of the lanes waiting
// at it. Nodes without lanes are skipped.
#include <llvm/IR/Intrinsics.h>

#include <algorithm>
#include <cstddef>

#include "proxy/softgpu/analysis/cfg.h"
#include "proxy/softgpu/emit/families.h"
#include "proxy/softgpu/emit/function_emitter.h"
#include "proxy/softgpu/rt/abi.h"

namespace cuspan::softgpu::emit {
namespace {

using analysis::Spread;
using llvm::Value;
using ptx::kNoIndex;
using ptx::Operand;

// Up to this number of next nodes, a branch tests them one by one; more share a chain of tests.
constexpr std::size_t kOwnChecks = 6;

}  // namespace

void FunctionEmitter::EmitWarp() {
  b.SetInsertPoint(entry_);
  auto* const word = b.getInt32Ty();
  const auto& schedule = warp_->schedule;
  flow_ = analysis::BuildFlowGraph(body());
  anchors_.assign(body().registers.size(), nullptr);
  for (std::size_t i = 0; i < anchors_.size(); ++i) {
    const auto& shape = warp_->registers[i];
    if (shape.extension == analysis::Shape::Extension::kNone) continue;
    const unsigned count = CountOf(shape.spread);
    auto* const type =
        count == 1 ? static_cast<llvm::Type*>(word) : llvm::FixedVectorType::get(word, count);
    anchors_[i] = b.CreateAlloca(type);
    b.CreateStore(llvm::Constant::getNullValue(type), anchors_[i]);
  }
  for (std::size_t n = 0; n < schedule.nodes.size(); ++n) {
    node_masks_.push_back(b.CreateAlloca(word));
    b.CreateStore(b.getInt32(0), node_masks_.back());
    node_blocks_.push_back(NewBlock());
  }
  node_checks_.assign(schedule.nodes.size(), nullptr);
  Value* lanes = nullptr;
  if (!function().entry) {
    lanes = function_->getArg(1);
  } else if (layout().full) {
    lanes = b.getInt32(0xffffffff);
  } else {
    lanes = ContextField(offsetof(ThreadContext, lanes), word);
  }
  alive_ = b.CreateAlloca(word);
  b.CreateStore(lanes, alive_);
  if (warp_->may_owe) {
    owing_ = b.CreateAlloca(word);
    b.CreateStore(b.getInt32(0), owing_);
  }
  mask_ = lanes;
  // Parameters passed in registers.
  const auto& formals = body().formal_registers;
  const std::size_t results = function().signature.results.size();
  auto* const start = NewBlock();
  b.SetInsertPoint(start);
  if (!function().entry) {
    ForEachLane([&] {
      for (std::size_t i = results; i < formals.size(); ++i) {
        if (formals[i] == kNoIndex) continue;
        auto* const type = registers_[formals[i]]->getAllocatedType()->getScalarType();
        auto* const bytes = b.CreateMul(b.CreateZExt(lane_, b.getInt64Ty()),
                                        b.getInt64(analysis::LaneBytes(body().variables[i])));
        auto* const address = b.CreateGEP(b.getInt8Ty(), FormalArgument(i), bytes);
        StoreRegister(formals[i], b.CreateAlignedLoad(type, address, llvm::Align(1)));
      }
    });
  }
  b.CreateStore(lanes, node_masks_[0]);
  b.CreateBr(node_blocks_[0]);
  for (std::uint32_t n = 0; n < schedule.nodes.size() && !failed(); ++n) EmitNode(n);
  // Each check in use needs the check of the next node.
  for (std::size_t n = 0; n < node_checks_.size(); ++n) {
    if (node_checks_[n] == nullptr) continue;
    b.SetInsertPoint(node_checks_[n]);
    auto* next = return_;
    if (n + 1 < node_checks_.size()) {
      if (node_checks_[n + 1] == nullptr) node_checks_[n + 1] = NewBlock();
      next = node_checks_[n + 1];
    }
    b.CreateCondBr(b.CreateIsNotNull(b.CreateLoad(word, node_masks_[n])), node_blocks_[n], next);
  }
  b.SetInsertPoint(return_);
  b.CreateRetVoid();
  b.SetInsertPoint(entry_);
  if (function().entry && module_.plan().reserved_shared_offset != kNoIndex)
    WithWidth(1, [&] { ClearReservedShared(); });
  b.CreateBr(start);
}

void FunctionEmitter::EmitNode(std::uint32_t n) {
  const auto& node = warp_->schedule.nodes[n];
  b.SetInsertPoint(node_blocks_[n]);
  mask_ = b.CreateLoad(b.getInt32Ty(), node_masks_[n]);
  b.CreateStore(b.getInt32(0), node_masks_[n]);
  node_ = n;
  kept_ = &warp_->kept[n];
  together_ = warp_->Together(n);
  guard_ = nullptr;
  if (n == warp_->schedule.return_node) {
    StoreWarpResults();
    b.CreateBr(return_);
    return;
  }
  if (node.block == kNoIndex) {
    const std::uint32_t header = node.successors[0];
    b.CreateStore(mask_, node_masks_[header]);
    b.CreateBr(node_blocks_[header]);
    return;
  }
  const auto graph_block = flow_.blocks[node.block];
  for (std::uint32_t i = graph_block.begin; i < graph_block.end && !failed(); ++i) {
    const auto& instruction = body().instructions[i];
    if (i + 1 == graph_block.end &&
        (analysis::IsBranch(instruction) || analysis::LeavesFunction(instruction))) {
      instruction_ = &instruction;
      position_ = i;
      taken_ = 0;
      EmitEnd(n, &instruction);
      return;
    }
    EmitWarpInstruction(i);
  }
  if (!failed()) EmitEnd(n, nullptr);
}

void FunctionEmitter::EmitEnd(std::uint32_t n, const ptx::Instruction* last) {
  const auto& schedule = warp_->schedule;
  const auto& block = flow_.blocks[schedule.nodes[n].block];
  const auto to_block = [&](std::uint32_t target) { return schedule.Target(n, target); };
  const auto to_position = [&](std::uint32_t position) {
    return position < body().instructions.size() ? to_block(flow_.block_of[position])
                                                 : schedule.return_node;
  };
  const std::uint32_t next = to_position(block.end);
  if (last == nullptr) {
    Go(n, {{next, mask_}});
    return;
  }
  for (auto modifier : last->modifiers) Consume(modifier);
  YieldInSpinLoop();
  // Emits the path of the lanes taking the branch.
  const auto leave = [&](Value* lanes) {
    if (last->opcode == "trap" || last->opcode == "brkpt") {
      auto* const saved = mask_;
      mask_ = lanes;
      Fault(kLaunchFailed, "the kernel trapped");
      mask_ = saved;
      b.CreateUnreachable();
      return;
    }
    if (last->opcode == "brx") {
      const auto& labels = body().branch_tables[last->operands[1].index].labels;
      auto* const index = WithWidth(1, [&] { return Read(last->operands[0], ptx::Type::kU32); });
      if (failed()) return;
      auto* const outside = NewBlock();
      auto* const dispatch = b.CreateSwitch(index, outside, static_cast<unsigned>(labels.size()));
      for (std::size_t i = 0; i < labels.size(); ++i) {
        auto* const way = NewBlock();
        dispatch->addCase(b.getInt32(static_cast<std::uint32_t>(i)), way);
        b.SetInsertPoint(way);
        Go(n, {{to_position(body().labels[labels[i]].position), lanes}});
      }
      b.SetInsertPoint(outside);
      Fault(kLaunchFailed, "the index of a branch table is out of range");
      b.CreateUnreachable();
      return;
    }
    const bool branches = analysis::IsBranch(*last);
    Go(n, {{branches ? to_position(body().labels[last->operands[0].index].position)
                     : schedule.return_node,
            lanes}});
  };
  if (last->opcode == "bra" &&
      (last->operands.empty() || last->operands[0].kind != Operand::Kind::kLabel)) {
    Reject("a label is expected");
    return;
  }
  if (last->opcode == "brx" &&
      (last->operands.size() != 2 || last->operands[1].kind != Operand::Kind::kTable)) {
    Reject("an index and a table of labels are expected");
    return;
  }
  if (last->guard == kNoIndex) {
    leave(mask_);
    return;
  }
  if (warp_->registers[last->guard].uniform()) {
    Value* guard = WithWidth(1, [&] { return LoadRegister(last->guard); });
    if (last->guard_negated) guard = b.CreateNot(guard);
    auto* const taken = NewBlock();
    auto* const on = NewBlock();
    b.CreateCondBr(guard, taken, on);
    b.SetInsertPoint(taken);
    leave(mask_);
    b.SetInsertPoint(on);
    Go(n, {{next, mask_}});
    return;
  }
  Value* guard = WithWidth(32, [&] { return Ballot(LoadRegister(last->guard)); });
  if (last->guard_negated) guard = b.CreateNot(guard);
  auto* const lanes = b.CreateAnd(mask_, guard);
  auto* const others = b.CreateAnd(mask_, b.CreateNot(guard));
  if (last->opcode == "trap" || last->opcode == "brkpt") {
    auto* const traps = NewBlock();
    auto* const on = NewBlock();
    b.CreateCondBr(b.CreateIsNotNull(lanes), traps, on);
    b.SetInsertPoint(traps);
    leave(lanes);
    b.SetInsertPoint(on);
    Go(n, {{next, mask_}});
    return;
  }
  const std::uint32_t target = analysis::IsBranch(*last)
                                   ? to_position(body().labels[last->operands[0].index].position)
                                   : schedule.return_node;
  Go(n, {{target, lanes}, {next, others}});
}

// Adds lanes to the masks of their target nodes, then continues at the first node with lanes.
void FunctionEmitter::Go(std::uint32_t n, llvm::ArrayRef<Way> ways) {
  auto* const word = b.getInt32Ty();
  std::vector<std::uint32_t> places;
  warp_->waiting[n].ForEach([&](std::uint32_t y) {
    if (y < node_masks_.size()) places.push_back(y);
  });
  bool all_go_on = true;
  for (const Way& way : ways) {
    if (way.target == kNoIndex) {
      all_go_on = false;
      b.CreateStore(b.CreateAnd(b.CreateLoad(word, alive_), b.CreateNot(way.mask)), alive_);
      continue;
    }
    auto* const slot = node_masks_[way.target];
    b.CreateStore(b.CreateOr(b.CreateLoad(word, slot), way.mask), slot);
    places.push_back(way.target);
  }
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  // All lanes go to one node, and no lane waits before it.
  if (ways.size() == 1 && all_go_on && places.front() == ways[0].target) {
    b.CreateBr(node_blocks_[ways[0].target]);
    return;
  }
  if (places.size() > kOwnChecks) {
    auto*& check = node_checks_[places.front()];
    if (check == nullptr) check = NewBlock();
    b.CreateBr(check);
    return;
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    auto* const block = node_blocks_[places[i]];
    if (i + 1 == places.size() && all_go_on) {
      b.CreateBr(block);
      return;
    }
    auto* const other = NewBlock();
    b.CreateCondBr(b.CreateIsNotNull(b.CreateLoad(word, node_masks_[places[i]])), block, other);
    b.SetInsertPoint(other);
  }
  b.CreateBr(return_);
}

// Stores results in registers to the caller's memory, for the calling lanes.
void FunctionEmitter::StoreWarpResults() {
  const std::size_t results = function().signature.results.size();
  const auto& formals = body().formal_registers;
  if (std::all_of(formals.begin(), formals.begin() + static_cast<std::ptrdiff_t>(results),
                  [](std::uint32_t reg) { return reg == kNoIndex; }))
    return;
  scratch_used_.clear();
  ForEachLane([&] {
    for (std::size_t i = 0; i < results; ++i) {
      if (formals[i] == kNoIndex) continue;
      auto* const bytes = b.CreateMul(b.CreateZExt(lane_, b.getInt64Ty()),
                                      b.getInt64(analysis::LaneBytes(body().variables[i])));
      b.CreateAlignedStore(LoadRegister(formals[i]),
                           b.CreateGEP(b.getInt8Ty(), FormalArgument(i), bytes), llvm::Align(1));
    }
  });
}

Value* FunctionEmitter::Awaited() {
  Value* lanes = b.CreateLoad(b.getInt32Ty(), alive_);
  warp_->waiting[node_].ForEach([&](std::uint32_t y) {
    if (y >= node_masks_.size() || warp_->may_meet.Has(y)) return;
    lanes = b.CreateAnd(lanes, b.CreateNot(b.CreateLoad(b.getInt32Ty(), node_masks_[y])));
  });
  return lanes;
}

Value* FunctionEmitter::Owing() {
  return owing_ == nullptr ? nullptr : b.CreateLoad(b.getInt32Ty(), owing_);
}

void FunctionEmitter::Owe(Value* lanes) { b.CreateStore(b.CreateOr(Owing(), lanes), owing_); }

void FunctionEmitter::Within(Value* lanes, const std::function<void()>& emit) {
  auto* const run = NewBlock();
  auto* const after = NewBlock();
  b.CreateCondBr(b.CreateIsNotNull(lanes), run, after);
  b.SetInsertPoint(run);
  auto* const saved_mask = mask_;
  auto* const saved_guard = guard_;
  mask_ = lanes;
  guard_ = MaskVector();
  emit();
  mask_ = saved_mask;
  guard_ = saved_guard;
  if (b.GetInsertBlock()->getTerminator() == nullptr) b.CreateBr(after);
  b.SetInsertPoint(after);
}

void FunctionEmitter::EmitWarpInstruction(std::uint32_t index) {
  instruction_ = &body().instructions[index];
  position_ = index;
  taken_ = 0;
  scratch_used_.clear();
  guard_ = nullptr;
  if (instruction_->guard == kNoIndex) {
    EmitByWay();
    return;
  }
  if (warp_->registers[instruction_->guard].uniform()) {
    Value* guard = WithWidth(1, [&] { return LoadRegister(instruction_->guard); });
    if (instruction_->guard_negated) guard = b.CreateNot(guard);
    auto* const run = NewBlock();
    auto* const after = NewBlock();
    b.CreateCondBr(guard, run, after);
    b.SetInsertPoint(run);
    EmitByWay();
    b.CreateBr(after);
    b.SetInsertPoint(after);
    return;
  }
  Value* guard = WithWidth(32, [&] { return LoadRegister(instruction_->guard); });
  if (instruction_->guard_negated) guard = b.CreateNot(guard);
  if (instruction_plan().way == analysis::Way::kElements) {
    guard_ = guard;
    EmitByWay();
    guard_ = nullptr;
    return;
  }
  Within(b.CreateAnd(mask_, Ballot(guard)), [&] { EmitByWay(); });
}

void FunctionEmitter::EmitByWay() {
  const auto& plan = instruction_plan();
  result_ = plan.result;
  result_anchor_ = nullptr;
  switch (plan.way) {
    case analysis::Way::kLoop:
      ForEachLane([&] { Dispatch(); });
      return;
    case analysis::Way::kElements:
      WithWidth(CountOf(plan.width), [&] {
        if (plan.anchor > 0)
          result_anchor_ = Anchor(operand(static_cast<std::size_t>(plan.anchor)));
        Dispatch();
      });
      return;
    default:
      WithWidth(1, [&] { Dispatch(); });
      return;
  }
}

}  // namespace cuspan::softgpu::emit
