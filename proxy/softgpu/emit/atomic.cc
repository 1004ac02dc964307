// Atomic operations and fences. (PTX ISA, "Parallel Synchronization and
// Communication Instructions": atom, red, membar, fence)
#include "proxy/softgpu/emit/families.h"
#include "proxy/softgpu/emit/memory_order.h"
#include "proxy/softgpu/emit/operations.h"

namespace cuspan::softgpu::emit {
namespace {

using llvm::AtomicRMWInst;
using llvm::Value;
using ptx::Space;
using ptx::Type;

// On x86, every locked instruction orders all memory accesses; this only prevents reordering by
// LLVM.
constexpr auto kOrdering = llvm::AtomicOrdering::AcquireRelease;

// Returns the operation named by a modifier, for the type; BAD_BINOP without a matching
// instruction.
AtomicRMWInst::BinOp ConsumeOperation(FunctionEmitter& e, Type type) {
  const bool is_float = ptx::IsFloat(type);
  if (e.Consume("add")) return is_float ? AtomicRMWInst::FAdd : AtomicRMWInst::Add;
  if (e.Consume("exch")) return AtomicRMWInst::Xchg;
  if (is_float) return AtomicRMWInst::BAD_BINOP;
  const bool is_signed = ptx::IsSigned(type);
  if (e.Consume("min")) return is_signed ? AtomicRMWInst::Min : AtomicRMWInst::UMin;
  if (e.Consume("max")) return is_signed ? AtomicRMWInst::Max : AtomicRMWInst::UMax;
  if (e.Consume("and")) return AtomicRMWInst::And;
  if (e.Consume("or")) return AtomicRMWInst::Or;
  if (e.Consume("xor")) return AtomicRMWInst::Xor;
  if (e.Consume("inc")) return AtomicRMWInst::UIncWrap;
  if (e.Consume("dec")) return AtomicRMWInst::UDecWrap;
  return AtomicRMWInst::BAD_BINOP;
}

// Replaces the `bits` at `address` by the result of `change`, in a compare-and-swap loop; returns
// the old ones.
template <typename Change>
Value* UpdateInLoop(FunctionEmitter& e, Value* address, unsigned bits, Change change) {
  const llvm::Align alignment(bits / 8);
  auto* const first = e.b.CreateAlignedLoad(e.Int(bits), address, alignment);
  first->setAtomic(llvm::AtomicOrdering::Monotonic);
  auto* const before = e.b.GetInsertBlock();
  auto* const function = before->getParent();
  auto* const loop = llvm::BasicBlock::Create(e.context(), "", function);
  auto* const done = llvm::BasicBlock::Create(e.context(), "", function);
  e.b.CreateBr(loop);
  e.b.SetInsertPoint(loop);
  auto* const expected = e.b.CreatePHI(e.Int(bits), 2);
  expected->addIncoming(first, before);
  auto* const exchange = e.b.CreateAtomicCmpXchg(address, expected, change(expected), alignment,
                                                 kOrdering, llvm::AtomicOrdering::Monotonic);
  auto* const found = e.b.CreateExtractValue(exchange, 0);
  expected->addIncoming(found, e.b.GetInsertBlock());
  e.b.CreateCondBr(e.b.CreateExtractValue(exchange, 1), done, loop);
  e.b.SetInsertPoint(done);
  return found;
}

// Adds f16, bf16 and pairs of them.
Value* AddHalves(FunctionEmitter& e, Value* address, Value* addend, Type type) {
  const auto add = [&](llvm::ArrayRef<Value*> inputs, Type element) {
    auto* const sum = FloatArithmetic(e, FloatOperation::kAdd, Widen(e, inputs[0], element),
                                      Widen(e, inputs[1], element), Rounding::kNearest);
    return Narrow(e, sum, element);
  };
  const unsigned bits = ptx::BitsOf(type);
  return UpdateInLoop(e, address, bits, [&](Value* old) -> Value* {
    if (ptx::IsPacked(type)) return ForHalves(e, type, {old, addend}, add);
    return e.b.CreateBitCast(add({e.b.CreateBitCast(old, e.TypeOf(type)), addend}, type),
                             e.Int(bits));
  });
}

// Updates the memory at operand `first` with the operands behind it; returns the old value.
Value* EmitUpdate(FunctionEmitter& e, std::size_t first) {
  const Type type = e.type();
  const unsigned bits = ptx::BitsOf(type);
  const Space space = e.ConsumeSpace();
  ConsumeMemoryOrder(e);
  ConsumeCacheHints(e);
  e.Consume("noftz");
  auto* const address = e.Address(e.operand(first), space, ptx::BytesOf(type));
  Value* value = e.Read(first + 1, type);
  const bool is_swap = e.Consume("cas");
  if (e.operand_count() != first + (is_swap ? 3 : 2)) e.Reject("the number of operands is wrong");
  if (e.failed()) return e.ConstInt(bits, 0);
  const llvm::Align alignment(ptx::BytesOf(type));
  if (is_swap) {
    auto* const exchange =
        e.b.CreateAtomicCmpXchg(address, value, e.Read(first + 2, type), alignment, kOrdering,
                                llvm::AtomicOrdering::Acquire);
    return e.b.CreateExtractValue(exchange, 0);
  }
  if ((TypeSetOf(type) & (kHalves | kPacked)) != 0) {
    if (!e.Consume("add")) e.Refuse("only .add is implemented for this type");
    return e.failed() ? e.ConstInt(bits, 0) : AddHalves(e, address, value, type);
  }
  const auto operation = ConsumeOperation(e, type);
  if (operation == AtomicRMWInst::BAD_BINOP) {
    e.Refuse("this operation is not implemented");
    return e.ConstInt(bits, 0);
  }
  return e.b.CreateAtomicRMW(operation, address, value, alignment, kOrdering);
}

void EmitAtom(FunctionEmitter& e) {
  auto* const old = EmitUpdate(e, 1);
  if (e.failed()) return;
  const Type type = (TypeSetOf(e.type()) & (kHalves | kPacked)) != 0
                        ? ptx::BitsType(ptx::BitsOf(e.type()))
                        : e.type();
  e.Write(old, type);
}

void EmitRed(FunctionEmitter& e) {
  e.Consume("async");
  if (e.instruction().Has("async")) {
    e.Refuse("red.async is not implemented");
    return;
  }
  EmitUpdate(e, 0);
}

// membar.{cta,gl,sys} and fence{.sem}.scope; fence.proxy.* orders views of memory identical here.
void EmitFence(FunctionEmitter& e) {
  for (auto modifier : e.instruction().modifiers) e.Consume(modifier);
  // An acquiring fence of tensor maps has an address and a size.
  if (e.operand_count() > 0 && !e.instruction().Has("tensormap::generic"))
    e.Reject("it has no operands");
  const bool block_only = e.instruction().Has("cta") && !e.instruction().Has("sc");
  e.b.CreateFence(block_only ? llvm::AtomicOrdering::AcquireRelease
                             : llvm::AtomicOrdering::SequentiallyConsistent);
  if (e.module().host().check_accesses)
    e.CallRuntime("cuspan_rt_check_fence", e.b.getVoidTy(), {e.ContextPointer()});
}

constexpr std::uint16_t kUpdatable = kIntegers | kFloats | kHalves | kPacked;
constexpr Opcode kAtomicOpcodes[] = {
    {"atom", 3, 4, kUpdatable, EmitAtom},
    {"red", 2, 2, kUpdatable, EmitRed},
    {"membar", 0, 0, kNoType, EmitFence},
    {"fence", 0, 2, kNoType, EmitFence},
};

}  // namespace

std::span<const Opcode> AtomicOpcodes() { return kAtomicOpcodes; }

}  // namespace cuspan::softgpu::emit
