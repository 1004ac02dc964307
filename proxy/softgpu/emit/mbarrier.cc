// Barriers in memory. (PTX ISA, "mbarrier")
#include "proxy/softgpu/emit/families.h"
#include "proxy/softgpu/emit/memory_order.h"
#include "proxy/softgpu/emit/operations.h"

namespace cuspan::softgpu::emit {
namespace {

using llvm::Value;
using ptx::Space;
using ptx::Type;

// Address of the barrier object in operand `i`.
Value* BarrierAt(FunctionEmitter& e, std::size_t i, Space space) {
  return e.Address(e.operand(i), space, kBarrierBytes);
}

void EmitArrive(FunctionEmitter& e, Space space) {
  const bool drop = e.Consume("arrive_drop");
  e.Consume("arrive");
  const bool expects = e.Consume("expect_tx");
  e.Consume("noComplete");  // Promise of the program.
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
  if (e.Consume("parity")) {
    result =
        e.CallRuntime("cuspan_mbarrier_test_parity", e.Int(32), {barrier, e.Read(2, Type::kU32)});
  } else {
    result = e.CallRuntime("cuspan_mbarrier_test", e.Int(32), {barrier, e.Read(2, Type::kB64)});
  }
  e.Write(e.b.CreateIsNotNull(result), Type::kPred);
}

void EmitMbarrier(FunctionEmitter& e) {
  const Space space = e.ConsumeSpace();
  ConsumeMemoryOrder(e);
  const auto& i = e.instruction();
  if (e.Consume("init")) {
    e.CallRuntime("cuspan_mbarrier_init", e.b.getVoidTy(),
                  {BarrierAt(e, 0, space), e.Read(1, Type::kU32)});
  } else if (e.Consume("inval")) {
    BarrierAt(e, 0, space);
  } else if (i.Has("arrive") || i.Has("arrive_drop")) {
    EmitArrive(e, space);
  } else if (e.Consume("test_wait") || e.Consume("try_wait")) {
    EmitWait(e, space);
  } else if (e.Consume("expect_tx")) {
    e.CallRuntime("cuspan_mbarrier_expect", e.b.getVoidTy(),
                  {BarrierAt(e, 0, space), e.Read(1, Type::kU32)});
  } else if (e.Consume("complete_tx")) {
    e.CallRuntime("cuspan_mbarrier_complete", e.b.getVoidTy(),
                  {BarrierAt(e, 0, space), e.Read(1, Type::kU32)});
  } else if (e.Consume("pending_count")) {
    e.Write(e.CallRuntime("cuspan_mbarrier_pending_count", e.Int(32), {e.Read(1, Type::kB64)}),
            Type::kU32);
  } else {
    e.Refuse("this operation is not implemented");
  }
}

// mapa{.shared::cluster} d, a, rank: the address of a in the cluster's block `rank`;
// getctarank{.shared::cluster} d, a. A cluster is one block.
void EmitMapa(FunctionEmitter& e) {
  e.Consume("shared::cluster");
  e.Read(2, Type::kU32);
  e.Write(e.Read(1, e.type()), e.type());
}

void EmitGetctarank(FunctionEmitter& e) {
  e.Consume("shared::cluster");
  e.Write(e.ConstInt(32, 0), Type::kU32);
}

constexpr Opcode kMbarrierOpcodes[] = {
    {"mapa", 3, 3, kIntegers, EmitMapa},
    {"getctarank", 2, 2, kIntegers, EmitGetctarank},
    {"mbarrier", 1, 4, kIntegers, EmitMbarrier},
};

}  // namespace

std::span<const Opcode> MbarrierOpcodes() { return kMbarrierOpcodes; }

}  // namespace cuspan::softgpu::emit
