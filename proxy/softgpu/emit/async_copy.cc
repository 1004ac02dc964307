// Asynchronous copies, and their tensor maps. Copies are done at once, so waits for groups of
// copies do nothing. (PTX ISA, "cp.async", "cp.async.bulk", "cp.async.bulk.tensor",
// "tensormap.replace")
#include <algorithm>
#include <optional>

#include "proxy/softgpu/emit/families.h"
#include "proxy/softgpu/emit/lane_words.h"
#include "proxy/softgpu/emit/memory_order.h"
#include "proxy/softgpu/emit/operations.h"
#include "proxy/softgpu/rt/abi.h"
#include "proxy/softgpu/rt/tensor_operation.h"

namespace cuspan::softgpu::emit {
namespace {

using llvm::Value;
using ptx::Operand;
using ptx::Space;
using ptx::Type;

constexpr std::uint64_t kTensorMapBytes = 128;

// Calls the runtime, and sets the calling thread for its error messages.
void CallForThread(FunctionEmitter& e, std::string_view name, llvm::ArrayRef<Value*> arguments) {
  if (e.warp() != nullptr) e.SelectLane();
  e.CallRuntime(name, e.b.getVoidTy(), arguments);
}

// --- Bulk copies

struct BulkSpaces {
  Space to = Space::kGeneric, from = Space::kGeneric;
};

// Reads destination and source: the first two state spaces among the modifiers.
BulkSpaces ConsumeSpaces(FunctionEmitter& e) {
  BulkSpaces spaces;
  for (const std::string_view modifier : e.instruction().modifiers) {
    const bool global = modifier == "global";
    if (!global && modifier != "shared::cta" && modifier != "shared::cluster") continue;
    e.Consume(modifier);
    Space& space = spaces.to == Space::kGeneric ? spaces.to : spaces.from;
    space = global ? Space::kGlobal : Space::kShared;
  }
  return spaces;
}

// Reads .L2::cache_hint (its operand is the last one), and hints without operands. A cluster is one
// block, so a multicast copy goes only to this block.
void ConsumeBulkHints(FunctionEmitter& e) {
  e.Consume("L2::cache_hint");
  e.Consume("multicast::cluster");
  ConsumeCacheHints(e);
}

// Signals the completion of the copy: to the barrier in operand `i`, or to the thread's group.
void EmitCompletion(FunctionEmitter& e, std::size_t i, Value* bytes) {
  if (e.Consume("bulk_group") || e.failed()) return;
  if (!e.Consume("mbarrier::complete_tx::bytes")) {
    e.Refuse("this way of completion is not implemented");
    return;
  }
  e.CallRuntime("cuspan_mbarrier_complete", e.b.getVoidTy(),
                {e.Address(e.operand(i), Space::kShared, kBarrierBytes), bytes});
}

std::optional<Reduction> ConsumeReduction(FunctionEmitter& e) {
  static constexpr struct {
    std::string_view name;
    Reduction reduction;
  } kReductions[] = {
      {"add", Reduction::kAdd}, {"min", Reduction::kMin}, {"max", Reduction::kMax},
      {"inc", Reduction::kInc}, {"dec", Reduction::kDec}, {"and", Reduction::kAnd},
      {"or", Reduction::kOr},   {"xor", Reduction::kXor},
  };
  for (const auto& known : kReductions)
    if (e.Consume(known.name)) return known.reduction;
  e.Reject("it names no reduction");
  return std::nullopt;
}

std::optional<Element> ElementOf(Type type) {
  switch (type) {
    case Type::kB32:
    case Type::kU32:
      return Element::kU32;
    case Type::kS32:
      return Element::kS32;
    case Type::kB64:
    case Type::kU64:
      return Element::kU64;
    case Type::kS64:
      return Element::kS64;
    case Type::kF16:
      return Element::kF16;
    case Type::kBf16:
      return Element::kBf16;
    case Type::kF32:
      return Element::kF32;
    case Type::kF64:
      return Element::kF64;
    default:
      return std::nullopt;
  }
}

// Checks the thread's access to the whole range, in checking mode only.
void CheckBulk(FunctionEmitter& e, Value* address, Space space, Value* bytes, bool writes) {
  if (!e.module().host().check_accesses) return;
  const std::uint32_t kind =
      (writes ? kCheckWrite : 0) | (space == Space::kShared ? kCheckShared : 0) | kCheckAlone;
  e.CallRuntime(
      "cuspan_rt_check", e.b.getVoidTy(),
      {e.ContextPointer(), address, e.b.CreateZExt(bytes, e.Int(64)), e.b.getInt32(1),
       e.b.getInt32(kind), e.module().Text(Format("{}: '{}'", e.Where(), e.instruction().Name()))});
}

// cp{.reduce}.async.bulk.to.from.completion{.operation.type} [to], [from], bytes{, [barrier]}
// {, policy}
void EmitBulkCopy(FunctionEmitter& e, bool reduces) {
  const BulkSpaces spaces = ConsumeSpaces(e);
  ConsumeBulkHints(e);
  if (spaces.to == Space::kGeneric || spaces.from == Space::kGeneric || e.operand_count() < 3) {
    e.Refuse("only copies between .global and .shared are implemented");
    return;
  }
  auto* const to = e.Address(e.operand(0), spaces.to, 0);
  auto* const from = e.Address(e.operand(1), spaces.from, 0);
  auto* const bytes = e.Read(2, Type::kU32);
  if (e.failed()) return;
  CheckBulk(e, to, spaces.to, bytes, true);
  CheckBulk(e, from, spaces.from, bytes, false);
  if (reduces) {
    e.Consume("noftz");
    const auto reduction = ConsumeReduction(e);
    const auto element = ElementOf(e.type());
    if (!reduction || !element || !MayReduce(*element, *reduction)) {
      e.Reject("there is no such reduction of this type");
      return;
    }
    CallForThread(e, "cuspan_rt_bulk_reduce",
                  {e.ContextPointer(), e.b.getInt32(static_cast<std::uint32_t>(*element)),
                   e.b.getInt32(static_cast<std::uint32_t>(*reduction)), to, from, bytes});
  } else {
    e.b.CreateMemCpy(to, llvm::MaybeAlign(1), from, llvm::MaybeAlign(1), bytes);
  }
  EmitCompletion(e, 3, bytes);
}

// --- Tensors

// Reads .1d … .5d; returns 0 without one.
std::uint8_t ConsumeDimensions(FunctionEmitter& e) {
  static constexpr std::string_view kNames[] = {"1d", "2d", "3d", "4d", "5d"};
  for (std::uint8_t i = 0; i < 5; ++i)
    if (e.Consume(kNames[i])) return i + 1;
  e.Reject("the number of dimensions is missing");
  return 0;
}

// Returns true for pixels (.im2col, or .im2col_no_offs of stores), false for a tile.
bool TakeIm2col(FunctionEmitter& e) {
  e.Consume("tile");
  return e.Consume("im2col") || e.Consume("im2col_no_offs");
}

void PutWords(FunctionEmitter& e, LaneWords& words, const Operand& vector, unsigned first,
              unsigned count, Type type) {
  if (vector.kind != Operand::Kind::kVector || vector.elements.size() != count) {
    e.Reject("a vector has the wrong number of elements");
    return;
  }
  for (unsigned i = 0; i < count && !e.failed(); ++i)
    words.Put(first + i, e.b.CreateZExt(e.Read(vector.elements[i], type), e.Int(32)));
}

// Reads operand `i`, [map, {coordinates}]; returns the address of the map.
Value* ReadTensor(FunctionEmitter& e, LaneWords& words, std::size_t i, unsigned dimensions) {
  Operand map = e.operand(i);
  if (map.kind != Operand::Kind::kAddress || map.elements.size() != 2) {
    e.Reject("'[map, coordinates]' is expected");
    return nullptr;
  }
  PutWords(e, words, map.elements[1], 0, dimensions, Type::kB32);
  map.elements.resize(1);
  return e.failed() ? nullptr : e.Address(map, Space::kGeneric, 0);
}

// cp.async.bulk.tensor.dim.shared.global{.mode}.completion [to], [map, c], [barrier]{, offsets}
// {, blocks}{, policy}
// cp{.reduce}.async.bulk.tensor.dim.global.shared{.operation}{.mode}.bulk_group [map, c], [from]
// {, policy}
void EmitTensorCopy(FunctionEmitter& e, bool reduces) {
  TensorOperation operation;
  operation.dimensions = ConsumeDimensions(e);
  operation.im2col = TakeIm2col(e);
  const BulkSpaces spaces = ConsumeSpaces(e);
  ConsumeBulkHints(e);
  const bool loads = spaces.to == Space::kShared && spaces.from == Space::kGlobal && !reduces;
  if (!loads && (spaces.to != Space::kGlobal || spaces.from != Space::kShared))
    e.Reject("tensors are copied only between .global and .shared");
  if (reduces) {
    operation.kind = TensorCopyKind::kReduce;
    operation.reduction = ConsumeReduction(e).value_or(Reduction::kAdd);
  } else if (!loads) {
    operation.kind = TensorCopyKind::kStore;
  }
  if (e.failed()) return;
  LaneWords words(e, kTensorWords);
  auto* const map = ReadTensor(e, words, loads ? 1 : 0, operation.dimensions);
  if (loads && operation.im2col) {
    if (operation.dimensions < 3) e.Reject("im2col needs 3 to 5 dimensions");
    PutWords(e, words, e.operand(3), kTensorOffsetWord, operation.dimensions - 2U, Type::kU16);
  } else {
    for (unsigned i = kTensorOffsetWord; i < kTensorWords; ++i) words.Put(i, e.ConstInt(32, 0));
  }
  if (e.failed()) return;
  auto* const shared = e.Address(e.operand(loads ? 0 : 1), Space::kShared, 0);
  if (e.failed()) return;
  if (e.warp() != nullptr) e.SelectLane();
  auto* const bytes = e.CallRuntime(
      "cuspan_rt_tensor_copy", e.Int(32),
      {e.ContextPointer(), e.b.getInt32(operation.Pack()), map, words.memory(), shared});
  words.End();
  EmitCompletion(e, 2, bytes);
}

void EmitBulk(FunctionEmitter& e, bool reduces) {
  if (e.Consume("commit_group") || e.Consume("wait_group")) {
    e.Consume("read");
  } else if (e.Consume("prefetch")) {  // Hint.
    for (auto modifier : e.instruction().modifiers) e.Consume(modifier);
  } else if (e.Consume("tensor")) {
    EmitTensorCopy(e, reduces);
  } else {
    EmitBulkCopy(e, reduces);
  }
}

// tensormap.replace.tile.field{.space}.b1024.type [map]{, ordinal}, value
void EmitReplace(FunctionEmitter& e) {
  static constexpr struct {
    std::string_view name;
    TensorField field;
  } kFields[] = {
      {"box_dim", TensorField::kBox},
      {"global_dim", TensorField::kSize},
      {"global_stride", TensorField::kStride},
      {"element_stride", TensorField::kStep},
      {"global_address", TensorField::kAddress},
      {"rank", TensorField::kRank},
      {"elemtype", TensorField::kElement},
      {"interleave_layout", TensorField::kInterleave},
      {"swizzle_mode", TensorField::kSwizzle},
      {"swizzle_atomicity", TensorField::kAtomicity},
      {"fill_mode", TensorField::kFill},
  };
  const bool known_mode = e.Consume("tile") && e.Consume("b1024");
  const auto* const known = std::find_if(std::begin(kFields), std::end(kFields),
                                         [&](const auto& field) { return e.Consume(field.name); });
  if (!known_mode || known == std::end(kFields)) {
    e.Refuse("this field is not implemented");
    return;
  }
  const auto field = static_cast<std::uint32_t>(known->field);
  const bool has_ordinal = field < kFieldsWithOrdinal;
  if (e.operand_count() != (has_ordinal ? 3 : 2)) {
    e.Reject("it has the wrong number of operands");
    return;
  }
  auto* const map = e.Address(e.operand(0), e.ConsumeSpace(), 0);
  auto* const ordinal = has_ordinal ? e.Read(1, Type::kB32) : e.ConstInt(32, 0);
  const Type type = ptx::BitsOf(e.type()) == 64 ? Type::kB64 : Type::kB32;
  auto* const value = e.b.CreateZExt(e.Read(has_ordinal ? 2 : 1, type), e.Int(64));
  if (e.failed()) return;
  CallForThread(e, "cuspan_rt_tensor_replace",
                {e.ContextPointer(), map, e.b.getInt32(field), ordinal, value});
}

// Makes all lanes wait for each other. Lanes in code for a warp are together anyway.
void MeetLanes(FunctionEmitter& e) {
  if (e.warp() != nullptr) return;
  e.CallRuntime("cuspan_rt_warp_sync", e.b.getVoidTy(), {e.ContextPointer(), e.b.getInt32(~0U)});
}

// tensormap.cp_fenceproxy.to.from.fence.sync.aligned [to], [from], 128: all lanes copy the same.
void EmitCopyMap(FunctionEmitter& e) {
  for (auto modifier : e.instruction().modifiers) e.Consume(modifier);
  auto* const to = e.Address(e.operand(0), Space::kGlobal, 0);
  auto* const from = e.Address(e.operand(1), Space::kShared, 0);
  const Operand& bytes = e.operand(2);
  if (bytes.kind != Operand::Kind::kInteger || bytes.bits != kTensorMapBytes)
    e.Reject("tensor maps have 128 bytes");
  if (e.failed()) return;
  MeetLanes(e);
  e.b.CreateMemCpy(to, llvm::MaybeAlign(1), from, llvm::MaybeAlign(1), kTensorMapBytes);
  e.b.CreateFence(llvm::AtomicOrdering::SequentiallyConsistent);
  MeetLanes(e);
}

void EmitTensormap(FunctionEmitter& e) {
  if (e.Consume("replace")) {
    EmitReplace(e);
  } else if (e.Consume("cp_fenceproxy")) {
    EmitCopyMap(e);
  } else {
    e.Refuse("this operation is not implemented");
  }
}

// --- cp

// cp.async.{ca,cg}.shared.global [to], [from], size{, source bytes or ignore-source predicate}
void EmitCopy(FunctionEmitter& e) {
  for (std::string_view space : {"shared", "shared::cta", "global"}) e.Consume(space);
  ConsumeCacheHints(e);
  const Operand& size = e.operand(2);
  if (size.kind != Operand::Kind::kInteger ||
      (size.bits != 4 && size.bits != 8 && size.bits != 16)) {
    e.Reject("the size is not 4, 8 or 16");
    return;
  }
  auto* const to = e.Address(e.operand(0), Space::kShared, size.bits);
  auto* const from = e.Address(e.operand(1), Space::kGlobal, size.bits);
  Value* source_bytes = e.ConstInt(32, size.bits);
  if (e.IsPredicate(e.operand(3))) {
    source_bytes = e.b.CreateSelect(e.Read(3, Type::kPred), e.ConstInt(32, 0), source_bytes);
  } else if (e.operand_count() > 3) {
    source_bytes = e.Read(3, Type::kU32);
  }
  if (e.failed()) return;
  // Bytes not provided by the source are zero; nothing behind the source is read.
  source_bytes = IntegerMinMax(e, source_bytes, e.ConstInt(32, size.bits), false, false);
  if (!llvm::isa<llvm::ConstantInt>(source_bytes))
    e.b.CreateMemSet(to, e.ConstInt(8, 0), size.bits, llvm::MaybeAlign(1));
  e.b.CreateMemCpy(to, llvm::MaybeAlign(1), from, llvm::MaybeAlign(1), source_bytes);
}

void EmitCp(FunctionEmitter& e) {
  const bool reduces = e.Consume("reduce");
  if (!e.Consume("async") || (reduces && !e.instruction().Has("bulk"))) {
    e.Refuse("only cp.async and cp.reduce.async.bulk are implemented");
  } else if (e.Consume("bulk")) {
    EmitBulk(e, reduces);
  } else if (e.Consume("mbarrier")) {
    // Earlier copies are done. Without .noinc, the arrival was also added to the expected count.
    if (!e.Consume("arrive")) e.Reject(".arrive is missing");
    const bool counted = e.Consume("noinc");
    auto* const barrier = e.Address(e.operand(0), e.ConsumeSpace(), kBarrierBytes);
    if (!counted) e.CallRuntime("cuspan_mbarrier_add_pending", e.b.getVoidTy(), {barrier});
    e.CallRuntime("cuspan_mbarrier_arrive", e.Int(64), {barrier, e.ConstInt(32, 1)});
  } else if (!e.Consume("commit_group") && !e.Consume("wait_group") && !e.Consume("wait_all")) {
    EmitCopy(e);
  }
}

constexpr Opcode kAsyncCopyOpcodes[] = {
    {"cp", 0, 6, kNoType | kIntegers | kFloats | kHalves, EmitCp},
    {"tensormap", 2, 3, kNoType | kIntegers, EmitTensormap},
};

}  // namespace

std::span<const Opcode> AsyncCopyOpcodes() { return kAsyncCopyOpcodes; }

}  // namespace cuspan::softgpu::emit
