// Control flow, except calls. (PTX ISA, "Control Flow Instructions", "trap")
#include "proxy/softgpu/emit/families.h"

namespace cuspan::softgpu::emit {
namespace {

using ptx::Operand;
using ptx::Type;

void EmitBra(FunctionEmitter& e) {
  e.Consume("uni");
  if (e.operand(0).kind != Operand::Kind::kLabel) {
    e.Reject("a label is expected");
    return;
  }
  e.YieldInSpinLoop();
  e.Reconverge(analysis::ReconvergencePoint::Side::kTaken);
  e.b.CreateBr(e.BlockAt(e.body().labels[e.operand(0).index].position));
}

// brx.idx{.uni} a, table: an index outside the table is undefined in PTX; here it ends the thread
// with an error.
void EmitBrx(FunctionEmitter& e) {
  if (!e.Consume("idx")) e.Reject(".idx is missing");
  e.Consume("uni");
  if (e.operand(1).kind != Operand::Kind::kTable) {
    e.Reject("a table of labels is expected");
    return;
  }
  auto* const index = e.Read(0, Type::kU32);
  if (e.failed()) return;
  e.YieldInSpinLoop();
  const auto& labels = e.body().branch_tables[e.operand(1).index].labels;
  auto* const outside =
      llvm::BasicBlock::Create(e.context(), "", e.b.GetInsertBlock()->getParent());
  auto* const dispatch = e.b.CreateSwitch(index, outside, static_cast<unsigned>(labels.size()));
  for (std::size_t i = 0; i < labels.size(); ++i)
    dispatch->addCase(e.b.getInt32(static_cast<std::uint32_t>(i)),
                      e.BlockAt(e.body().labels[labels[i]].position));
  e.b.SetInsertPoint(outside);
  e.Fault(kLaunchFailed, "the index of a branch table is out of range");
  e.b.CreateUnreachable();
}

void EmitRet(FunctionEmitter& e) {
  e.Consume("uni");
  e.Return();
}

void EmitExit(FunctionEmitter& e) {
  if (e.function().entry) {
    e.Return();
    return;
  }
  e.CallRuntime("cuspan_rt_exit", e.b.getVoidTy(), {e.ContextPointer()});
  e.b.CreateUnreachable();
}

void EmitTrap(FunctionEmitter& e) {
  e.Fault(kLaunchFailed, "the kernel trapped");
  e.b.CreateUnreachable();
}

// Instructions without a visible effect here.
void EmitNothing(FunctionEmitter& e) {
  for (auto modifier : e.instruction().modifiers) e.Consume(modifier);
}

constexpr Opcode kControlOpcodes[] = {
    {"bra", 1, 1, kNoType, EmitBra},           {"brx", 2, 2, kNoType, EmitBrx},
    {"ret", 0, 0, kNoType, EmitRet},           {"exit", 0, 0, kNoType, EmitExit},
    {"trap", 0, 0, kNoType, EmitTrap},         {"brkpt", 0, 0, kNoType, EmitTrap},
    {"pmevent", 1, 1, kNoType, EmitNothing},   {"griddepcontrol", 0, 0, kNoType, EmitNothing},
    {"setmaxnreg", 1, 1, kWords, EmitNothing},
};

}  // namespace

std::span<const Opcode> ControlOpcodes() { return kControlOpcodes; }

}  // namespace cuspan::softgpu::emit
