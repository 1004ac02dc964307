// Instructions executed jointly by threads of a block or warp: calls of the runtime for threads on
// fibers, vector code for a warp. (PTX ISA, "bar", "shfl.sync", "vote.sync", "match.sync",
// "redux.sync", "activemask", "nanosleep", "elect.sync")
#include <llvm/IR/Intrinsics.h>

#include "proxy/softgpu/emit/families.h"
#include "proxy/softgpu/emit/operations.h"
#include "proxy/softgpu/emit/warp_collective.h"
#include "proxy/softgpu/rt/abi.h"

namespace cuspan::softgpu::emit {
namespace {

using llvm::Value;
using ptx::Operand;
using ptx::Type;

Value* Constant(FunctionEmitter& e, auto enumerator) {
  return e.ConstInt(32, static_cast<std::uint32_t>(enumerator));
}

// Operand `i` as 32 bits; 0 if missing.
Value* ReadOptional(FunctionEmitter& e, std::size_t i) {
  return i < e.operand_count() ? e.Read(i, Type::kU32) : e.ConstInt(32, 0);
}

Value* ReadPredicate(FunctionEmitter& e, std::size_t i) {
  return e.b.CreateZExt(e.Read(i, Type::kPred), e.Int(32));
}

void WritePredicate(FunctionEmitter& e, const Operand& operand, Value* word) {
  e.Write(operand, e.b.CreateIsNotNull(word), Type::kPred);
}

// bar.red.popc.u32 d, a{, b}, {!}c and bar.red.{and,or}.pred p, a{, b}, {!}c
void EmitBarrierReduction(FunctionEmitter& e) {
  const bool count = e.Consume("popc");
  const bool all = e.Consume("and");
  if (!count && !all && !e.Consume("or")) e.Reject("one of .popc, .and and .or is expected");
  if (e.operand_count() < 3) e.Reject("three or four operands are expected");
  if (e.failed()) return;
  const auto operation = count ? BarrierReduction::kPopulation
                         : all ? BarrierReduction::kAnd
                               : BarrierReduction::kOr;
  auto* const threads = e.operand_count() == 4 ? e.Read(2, Type::kU32) : e.ConstInt(32, 0);
  if (e.warp() != nullptr) {
    CheckBarrier(e);
    auto* const predicates =
        e.WithWidth(32, [&] { return e.Read(e.operand_count() - 1, Type::kPred); });
    auto* const votes = e.b.CreateAnd(e.Ballot(predicates), e.mask());
    auto* const result = e.CallRuntime("cuspan_rt_warp_barrier_reduce", e.Int(32),
                                       {e.ContextPointer(), e.Read(1, Type::kU32), threads,
                                        Constant(e, operation), e.mask(), votes});
    if (count) {
      e.Write(result, Type::kU32);
    } else {
      WritePredicate(e, e.operand(0), result);
    }
    return;
  }
  auto* const result =
      e.CallRuntime("cuspan_rt_barrier_reduce", e.Int(32),
                    {e.ContextPointer(), e.Read(1, Type::kU32), threads, Constant(e, operation),
                     ReadPredicate(e, e.operand_count() - 1)});
  if (count) {
    e.Write(result, Type::kU32);
  } else {
    WritePredicate(e, e.operand(0), result);
  }
}

void EmitBar(FunctionEmitter& e) {
  e.Consume("aligned");
  e.Consume("cta");
  if (e.Consume("warp")) {
    if (!e.Consume("sync")) e.Reject("bar.warp needs .sync");
    if (e.warp() != nullptr) {
      EmitWarpSync(e);
      return;
    }
    e.CallRuntime("cuspan_rt_warp_sync", e.b.getVoidTy(),
                  {e.ContextPointer(), e.Read(0, Type::kB32)});
    return;
  }
  if (e.Consume("red")) {
    EmitBarrierReduction(e);
    return;
  }
  // A cluster is one block: its wait is a barrier and counts the arrival, too.
  const bool cluster = e.Consume("cluster");
  if (cluster) {
    for (std::string_view order : {"release", "relaxed", "acquire"}) e.Consume(order);
    if (e.Consume("arrive")) return;
  }
  const bool arrive = e.Consume("arrive");
  if (!arrive && !e.Consume("sync") && !(cluster && e.Consume("wait"))) {
    e.Refuse("only .sync, .arrive, .red and .warp.sync are implemented");
    return;
  }
  if (arrive && e.operand_count() != 2) e.Reject("barrier and number of threads are expected");
  if (e.warp() != nullptr) {
    CheckBarrier(e);
    e.CallRuntime(arrive ? "cuspan_rt_warp_barrier_arrive" : "cuspan_rt_warp_barrier",
                  e.b.getVoidTy(),
                  {e.ContextPointer(), ReadOptional(e, 0), ReadOptional(e, 1), e.mask()});
    return;
  }
  e.CallRuntime(arrive ? "cuspan_rt_barrier_arrive" : "cuspan_rt_barrier", e.b.getVoidTy(),
                {e.ContextPointer(), ReadOptional(e, 0), ReadOptional(e, 1)});
}

// Reads .sync; it needs the member mask in operand `i`.
bool ConsumeSync(FunctionEmitter& e, std::size_t i) {
  if (!e.Consume("sync")) return false;
  if (i >= e.operand_count()) e.Reject("the member mask is missing");
  return true;
}

// Returns the member mask in operand `i`; without .sync, the active lanes are the members.
Value* ReadMembers(FunctionEmitter& e, std::size_t i) {
  if (ConsumeSync(e, i)) return e.failed() ? e.ConstInt(32, 0) : e.Read(i, Type::kB32);
  return e.CallRuntime("cuspan_rt_active_mask", e.Int(32), {e.ContextPointer()});
}

// shfl{.sync}.mode.b32 d{|p}, a, b, c{, members}
void EmitShfl(FunctionEmitter& e) {
  ShuffleMode mode = ShuffleMode::kIndex;
  if (e.Consume("up")) {
    mode = ShuffleMode::kUp;
  } else if (e.Consume("down")) {
    mode = ShuffleMode::kDown;
  } else if (e.Consume("bfly")) {
    mode = ShuffleMode::kButterfly;
  } else if (!e.Consume("idx")) {
    e.Reject("one of .up, .down, .bfly and .idx is expected");
  }
  if (e.warp() != nullptr) {
    EmitWarpShuffle(e, mode, ConsumeSync(e, 4));
    return;
  }
  auto* const members = ReadMembers(e, 4);
  auto* const in_range = e.Frame(e.Int(32), 4);
  auto* const result =
      e.CallRuntime("cuspan_rt_shuffle", e.Int(32),
                    {e.ContextPointer(), Constant(e, mode), e.Read(1, Type::kB32),
                     e.Read(2, Type::kB32), e.Read(3, Type::kB32), members, in_range});
  const Operand& destination = e.operand(0);
  if (destination.kind != Operand::Kind::kPair) {
    e.Write(result, Type::kB32);
    return;
  }
  e.Write(destination.elements[0], result, Type::kB32);
  WritePredicate(e, destination.elements[1], e.b.CreateLoad(e.Int(32), in_range));
}

// vote{.sync}.{all,any,uni}.pred p, {!}a{, members}; vote{.sync}.ballot.b32 d, {!}a{, members}
void EmitVote(FunctionEmitter& e) {
  VoteMode mode = VoteMode::kBallot;
  if (e.Consume("all")) {
    mode = VoteMode::kAll;
  } else if (e.Consume("any")) {
    mode = VoteMode::kAny;
  } else if (e.Consume("uni")) {
    mode = VoteMode::kUniform;
  } else if (!e.Consume("ballot")) {
    e.Reject("one of .all, .any, .uni and .ballot is expected");
  }
  if (e.warp() != nullptr) {
    EmitWarpVote(e, mode, ConsumeSync(e, 2));
    return;
  }
  auto* const members = ReadMembers(e, 2);
  auto* const result =
      e.CallRuntime("cuspan_rt_vote", e.Int(32),
                    {e.ContextPointer(), Constant(e, mode), ReadPredicate(e, 1), members});
  if (mode == VoteMode::kBallot) {
    e.Write(result, Type::kB32);
  } else {
    WritePredicate(e, e.operand(0), result);
  }
}

// match.any.sync.type d, a, members; match.all.sync.type d{|p}, a, members
void EmitMatch(FunctionEmitter& e) {
  const bool any = e.Consume("any");
  if (!any && !e.Consume("all")) e.Reject("neither .any nor .all is given");
  if (!e.Consume("sync")) e.Reject(".sync is missing");
  if (e.warp() != nullptr) {
    EmitWarpMatch(e, any ? MatchMode::kAny : MatchMode::kAll);
    return;
  }
  auto* const all_equal = e.Frame(e.Int(32), 4);
  auto* const value = e.b.CreateZExt(e.Read(1, e.type()), e.Int(64));
  auto* const result =
      e.CallRuntime("cuspan_rt_match", e.Int(32),
                    {e.ContextPointer(), Constant(e, any ? MatchMode::kAny : MatchMode::kAll),
                     value, e.Read(2, Type::kB32), all_equal});
  const Operand& destination = e.operand(0);
  if (destination.kind != Operand::Kind::kPair) {
    e.Write(result, Type::kB32);
    return;
  }
  if (any) e.Reject("match.any has one destination");
  e.Write(destination.elements[0], result, Type::kB32);
  WritePredicate(e, destination.elements[1], e.b.CreateLoad(e.Int(32), all_equal));
}

// redux.sync.op.type d, a, members. Operation numbers follow cuspan_rt_reduce.
void EmitRedux(FunctionEmitter& e) {
  if (!e.Consume("sync")) e.Reject(".sync is missing");
  const bool is_signed = ptx::IsSigned(e.type());
  std::uint32_t operation = 0;
  if (e.Consume("min")) {
    operation = is_signed ? 1 : 3;
  } else if (e.Consume("max")) {
    operation = is_signed ? 2 : 4;
  } else if (e.Consume("and")) {
    operation = 5;
  } else if (e.Consume("or")) {
    operation = 6;
  } else if (e.Consume("xor")) {
    operation = 7;
  } else if (!e.Consume("add")) {
    e.Reject("it names no operation");
  }
  if (e.warp() != nullptr) {
    EmitWarpReduction(e, operation);
    return;
  }
  auto* const result = e.CallRuntime("cuspan_rt_reduce", e.Int(32),
                                     {e.ContextPointer(), e.ConstInt(32, operation),
                                      e.Read(1, Type::kB32), e.Read(2, Type::kB32)});
  e.Write(result, Type::kB32);
}

void EmitActivemask(FunctionEmitter& e) {
  if (e.warp() != nullptr) {
    e.Write(e.mask(), Type::kB32);
    return;
  }
  e.Write(e.CallRuntime("cuspan_rt_active_mask", e.Int(32), {e.ContextPointer()}), Type::kB32);
}

// elect.sync d|p, members: elects the lowest member.
void EmitElect(FunctionEmitter& e) {
  if (!e.Consume("sync")) e.Reject(".sync is missing");
  if (e.operand(0).kind != Operand::Kind::kPair) {
    e.Reject("two destinations d|p are expected");
    return;
  }
  if (e.warp() != nullptr) {
    EmitWarpElect(e);
    return;
  }
  auto* const members = e.Read(1, Type::kB32);
  e.CallRuntime("cuspan_rt_warp_sync", e.b.getVoidTy(), {e.ContextPointer(), members});
  auto* const leader = e.b.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, members, e.b.getFalse());
  auto* const lane = e.ContextField(offsetof(ThreadContext, lane), e.Int(32));
  e.Write(e.operand(0).elements[0], leader, Type::kB32);
  e.Write(e.operand(0).elements[1], e.b.CreateICmpEQ(lane, leader), Type::kPred);
}

void EmitNanosleep(FunctionEmitter& e) {
  e.Read(0, Type::kU32);
  e.CallRuntime("cuspan_rt_yield", e.b.getVoidTy(), {e.ContextPointer()});
}

constexpr Opcode kCollectiveOpcodes[] = {
    {"bar", 0, 4, kNoType | kPredicates | kIntegers, EmitBar},
    {"barrier", 0, 4, kNoType | kPredicates | kIntegers, EmitBar},
    {"shfl", 4, 5, kWords, EmitShfl},
    {"vote", 2, 3, kPredicates | kWords, EmitVote},
    {"match", 3, 3, kIntegers, EmitMatch},
    {"redux", 3, 3, kWords, EmitRedux},
    {"activemask", 1, 1, kWords, EmitActivemask},
    {"elect", 2, 2, kNoType, EmitElect},
    {"nanosleep", 1, 1, kWords, EmitNanosleep},
};

}  // namespace

std::span<const Opcode> CollectiveOpcodes() { return kCollectiveOpcodes; }

}  // namespace cuspan::softgpu::emit
