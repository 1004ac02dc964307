// Values of a warp: expands the base values stored for a register's shape to an instruction's
// width, and back.
#include <llvm/IR/Constants.h>
#include <llvm/IR/Intrinsics.h>

#include <cstddef>

#include "proxy/softgpu/emit/function_emitter.h"
#include "proxy/softgpu/rt/abi.h"

namespace cuspan::softgpu::emit {
namespace {

using analysis::Shape;
using analysis::Spread;
using llvm::Value;
using ptx::Operand;
using ptx::SpecialRegister;

// Memory type of one element of a register; a byte for a predicate.
llvm::Type* InMemory(llvm::Type* type) {
  return type->isIntegerTy(1) ? llvm::Type::getInt8Ty(type->getContext()) : type;
}

llvm::Constant* Splat(unsigned count, llvm::Type* type, std::uint64_t value) {
  auto* const one = llvm::ConstantInt::get(type, value);
  return count == 1 ? one
                    : llvm::ConstantVector::getSplat(llvm::ElementCount::getFixed(count), one);
}

// Calls `of(lane)` for the 32 elements.
template <typename Of>
llvm::Constant* LaneConstants(llvm::LLVMContext& context, unsigned bits, Of of) {
  llvm::SmallVector<llvm::Constant*, 32> elements;
  for (unsigned lane = 0; lane < 32; ++lane)
    elements.push_back(llvm::ConstantInt::get(llvm::IntegerType::get(context, bits), of(lane)));
  return llvm::ConstantVector::get(elements);
}

}  // namespace

unsigned FunctionEmitter::CountOf(Spread spread) const {
  if (spread == Spread::kLanes) return 32;
  return spread == Spread::kRows ? layout().rows() : 1;
}

Value* FunctionEmitter::Same(Value* scalar) {
  return width_ == 1 ? scalar : b.CreateVectorSplat(width_, scalar);
}

Value* FunctionEmitter::Repeat(Value* value, unsigned width) {
  auto* const vector = llvm::dyn_cast<llvm::FixedVectorType>(value->getType());
  const unsigned count = vector == nullptr ? 1 : vector->getNumElements();
  if (count == width) return value;
  if (count == 1) return b.CreateVectorSplat(width, value);
  llvm::SmallVector<int, 32> from;
  for (unsigned i = 0; i < width; ++i) from.push_back(static_cast<int>(i / (width / count)));
  return b.CreateShuffleVector(value, from);
}

llvm::Constant* FunctionEmitter::LaneNumbers(unsigned bits) {
  return LaneConstants(context(), bits, [](unsigned lane) { return lane; });
}

llvm::Constant* FunctionEmitter::PlacesInRows(unsigned bits) {
  return LaneConstants(context(), bits, [&](unsigned lane) { return lane % layout().row; });
}

Value* FunctionEmitter::LaneBits(Value* word) {
  return b.CreateBitCast(word, llvm::FixedVectorType::get(b.getInt1Ty(), 32));
}

Value* FunctionEmitter::Ballot(Value* lanes) { return b.CreateBitCast(lanes, b.getInt32Ty()); }

Shape FunctionEmitter::ShapeOf(const Operand& operand, unsigned bits) const {
  return analysis::ShapeOf(function(), body(), operand, bits, warp_->registers, layout());
}

// Sums and products are modulo the width, as in shapes.
Value* FunctionEmitter::FromShape(Value* base, const Shape& shape, Value* anchor) {
  if (lane_ != nullptr) {
    auto* const vector = llvm::dyn_cast<llvm::FixedVectorType>(base->getType());
    const unsigned count = vector == nullptr ? 1 : vector->getNumElements();
    auto* const row = count == 32 ? lane_ : b.CreateUDiv(lane_, b.getInt32(layout().row));
    const auto own = [&](Value* values) {
      return values->getType()->isVectorTy() ? b.CreateExtractElement(values, row) : values;
    };
    Value* value = own(base);
    if (shape.flat()) return value;
    auto* const type = value->getType();
    auto* const place = b.CreateURem(lane_, b.getInt32(layout().row));
    auto* const stride = llvm::ConstantInt::get(type, static_cast<std::uint64_t>(shape.stride));
    value = b.CreateAdd(value, b.CreateMul(b.CreateZExtOrTrunc(place, type), stride));
    if (shape.extension == Shape::Extension::kNone) return value;
    const auto extend = [&](Value* index) {
      return shape.extension == Shape::Extension::kSign ? b.CreateSExt(index, type)
                                                        : b.CreateZExt(index, type);
    };
    auto* const first = own(anchor);
    auto* const narrow = b.getInt32(static_cast<std::uint32_t>(shape.narrow));
    auto* const index = b.CreateAdd(first, b.CreateMul(place, narrow));
    auto* const scale = llvm::ConstantInt::get(type, static_cast<std::uint64_t>(shape.scale));
    return b.CreateAdd(value, b.CreateMul(b.CreateSub(extend(index), extend(first)), scale));
  }
  Value* value = Repeat(base, width_);
  if (width_ != 32 || shape.flat()) return value;
  auto* const type = value->getType();
  const unsigned bits = type->getScalarSizeInBits();
  auto* const element = type->getScalarType();
  if (shape.stride != 0)
    value = b.CreateAdd(value,
                        b.CreateMul(PlacesInRows(bits),
                                    Splat(32, element, static_cast<std::uint64_t>(shape.stride))));
  if (shape.extension == Shape::Extension::kNone) return value;
  const auto extend = [&](Value* index) {
    return shape.extension == Shape::Extension::kSign ? b.CreateSExt(index, type)
                                                      : b.CreateZExt(index, type);
  };
  auto* const first = Repeat(anchor, 32);
  auto* const narrow = Splat(32, b.getInt32Ty(), static_cast<std::uint32_t>(shape.narrow));
  auto* const index = b.CreateAdd(first, b.CreateMul(PlacesInRows(32), narrow));
  return b.CreateAdd(value,
                     b.CreateMul(b.CreateSub(extend(index), extend(first)),
                                 Splat(32, element, static_cast<std::uint64_t>(shape.scale))));
}

Value* FunctionEmitter::LoadRegister(std::uint32_t index) {
  auto* const slot = registers_[index];
  auto* const type = slot->getAllocatedType();
  if (warp_ == nullptr) return b.CreateLoad(type, slot);
  const Shape& shape = warp_->registers[index];
  if (lane_ != nullptr && shape.spread == Spread::kLanes && before_loop_ != nullptr) {
    auto*& copy = loop_reads_[index];
    auto* const element = type->getScalarType();
    auto* const kept_as = InMemory(element);
    if (copy == nullptr) {
      copy = Scratch(kept_as);
      llvm::IRBuilder<> before(before_loop_->getTerminator());
      Value* value = before.CreateLoad(type, slot);
      if (kept_as != element)
        value = before.CreateZExt(value, llvm::FixedVectorType::get(kept_as, 32));
      before.CreateStore(value, copy);
    }
    auto* const value = b.CreateLoad(kept_as, ScratchOf(copy, lane_));
    return kept_as == element ? value : b.CreateTrunc(value, element);
  }
  auto* const anchor = anchors_[index] == nullptr
                           ? nullptr
                           : b.CreateLoad(anchors_[index]->getAllocatedType(), anchors_[index]);
  return FromShape(b.CreateLoad(type, slot), shape, anchor);
}

void FunctionEmitter::StoreRegister(std::uint32_t index, Value* value) {
  auto* const slot = registers_[index];
  if (warp_ == nullptr) {
    b.CreateStore(value, slot);
    return;
  }
  if (lane_ != nullptr) {
    auto* const kept_as = InMemory(value->getType());
    auto*& copy = loop_writes_[index];
    if (copy == nullptr) copy = Scratch(kept_as);
    b.CreateStore(b.CreateZExtOrBitCast(value, kept_as), ScratchOf(copy, lane_));
    return;
  }
  const Shape& shape = warp_->registers[index];
  if (shape.spread != Spread::kLanes) {
    const unsigned count = CountOf(shape.spread);
    b.CreateStore(Repeat(value, count), slot);
    if (anchors_[index] != nullptr) b.CreateStore(Repeat(result_anchor_, count), anchors_[index]);
    return;
  }
  if (width_ != 32)
    value = WithWidth(32, [&] { return FromShape(value, result_, result_anchor_); });
  const bool kept = kept_ != nullptr && kept_->Has(index);
  if (kept || guard_ != nullptr) {
    Value* lanes = guard_ == nullptr ? MaskVector() : guard_;
    if (kept && guard_ != nullptr) lanes = b.CreateAnd(guard_, MaskVector());
    value = b.CreateSelect(lanes, value, b.CreateLoad(slot->getAllocatedType(), slot));
  }
  b.CreateStore(value, slot);
}

Value* FunctionEmitter::Anchor(const Operand& operand) {
  if (operand.kind == Operand::Kind::kRegister && anchors_[operand.index] != nullptr) {
    auto* const slot = anchors_[operand.index];
    return Repeat(b.CreateLoad(slot->getAllocatedType(), slot), width_);
  }
  return Read(operand, ptx::Type::kU32);
}

llvm::AllocaInst* FunctionEmitter::Scratch(llvm::Type* type) {
  auto& slots = scratch_[type];
  std::size_t& used = scratch_used_[type];
  if (used == slots.size()) slots.push_back(Frame(llvm::FixedVectorType::get(type, 32), 64));
  return slots[used++];
}

Value* FunctionEmitter::ScratchOf(llvm::AllocaInst* scratch, Value* lane) {
  return b.CreateGEP(scratch->getAllocatedType()->getScalarType(), scratch,
                     b.CreateZExt(lane, b.getInt64Ty()));
}

void FunctionEmitter::ForEachLane(const std::function<void()>& body) {
  auto* const loop = NewBlock();
  auto* const done = NewBlock();
  before_loop_ = b.GetInsertBlock();
  b.CreateBr(loop);
  b.SetInsertPoint(loop);
  auto* const rest = b.CreatePHI(b.getInt32Ty(), 2);
  rest->addIncoming(mask_, before_loop_);
  auto* const lane = b.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, rest, b.getTrue());
  WithWidth(
      1, [&] { body(); }, lane);
  auto* const next = b.CreateAnd(rest, b.CreateSub(rest, b.getInt32(1)));
  rest->addIncoming(next, b.GetInsertBlock());
  b.CreateCondBr(b.CreateIsNull(next), done, loop);
  b.SetInsertPoint(done);
  for (const auto& [index, copy] : loop_writes_) {
    auto* const slot = registers_[index];
    auto* const type = slot->getAllocatedType();
    Value* value = b.CreateLoad(copy->getAllocatedType(), copy);
    if (value->getType() != type) value = b.CreateTrunc(value, type);
    b.CreateStore(b.CreateSelect(MaskVector(), value, b.CreateLoad(type, slot)), slot);
  }
  before_loop_ = nullptr;
  loop_reads_.clear();
  loop_writes_.clear();
}

// Calls a function of scalars for each element of a vector.
Value* FunctionEmitter::CallForLanes(std::string_view name, llvm::Type* result,
                                     llvm::ArrayRef<Value*> arguments, bool pure) {
  auto* const element = result->getScalarType();
  if (width_ != 32) {
    Value* results = llvm::PoisonValue::get(result);
    for (unsigned i = 0; i < width_; ++i) {
      llvm::SmallVector<Value*, 4> own;
      for (auto* argument : arguments)
        own.push_back(argument->getType()->isVectorTy() ? b.CreateExtractElement(argument, i)
                                                        : argument);
      auto* const one = WithWidth(1, [&] { return CallRuntime(name, element, own, pure); });
      results = b.CreateInsertElement(results, one, i);
    }
    return results;
  }
  llvm::SmallVector<llvm::AllocaInst*, 4> copies;
  for (auto* argument : arguments) {
    copies.push_back(nullptr);
    if (!argument->getType()->isVectorTy()) continue;
    copies.back() = Scratch(argument->getType()->getScalarType());
    b.CreateStore(argument, copies.back());
  }
  auto* const results = Scratch(element);
  b.CreateStore(llvm::Constant::getNullValue(result), results);
  ForEachLane([&] {
    llvm::SmallVector<Value*, 4> own;
    for (std::size_t i = 0; i < arguments.size(); ++i)
      own.push_back(copies[i] == nullptr ? arguments[i]
                                         : b.CreateLoad(arguments[i]->getType()->getScalarType(),
                                                        ScratchOf(copies[i], lane_)));
    b.CreateStore(CallRuntime(name, element, own, pure), ScratchOf(results, lane_));
  });
  return b.CreateLoad(result, results);
}

void FunctionEmitter::SelectLane() {
  auto* const lane =
      lane_ != nullptr ? lane_ : b.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, mask_, b.getTrue());
  CallRuntime("cuspan_rt_select_lane", b.getVoidTy(), {ContextPointer(), lane});
}

bool FunctionEmitter::IsOwnVariable(std::uint32_t index) const {
  const auto space = body().variables[index].space;
  const bool formal = index < body().formal_registers.size();
  return (space == ptx::Space::kLocal || space == ptx::Space::kParam) &&
         !(function().entry && formal);
}

Value* FunctionEmitter::OwnVariableValue(const Operand& operand) {
  const Shape shape = ShapeOf(operand, 64);
  const unsigned count = CountOf(shape.spread);
  auto* const first = b.CreatePtrToInt(FrameAddress(operand.index), b.getInt64Ty());
  Value* base =
      Repeat(b.CreateAdd(first, b.getInt64(static_cast<std::uint64_t>(operand.offset))), count);
  if (count > 1) {
    const std::uint64_t bytes = analysis::LaneBytes(body().variables[operand.index]) * (32 / count);
    llvm::SmallVector<llvm::Constant*, 32> offsets;
    for (unsigned i = 0; i < count; ++i) offsets.push_back(b.getInt64(i * bytes));
    base = b.CreateAdd(base, llvm::ConstantVector::get(offsets));
  }
  return FromShape(base, shape, nullptr);
}

// Number of each row in the block; each lane's thread number for layouts without rows.
Value* FunctionEmitter::RowIndices() {
  const unsigned count = 32 / layout().row;
  auto* const warp = ContextField(offsetof(ThreadContext, warp), b.getInt32Ty());
  auto* const first = b.CreateMul(warp, b.getInt32(count));
  llvm::SmallVector<llvm::Constant*, 32> numbers;
  for (unsigned i = 0; i < count; ++i) numbers.push_back(b.getInt32(i));
  return b.CreateAdd(b.CreateVectorSplat(count, first), llvm::ConstantVector::get(numbers));
}

Value* FunctionEmitter::ReadWarpSpecial(SpecialRegister which) {
  using R = SpecialRegister;
  const Shape shape = analysis::ShapeOf(which, layout());
  const auto with_lane = [&](auto of) {
    return LaneConstants(context(), 32, [&](unsigned lane) {
      return static_cast<std::uint32_t>(of(std::uint32_t{1} << lane));
    });
  };
  const auto field = [&](unsigned i) {
    return ContextField(offsetof(ThreadContext, first_tid) + i * sizeof(std::uint32_t),
                        b.getInt32Ty());
  };
  const auto extent = [&](unsigned i, unsigned count) {
    return Repeat(
        ContextField(offsetof(ThreadContext, ntid) + i * sizeof(std::uint32_t), b.getInt32Ty()),
        count);
  };
  // Numbers are below 2048: the error of the float quotient is far less than the half added.
  const auto divide = [&](Value* x, Value* y) {
    auto* const type = llvm::FixedVectorType::get(
        b.getFloatTy(), llvm::cast<llvm::FixedVectorType>(x->getType())->getNumElements());
    auto* const half = llvm::ConstantFP::get(type, 0.5);
    auto* const quotient =
        b.CreateFDiv(b.CreateFAdd(b.CreateUIToFP(x, type), half), b.CreateUIToFP(y, type));
    return b.CreateFPToUI(quotient, x->getType());
  };
  const auto remainder = [&](Value* x, Value* y) {
    return b.CreateSub(x, b.CreateMul(divide(x, y), y));
  };
  const auto thread_index = [&](unsigned i) -> Value* {
    auto*& made = special_[i];
    if (made != nullptr) return made;
    const auto point = b.saveIP();
    b.SetInsertPoint(entry_);
    if (layout().row == 32) {
      made = field(i);
    } else if (layout().row != 1 && i == 0) {
      made = b.getInt32(0);
    } else {
      // Rows are numbered along y, then z; single lanes along x first.
      Value* number = RowIndices();
      const unsigned count = layout().rows();
      if (layout().row == 1) {
        auto* const nx = extent(0, count);
        if (i == 0) {
          number = remainder(number, nx);
        } else {
          number = divide(number, nx);
        }
      }
      if (i == 1) number = remainder(number, extent(1, count));
      if (i == 2) number = divide(number, extent(1, count));
      made = number;
    }
    b.restoreIP(point);
    return made;
  };
  Value* base = nullptr;
  switch (which) {
    case R::kTidX:
    case R::kTidY:
    case R::kTidZ:
      base = thread_index(static_cast<unsigned>(which) - static_cast<unsigned>(R::kTidX));
      break;
    case R::kLaneid: {
      const unsigned count = CountOf(shape.spread);
      llvm::SmallVector<llvm::Constant*, 32> numbers;
      for (unsigned i = 0; i < count; ++i) numbers.push_back(b.getInt32(i * (32 / count)));
      base = count == 1 ? numbers[0] : llvm::ConstantVector::get(numbers);
      break;
    }
    case R::kLanemaskEq:
      base = with_lane([](std::uint32_t bit) { return bit; });
      break;
    case R::kLanemaskLt:
      base = with_lane([](std::uint32_t bit) { return bit - 1; });
      break;
    case R::kLanemaskLe:
      base = with_lane([](std::uint32_t bit) { return bit | (bit - 1); });
      break;
    case R::kLanemaskGt:
      base = with_lane([](std::uint32_t bit) { return ~(bit | (bit - 1)); });
      break;
    case R::kLanemaskGe:
      base = with_lane([](std::uint32_t bit) { return ~(bit - 1); });
      break;
    default:
      base = WithWidth(1, [&] { return ReadSpecial(which); });
      break;
  }
  return FromShape(base, shape, nullptr);
}

}  // namespace cuspan::softgpu::emit
