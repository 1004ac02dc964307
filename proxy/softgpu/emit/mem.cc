// Data movement: mov, ld, st, address conversion, copies. (PTX ISA, "Data
// Movement and Conversion Instructions")
#include <cstddef>

#include "proxy/softgpu/emit/access.h"
#include "proxy/softgpu/emit/families.h"
#include "proxy/softgpu/emit/memory_order.h"
#include "proxy/softgpu/rt/abi.h"

namespace cuspan::softgpu::emit {

using llvm::Value;
using ptx::Operand;
using ptx::Space;
using ptx::Type;

MemoryOrder ConsumeMemoryOrder(FunctionEmitter& e) {
  MemoryOrder order;
  // PTX's .volatile is .relaxed.sys, but must not be combined or removed.
  if (e.Consume("volatile") || e.Consume("mmio")) order = {llvm::AtomicOrdering::Monotonic, true};
  if (e.Consume("relaxed")) order.ordering = llvm::AtomicOrdering::Monotonic;
  if (e.Consume("acquire")) order.ordering = llvm::AtomicOrdering::Acquire;
  if (e.Consume("release")) order.ordering = llvm::AtomicOrdering::Release;
  if (e.Consume("acq_rel")) order.ordering = llvm::AtomicOrdering::AcquireRelease;
  if (e.Consume("sc")) order.ordering = llvm::AtomicOrdering::SequentiallyConsistent;
  e.Consume("weak");
  // All scopes mean the whole machine here.
  for (std::string_view scope : {"cta", "cluster", "gpu", "sys"}) e.Consume(scope);
  return order;
}

void ConsumeCacheHints(FunctionEmitter& e) {
  for (std::string_view hint : {"ca", "cg", "cs", "lu", "wb", "wt", "nc", "unified"})
    e.Consume(hint);
  for (auto modifier : e.instruction().modifiers) {
    const auto level = modifier.substr(0, 4);
    const bool is_policy = modifier == "L2::cache_hint";
    if ((level == "L1::" || level == "L2::") && !is_policy) e.Consume(modifier);
  }
}

namespace {

unsigned ConsumeVectorLength(FunctionEmitter& e) {
  if (e.Consume("v2")) return 2;
  if (e.Consume("v4")) return 4;
  if (e.Consume("v8")) return 8;
  return 1;
}

}  // namespace

llvm::ArrayRef<Operand> Elements(FunctionEmitter& e, std::size_t i, unsigned length) {
  const Operand& operand = e.operand(i);
  if (length == 1 && operand.kind != Operand::Kind::kVector) return operand;
  if (operand.kind != Operand::Kind::kVector || operand.elements.size() != length)
    e.Reject(Format("{} registers in braces are expected", length));
  return operand.elements;
}

Access ConsumeAccess(FunctionEmitter& e) {
  Access access{};
  access.type = e.type();
  access.length = ConsumeVectorLength(e);
  access.space = e.ConsumeSpace();
  access.order = ConsumeMemoryOrder(e);
  if (e.Consume("cv")) access.order = {llvm::AtomicOrdering::Monotonic, true};
  ConsumeCacheHints(e);
  if (access.order.is_atomic() && ptx::BitsOf(access.type) > 64)
    e.Refuse("an atomic access of 128 bits is not implemented");
  return access;
}

Value* ElementAddress(FunctionEmitter& e, const Access& access, Value* address, unsigned index) {
  return index == 0
             ? address
             : e.b.CreateConstGEP1_64(e.b.getInt8Ty(), address, index * ptx::BytesOf(access.type));
}

namespace {

// True for a kernel's parameter; it is constant while the kernel runs.
bool IsKernelParameter(FunctionEmitter& e, const Operand& address) {
  if (!e.function().entry || address.elements.empty()) return false;
  const Operand& base = address.elements[0];
  return base.kind == Operand::Kind::kVariable && base.index < e.body().formal_registers.size();
}

}  // namespace

llvm::SmallVector<Value*, 8> LoadElements(FunctionEmitter& e, const Access& access, Value* from) {
  llvm::SmallVector<Value*, 8> values;
  for (unsigned i = 0; i < access.length; ++i) {
    auto* const address = ElementAddress(e, access, from, i);
    if (access.order.is_atomic()) {
      auto* const load =
          e.b.CreateAlignedLoad(e.Int(ptx::BitsOf(access.type)), address,
                                llvm::Align(ptx::BytesOf(access.type)), access.order.is_volatile);
      load->setAtomic(access.order.ForLoad());
      values.push_back(e.b.CreateBitCast(load, e.TypeOf(access.type)));
      continue;
    }
    // Alignment 1 costs nothing on x86, and avoids undefined behaviour of misaligned pointers.
    auto* const load = e.b.CreateAlignedLoad(e.TypeOf(access.type), address, llvm::Align(1));
    const bool parameter = IsKernelParameter(e, e.operand(1));
    if (parameter)
      load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(e.context(), {}));
    // Unwritten local memory has an arbitrary but constant value, hence the freeze. Parameters are
    // always written. They reach most values of a kernel, and LLVM repeats its analysis for each
    // freeze.
    values.push_back(access.may_be_frame() && !parameter ? e.b.CreateFreeze(load) : load);
  }
  return values;
}

void StoreElements(FunctionEmitter& e, const Access& access, Value* to,
                   llvm::ArrayRef<Value*> values) {
  for (unsigned i = 0; i < access.length; ++i) {
    auto* const address = ElementAddress(e, access, to, i);
    if (access.order.is_atomic()) {
      auto* const store = e.b.CreateAlignedStore(
          e.b.CreateBitCast(values[i], e.Int(ptx::BitsOf(access.type))), address,
          llvm::Align(ptx::BytesOf(access.type)), access.order.is_volatile);
      store->setAtomic(access.order.ForStore());
    } else {
      e.b.CreateAlignedStore(values[i], address, llvm::Align(1));
    }
  }
}

namespace {

// A cache policy is an operand behind the others, and ignored.
void ConsumePolicy(FunctionEmitter& e) {
  const std::size_t operands = e.Consume("L2::cache_hint") ? 3 : 2;
  if (e.instruction().operands.size() != operands)
    e.Reject(Format("{} operands are expected", operands));
}

void EmitLd(FunctionEmitter& e) {
  const Access access = ConsumeAccess(e);
  ConsumePolicy(e);
  const auto destinations = Elements(e, 0, access.length);
  if (e.failed()) return;
  if (e.warp() != nullptr && !e.in_lane_loop()) {
    EmitWarpLoad(e, access, destinations);
    return;
  }
  auto* const address = e.Address(e.operand(1), access.space, access.bytes());
  if (e.failed()) return;
  // All elements are read before the first write: a destination may be the address.
  const auto values = LoadElements(e, access, address);
  for (unsigned i = 0; i < access.length; ++i) e.Write(destinations[i], values[i], access.type);
}

void EmitSt(FunctionEmitter& e) {
  const Access access = ConsumeAccess(e);
  ConsumePolicy(e);
  const auto sources = Elements(e, 1, access.length);
  if (e.failed()) return;
  if (e.warp() != nullptr && !e.in_lane_loop()) {
    EmitWarpStore(e, access, sources);
    return;
  }
  auto* const address = e.Address(e.operand(0), access.space, access.bytes());
  if (e.failed()) return;
  llvm::SmallVector<Value*, 8> values;
  for (const auto& source : sources) values.push_back(e.Read(source, access.type));
  if (!e.failed()) StoreElements(e, access, address, values);
}

// mov.b64 {a, b}, c: the parts of c, lowest first.
void Unpack(FunctionEmitter& e) {
  const auto& parts = e.operand(0).elements;
  const unsigned bits = ptx::BitsOf(e.type());
  const unsigned part_bits = parts.empty() ? 0 : bits / static_cast<unsigned>(parts.size());
  const Type part = ptx::BitsType(part_bits);
  if (part == Type::kNone || part_bits * parts.size() != bits) {
    e.Reject("the parts do not add up to the type");
    return;
  }
  Value* const value = e.b.CreateBitCast(e.Read(1, e.type()), e.Int(bits));
  for (std::size_t i = 0; i < parts.size(); ++i)
    e.Write(
        parts[i],
        e.b.CreateTrunc(e.b.CreateLShr(value, e.ConstInt(bits, i * part_bits)), e.Int(part_bits)),
        part);
}

// mov.b64 c, {a, b}
void Pack(FunctionEmitter& e) {
  const auto& parts = e.operand(1).elements;
  const unsigned bits = ptx::BitsOf(e.type());
  const unsigned part_bits = parts.empty() ? 0 : bits / static_cast<unsigned>(parts.size());
  const Type part = ptx::BitsType(part_bits);
  if (part == Type::kNone || part_bits * parts.size() != bits) {
    e.Reject("the parts do not add up to the type");
    return;
  }
  Value* value = e.ConstInt(bits, 0);
  for (std::size_t i = 0; i < parts.size(); ++i)
    value = e.b.CreateOr(value, e.b.CreateShl(e.b.CreateZExt(e.Read(parts[i], part), e.Int(bits)),
                                              e.ConstInt(bits, i * part_bits)));
  e.Write(value, ptx::BitsType(bits));
}

void EmitMov(FunctionEmitter& e) {
  if (e.operand(0).kind == Operand::Kind::kVector) {
    Unpack(e);
  } else if (e.operand(1).kind == Operand::Kind::kVector) {
    Pack(e);
  } else {
    e.Write(e.Read(1, e.type()), e.type());
  }
}

// cvta.space.u64 (to generic) and cvta.to.space.u64 (from generic). Only shared addresses change.
void EmitCvta(FunctionEmitter& e) {
  const bool to_space = e.Consume("to");
  const Space space = e.ConsumeSpace();
  if (space == Space::kGeneric) e.Reject("it names no state space");
  if (ptx::BitsOf(e.type()) != 64) e.Reject("addresses have 64 bits");
  if (e.failed()) return;
  Value* address = e.Read(1, Type::kU64);
  if (space == Space::kShared) {
    auto* const base = e.Same(e.b.CreatePtrToInt(e.SharedBase(), e.b.getInt64Ty()));
    address = to_space ? e.b.CreateSub(address, base) : e.b.CreateAdd(address, base);
  }
  e.Write(address, Type::kU64);
}

Value* IsShared(FunctionEmitter& e, Value* address) {
  auto* const base = e.b.CreatePtrToInt(e.SharedBase(), e.Int(64));
  auto* const bytes =
      e.b.CreateZExt(e.ContextField(offsetof(ThreadContext, shared_bytes), e.Int(32)), e.Int(64));
  return e.b.CreateICmpULT(e.b.CreateSub(address, base), bytes);
}

Value* IsLocal(FunctionEmitter& e, Value* address) {
  // Its inputs are constant while the thread runs.
  constexpr bool kPure = true;
  auto* const is_local =
      e.CallRuntime("cuspan_rt_is_local", e.Int(32), {e.ContextPointer(), address}, kPure);
  return e.b.CreateICmpNE(is_local, e.ConstInt(32, 0));
}

Value* IsConstant(FunctionEmitter& e, Value* address) {
  Value* result = e.b.getFalse();
  for (const auto& variable : e.module().ptx().variables) {
    if (variable.space != Space::kConst) continue;
    auto* const base = e.b.CreatePtrToInt(e.module().VariableAddress(variable.name), e.Int(64));
    result = e.b.CreateOr(
        result, e.b.CreateICmpULT(e.b.CreateSub(address, base), e.ConstInt(64, variable.bytes)));
  }
  return result;
}

Value* IsParameter(FunctionEmitter& e, Value* address) {
  std::uint64_t bytes = 0;
  for (const auto& parameter : e.module().kernel().signature.parameters)
    bytes += parameter.bytes + parameter.alignment;
  auto* const base =
      e.b.CreatePtrToInt(e.ContextField(offsetof(ThreadContext, params), e.Pointer()), e.Int(64));
  return e.b.CreateICmpULT(e.b.CreateSub(address, base), e.ConstInt(64, bytes));
}

void EmitIsspacep(FunctionEmitter& e) {
  const Space space = e.ConsumeSpace();
  auto* const address = e.Read(1, Type::kU64);
  Value* result = e.b.getFalse();
  switch (space) {
    case Space::kShared:
      result = IsShared(e, address);
      break;
    case Space::kLocal:
      result = IsLocal(e, address);
      break;
    case Space::kConst:
      result = IsConstant(e, address);
      break;
    case Space::kParam:
      result = IsParameter(e, address);
      break;
    case Space::kGlobal:  // All other windows excluded; parameters are within this one.
      result = e.b.CreateNot(e.b.CreateOr(e.b.CreateOr(IsShared(e, address), IsLocal(e, address)),
                                          IsConstant(e, address)));
      break;
    default:
      e.Reject("it names no state space");
  }
  e.Write(result, Type::kPred);
}

// Hints without effect, with any modifiers.
void EmitHint(FunctionEmitter& e) {
  for (auto modifier : e.instruction().modifiers) e.Consume(modifier);
}

// Cache policies are ignored.
void EmitCreatepolicy(FunctionEmitter& e) {
  EmitHint(e);
  e.Write(e.ConstInt(64, 0), Type::kB64);
}

constexpr std::uint16_t kStorable = kBytes | kIntegers | kWide | kFloats | kHalves | kPacked;
constexpr Opcode kMemoryOpcodes[] = {
    {"ld", 2, 3, kStorable, EmitLd},
    {"ldu", 2, 2, kStorable, EmitLd},
    {"st", 2, 3, kStorable, EmitSt},
    {"mov", 2, 2, kPredicates | kIntegers | kWide | kFloats | kHalves | kPacked, EmitMov},
    {"cvta", 2, 2, kIntegers, EmitCvta},
    {"isspacep", 2, 2, kNoType, EmitIsspacep},
    {"prefetch", 1, 2, kNoType, EmitHint},
    {"prefetchu", 1, 1, kNoType, EmitHint},
    {"discard", 2, 2, kNoType, EmitHint},
    {"applypriority", 2, 2, kNoType, EmitHint},
    {"createpolicy", 1, 4, kIntegers, EmitCreatepolicy},
};

}  // namespace

std::span<const Opcode> MemoryOpcodes() { return kMemoryOpcodes; }

}  // namespace cuspan::softgpu::emit
