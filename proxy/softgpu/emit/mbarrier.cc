// Barriers in memory, and the copies that report to them. (PTX ISA,
// "mbarrier", "cp.async", "cp.async.bulk") Copies happen at once, so that
// waiting for groups of them has nothing to wait for.
#include "proxy/softgpu/emit/families.h"
#include "proxy/softgpu/emit/memory_order.h"
#include "proxy/softgpu/emit/operations.h"

namespace cuspan::softgpu::emit {
namespace {

using llvm::Value;
using ptx::Operand;
using ptx::Space;
using ptx::Type;

constexpr std::uint64_t kBarrierBytes = 8;

// The barrier object at operand `i`, wherever its address says.
Value* BarrierAt(FunctionEmitter& e, std::size_t i, Space space) {
  return e.Address(e.operand(i), space, kBarrierBytes);
}

void EmitArrive(FunctionEmitter& e, Space space) {
  const bool drop = e.Take("arrive_drop");
  e.Take("arrive");
  const bool expects = e.Take("expect_tx");
  e.Take("noComplete");  // A promise of the program.
  auto* const barrier = BarrierAt(e, 1, space);
  Value* count = e.ConstInt(32, 1);
  if (e.operand_count() > 2) {
    auto* const number = e.Read(2, Type::kU32);
    if (expects) {
      e.CallRuntime("cuspan_mbarrier_expect", e.b.getVoidTy(), {barrier, number});
    } else {
      count = number;
    }
  } else if (expects) {
    e.Reject("the number of bytes is missing");
  }
  auto* const state = e.CallRuntime(drop ? "cuspan_mbarrier_arrive_drop" : "cuspan_mbarrier_arrive",
                                    e.Int(64), {barrier, count});
  e.Write(state, Type::kB64);
}

void EmitWait(FunctionEmitter& e, Space space) {
  auto* const barrier = BarrierAt(e, 1, space);
  Value* result = nullptr;
  if (e.Take("parity")) {
    result =
        e.CallRuntime("cuspan_mbarrier_test_parity", e.Int(32), {barrier, e.Read(2, Type::kU32)});
  } else {
    result = e.CallRuntime("cuspan_mbarrier_test", e.Int(32), {barrier, e.Read(2, Type::kB64)});
  }
  e.Write(e.b.CreateIsNotNull(result), Type::kPred);
}

void EmitMbarrier(FunctionEmitter& e) {
  const Space space = e.TakeSpace();
  TakeMemoryOrder(e);
  const auto& i = e.instruction();
  if (e.Take("init")) {
    e.CallRuntime("cuspan_mbarrier_init", e.b.getVoidTy(),
                  {BarrierAt(e, 0, space), e.Read(1, Type::kU32)});
  } else if (e.Take("inval")) {
    BarrierAt(e, 0, space);
  } else if (i.Has("arrive") || i.Has("arrive_drop")) {
    EmitArrive(e, space);
  } else if (e.Take("test_wait") || e.Take("try_wait")) {
    EmitWait(e, space);
  } else if (e.Take("expect_tx")) {
    e.CallRuntime("cuspan_mbarrier_expect", e.b.getVoidTy(),
                  {BarrierAt(e, 0, space), e.Read(1, Type::kU32)});
  } else if (e.Take("complete_tx")) {
    e.CallRuntime("cuspan_mbarrier_complete", e.b.getVoidTy(),
                  {BarrierAt(e, 0, space), e.Read(1, Type::kU32)});
  } else if (e.Take("pending_count")) {
    e.Write(e.CallRuntime("cuspan_mbarrier_pending_count", e.Int(32), {e.Read(1, Type::kB64)}),
            Type::kU32);
  } else {
    e.Refuse("this operation is not implemented");
  }
}

// cp.async.bulk.<to>.<from>.<completion> [to], [from], bytes{, [barrier]}
void EmitBulkCopy(FunctionEmitter& e) {
  if (e.Take("commit_group") || e.Take("wait_group")) {
    e.Take("read");
    return;
  }
  if (e.Take("prefetch")) {  // A hint.
    for (std::string_view word : {"L2", "global"}) e.Take(word);
    return;
  }
  const auto& modifiers = e.instruction().modifiers;
  const auto space_of = [](std::string_view name) {
    return name == "global"                                     ? Space::kGlobal
           : name == "shared::cta" || name == "shared::cluster" ? Space::kShared
                                                                : Space::kGeneric;
  };
  // async, bulk, then where to and where from.
  if (modifiers.size() < 5 || space_of(modifiers[2]) == Space::kGeneric ||
      space_of(modifiers[3]) == Space::kGeneric || e.operand_count() < 3) {
    e.Refuse("only copies between .global and .shared are implemented");
    return;
  }
  e.Take(modifiers[2]);
  e.Take(modifiers[3]);
  auto* const to = e.Address(e.operand(0), space_of(modifiers[2]), 0);
  auto* const from = e.Address(e.operand(1), space_of(modifiers[3]), 0);
  auto* const bytes = e.Read(2, Type::kU32);
  if (e.failed()) return;
  e.b.CreateMemCpy(to, llvm::MaybeAlign(1), from, llvm::MaybeAlign(1), bytes);
  if (e.Take("bulk_group")) return;
  if (!e.Take("mbarrier::complete_tx::bytes"))
    e.Refuse("this way of completion is not implemented");
  if (e.failed()) return;
  e.CallRuntime("cuspan_mbarrier_complete", e.b.getVoidTy(),
                {BarrierAt(e, 3, Space::kShared), bytes});
}

// cp.async.{ca,cg}.shared.global [to], [from], size{, source bytes or ignore-source predicate}
void EmitCopy(FunctionEmitter& e) {
  for (std::string_view space : {"shared", "shared::cta", "global"}) e.Take(space);
  TakeCacheHints(e);
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
  // What the source is too short for is zero; nothing behind the source is read.
  source_bytes = IntegerMinMax(e, source_bytes, e.ConstInt(32, size.bits), false, false);
  if (!llvm::isa<llvm::ConstantInt>(source_bytes))
    e.b.CreateMemSet(to, e.ConstInt(8, 0), size.bits, llvm::MaybeAlign(1));
  e.b.CreateMemCpy(to, llvm::MaybeAlign(1), from, llvm::MaybeAlign(1), source_bytes);
}

void EmitCp(FunctionEmitter& e) {
  if (!e.Take("async")) {
    e.Refuse("only cp.async is implemented");
  } else if (e.Take("bulk")) {
    EmitBulkCopy(e);
  } else if (e.Take("mbarrier")) {
    // The copies before are done: without .noinc the arrival was counted in as well.
    if (!e.Take("arrive")) e.Reject(".arrive is missing");
    const bool counted = e.Take("noinc");
    auto* const barrier = BarrierAt(e, 0, e.TakeSpace());
    if (!counted) e.CallRuntime("cuspan_mbarrier_add_pending", e.b.getVoidTy(), {barrier});
    e.CallRuntime("cuspan_mbarrier_arrive", e.Int(64), {barrier, e.ConstInt(32, 1)});
  } else if (!e.Take("commit_group") && !e.Take("wait_group") && !e.Take("wait_all")) {
    EmitCopy(e);
  }
}

// mapa{.shared::cluster} d, a, rank: the address of a in the cluster's block `rank`, and
// getctarank{.shared::cluster} d, a: a cluster is one block.
void EmitMapa(FunctionEmitter& e) {
  e.Take("shared::cluster");
  e.Read(2, Type::kU32);
  e.Write(e.Read(1, e.type()), e.type());
}

void EmitGetctarank(FunctionEmitter& e) {
  e.Take("shared::cluster");
  e.Write(e.ConstInt(32, 0), Type::kU32);
}

constexpr Opcode kOpcodes[] = {
    {"mapa", 3, 3, kIntegers, EmitMapa},
    {"getctarank", 2, 2, kIntegers, EmitGetctarank},
    {"mbarrier", 1, 4, kIntegers, EmitMbarrier},
    {"cp", 0, 5, kNoType | kIntegers, EmitCp},
};

}  // namespace

std::span<const Opcode> MbarrierOpcodes() { return kOpcodes; }

}  // namespace cuspan::softgpu::emit
