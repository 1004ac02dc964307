#include "proxy/softgpu/emit/warp_collective.h"

#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <array>

namespace cuspan::softgpu::emit {
namespace {

using llvm::Value;
using ptx::Operand;
using ptx::Type;

// Member mask: one for all lanes, or one per lane.
struct Members {
  Value* word = nullptr;   // i32, for one mask.
  Value* words = nullptr;  // <32 x i32> otherwise.
  // Participating lanes of `word`, or all active ones.
  Value* lanes = nullptr;
};

void FaultIf(FunctionEmitter& e, Value* wrong, std::string_view what) {
  auto& b = e.b;
  auto* const function = b.GetInsertBlock()->getParent();
  auto* const fault = llvm::BasicBlock::Create(e.context(), "", function);
  auto* const on = llvm::BasicBlock::Create(e.context(), "", function);
  b.CreateCondBr(wrong, fault, on);
  b.SetInsertPoint(fault);
  e.Fault(kLaunchFailed, what);
  b.CreateUnreachable();
  b.SetInsertPoint(on);
}

constexpr std::string_view kWrongMembers =
    "the member mask of a warp-wide operation differs from the lanes executing it: it names lanes "
    "elsewhere, or omits some";
constexpr std::string_view kNeverMet =
    "lanes execute a warp-wide operation, but skipped an earlier one with them in its member mask";

// The mask must name the executing lanes, and lanes named must execute it, unless they have ended
// (PTX ISA, "shfl.sync": waits for all lanes not exited). Lanes waiting elsewhere may be about to
// end, so the operation continues without them. Later, they must not join another operation with
// lanes still waiting for them on a GPU.
void CheckMembers(FunctionEmitter& e, const Members& members) {
  auto& b = e.b;
  auto* const owing = e.Owing();
  if (members.word != nullptr) {
    const auto* const constant = llvm::dyn_cast<llvm::ConstantInt>(members.word);
    const bool all = constant != nullptr && constant->isMinusOne();
    Value* missing = nullptr;
    if (!e.together())
      missing = b.CreateAnd(b.CreateAnd(members.word, e.Awaited()), b.CreateNot(e.mask()));
    if (owing != nullptr) {
      auto* const late = b.CreateIsNotNull(b.CreateAnd(e.mask(), owing));
      auto* const others = b.CreateIsNotNull(b.CreateAnd(members.word, b.CreateNot(owing)));
      FaultIf(e, b.CreateAnd(late, others), kNeverMet);
      if (missing != nullptr) e.Owe(missing);
    }
    if (all && (missing == nullptr || owing != nullptr)) return;
    Value* wrong = b.CreateAnd(e.mask(), b.CreateNot(members.word));
    if (missing != nullptr && owing == nullptr) wrong = b.CreateOr(wrong, missing);
    FaultIf(e, b.CreateIsNotNull(wrong), kWrongMembers);
    return;
  }
  auto* const absent = b.CreateVectorSplat(32, b.CreateAnd(e.Awaited(), b.CreateNot(e.mask())));
  auto* const missing = b.CreateAnd(members.words, absent);
  auto* const one = b.CreateVectorSplat(32, b.getInt32(1));
  auto* const own = b.CreateAnd(b.CreateLShr(members.words, e.LaneNumbers(32)), one);
  Value* bad = b.CreateIsNull(own);
  if (owing == nullptr) {
    bad = b.CreateOr(bad, b.CreateIsNotNull(missing));
  } else {
    auto* const others =
        b.CreateIsNotNull(b.CreateAnd(members.words, b.CreateVectorSplat(32, b.CreateNot(owing))));
    auto* const late = b.CreateAnd(b.CreateAnd(e.Ballot(others), e.mask()), owing);
    FaultIf(e, b.CreateIsNotNull(late), kNeverMet);
    auto* const none = llvm::Constant::getNullValue(missing->getType());
    e.Owe(b.CreateOrReduce(b.CreateSelect(e.MaskVector(), missing, none)));
  }
  FaultIf(e, b.CreateIsNotNull(b.CreateAnd(e.Ballot(bad), e.mask())), kWrongMembers);
}

// Reads the member mask in operand `i` if `sync`; otherwise the active lanes are the members.
Members ReadMembers(FunctionEmitter& e, std::size_t i, bool sync) {
  Members members;
  if (!sync) {
    members.word = members.lanes = e.mask();
    return members;
  }
  const Operand& operand = e.operand(i);
  if (e.ShapeOf(operand, 32).uniform()) {
    members.word = e.WithWidth(1, [&] { return e.Read(operand, Type::kB32); });
    members.lanes = e.b.CreateAnd(members.word, e.mask());
  } else {
    members.words = e.WithWidth(32, [&] { return e.Read(operand, Type::kB32); });
    members.lanes = e.mask();
  }
  if (!e.failed()) CheckMembers(e, members);
  return members;
}

// Source lane of each lane, and true if it is in range. Used for constant operands; ComputeSources
// does the same with vectors. (PTX ISA, "shfl.sync")
struct Source {
  int lane;
  bool in_range;
};
Source SourceOf(ShuffleMode mode, int lane, std::uint32_t b, std::uint32_t c) {
  const int offset = static_cast<int>(b & 31);
  const int segment = static_cast<int>(c >> 8 & 31);
  const int limit = (lane & segment) | (static_cast<int>(c & 31) & ~segment);
  int from = lane;
  bool in_range = false;
  switch (mode) {
    case ShuffleMode::kUp:
      from = lane - offset;
      in_range = from >= limit;
      break;
    case ShuffleMode::kDown:
      from = lane + offset;
      in_range = from <= limit;
      break;
    case ShuffleMode::kButterfly:
      from = lane ^ offset;
      in_range = from <= limit;
      break;
    case ShuffleMode::kIndex:
      from = (lane & segment) | (offset & ~segment);
      in_range = from <= limit;
      break;
  }
  return {in_range ? from : lane, in_range};
}

struct Sources {
  Value* lanes;     // <32 x i32>
  Value* in_range;  // <32 x i1>
};
Sources ComputeSources(FunctionEmitter& e, ShuffleMode mode, Value* offsets, Value* control) {
  auto& b = e.b;
  const auto constant = [&](std::uint32_t value) {
    return b.CreateVectorSplat(32, b.getInt32(value));
  };
  Value* const own = e.LaneNumbers(32);
  auto* const offset = b.CreateAnd(offsets, constant(31));
  auto* const segment = b.CreateAnd(b.CreateLShr(control, constant(8)), constant(31));
  auto* const outside = b.CreateNot(segment);
  auto* const limit = b.CreateOr(b.CreateAnd(own, segment),
                                 b.CreateAnd(b.CreateAnd(control, constant(31)), outside));
  Value* from = nullptr;
  Value* in_range = nullptr;
  switch (mode) {
    case ShuffleMode::kUp:
      from = b.CreateSub(own, offset);
      in_range = b.CreateICmpSGE(from, limit);
      break;
    case ShuffleMode::kDown:
      from = b.CreateAdd(own, offset);
      break;
    case ShuffleMode::kButterfly:
      from = b.CreateXor(own, offset);
      break;
    case ShuffleMode::kIndex:
      from = b.CreateOr(b.CreateAnd(own, segment), b.CreateAnd(offset, outside));
      break;
  }
  if (in_range == nullptr) in_range = b.CreateICmpSLE(from, limit);
  return {b.CreateSelect(in_range, from, own), in_range};
}

// values[lanes[i]] for each i; lanes are 0 … 31.
Value* Permute(FunctionEmitter& e, Value* values, Value* lanes) {
  auto& b = e.b;
  if (!e.module().host().avx512f) {
    auto* const copy = e.Scratch(b.getInt32Ty());
    b.CreateStore(values, copy);
    auto* const places = b.CreateGEP(b.getInt32Ty(), copy, lanes);
    return b.CreateMaskedGather(values->getType(), places, llvm::Align(4));
  }
  const auto half = [&](Value* vector, int first) {
    llvm::SmallVector<int, 16> from;
    for (int i = 0; i < 16; ++i) from.push_back(first + i);
    return b.CreateShuffleVector(vector, from);
  };
  auto* const low = half(values, 0);
  auto* const high = half(values, 16);
  const auto look_up = [&](Value* index) {
    return b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_vpermi2var_d_512, {}, {low, index, high});
  };
  llvm::SmallVector<int, 32> all;
  for (int i = 0; i < 32; ++i) all.push_back(i);
  return b.CreateShuffleVector(look_up(half(lanes, 0)), look_up(half(lanes, 16)), all);
}

// Writes vectors of all lanes to a destination d or d|p.
void WriteLanes(FunctionEmitter& e, Value* value, Value* flags) {
  e.SetResult(analysis::kLanesShape);
  e.WithWidth(32, [&] {
    const Operand& destination = e.operand(0);
    if (destination.kind != Operand::Kind::kPair) {
      e.Write(value, Type::kB32);
      return;
    }
    e.Write(destination.elements[0], value, Type::kB32);
    e.Write(destination.elements[1], flags, Type::kPred);
  });
}

Value* Splat(FunctionEmitter& e, Value* word) { return e.b.CreateVectorSplat(32, word); }

}  // namespace

void EmitWarpShuffle(FunctionEmitter& e, ShuffleMode mode, bool sync) {
  auto& b = e.b;
  const Members members = ReadMembers(e, 4, sync);
  auto* const values = e.WithWidth(32, [&] { return e.Read(1, Type::kB32); });
  if (e.failed()) return;
  Value* result = nullptr;
  Value* in_range = nullptr;
  Value* here = nullptr;  // True if the source lane participates.
  if (e.operand(2).kind == Operand::Kind::kInteger &&
      e.operand(3).kind == Operand::Kind::kInteger) {
    llvm::SmallVector<int, 32> from;
    llvm::SmallVector<llvm::Constant*, 32> ranges;
    for (int lane = 0; lane < 32; ++lane) {
      const Source source = SourceOf(mode, lane, static_cast<std::uint32_t>(e.operand(2).bits),
                                     static_cast<std::uint32_t>(e.operand(3).bits));
      from.push_back(source.lane);
      ranges.push_back(b.getInt1(source.in_range));
    }
    result = b.CreateShuffleVector(values, from);
    in_range = llvm::ConstantVector::get(ranges);
    if (members.word != nullptr) here = b.CreateShuffleVector(e.LaneBits(members.lanes), from);
    if (here == nullptr) {
      llvm::SmallVector<llvm::Constant*, 32> numbers;
      for (int lane : from) numbers.push_back(b.getInt32(static_cast<std::uint32_t>(lane)));
      auto* const taking = b.CreateAnd(members.words, Splat(e, e.mask()));
      here = b.CreateTrunc(b.CreateLShr(taking, llvm::ConstantVector::get(numbers)),
                           llvm::FixedVectorType::get(b.getInt1Ty(), 32));
    }
  } else {
    auto* const offsets = e.WithWidth(32, [&] { return e.Read(2, Type::kB32); });
    auto* const control = e.WithWidth(32, [&] { return e.Read(3, Type::kB32); });
    if (e.failed()) return;
    const Sources sources = ComputeSources(e, mode, offsets, control);
    result = Permute(e, values, sources.lanes);
    in_range = sources.in_range;
    auto* const taking = members.word != nullptr ? Splat(e, members.lanes)
                                                 : b.CreateAnd(members.words, Splat(e, e.mask()));
    here = b.CreateTrunc(b.CreateLShr(taking, sources.lanes),
                         llvm::FixedVectorType::get(b.getInt1Ty(), 32));
    if (members.word != nullptr)
      here = b.CreateOr(here, Splat(e, b.CreateICmpEQ(members.lanes, b.getInt32(0xffffffff))));
  }
  // Reading a lane not participating is undefined; use the lane's own value.
  WriteLanes(e, b.CreateSelect(here, result, values), in_range);
}

void EmitWarpVote(FunctionEmitter& e, VoteMode mode, bool sync) {
  auto& b = e.b;
  const Members members = ReadMembers(e, 2, sync);
  auto* const predicates = e.WithWidth(32, [&] { return e.Read(1, Type::kPred); });
  if (e.failed()) return;
  auto* const votes = b.CreateAnd(e.Ballot(predicates), e.mask());
  const auto decide = [&](Value* ballot, Value* lanes) -> Value* {
    auto* const none = b.CreateIsNull(ballot);
    switch (mode) {
      case VoteMode::kAll:
        return b.CreateICmpEQ(ballot, lanes);
      case VoteMode::kAny:
        return b.CreateNot(none);
      case VoteMode::kUniform:
        return b.CreateOr(none, b.CreateICmpEQ(ballot, lanes));
      case VoteMode::kBallot:
        break;
    }
    return ballot;
  };
  const Type type = mode == VoteMode::kBallot ? Type::kB32 : Type::kPred;
  if (members.word != nullptr) {
    e.SetResult(analysis::kUniformShape);
    e.WithWidth(1,
                [&] { e.Write(decide(b.CreateAnd(votes, members.lanes), members.lanes), type); });
    return;
  }
  auto* const lanes = b.CreateAnd(members.words, Splat(e, e.mask()));
  e.SetResult(analysis::kLanesShape);
  e.WithWidth(32, [&] { e.Write(decide(b.CreateAnd(lanes, Splat(e, votes)), lanes), type); });
}

void EmitWarpMatch(FunctionEmitter& e, MatchMode mode) {
  auto& b = e.b;
  const Members members = ReadMembers(e, 2, true);
  auto* const values = e.WithWidth(32, [&] {
    auto* const bits = e.Read(1, ptx::BitsType(ptx::BitsOf(e.type())));
    return b.CreateZExt(bits, e.Int(64));
  });
  if (e.failed()) return;
  auto* const inputs = e.Scratch(b.getInt64Ty());
  auto* const masks = e.Scratch(b.getInt32Ty());
  auto* const results = e.Scratch(b.getInt32Ty());
  auto* const equal = e.Scratch(b.getInt32Ty());
  b.CreateStore(values, inputs);
  b.CreateStore(members.word != nullptr ? Splat(e, members.word) : members.words, masks);
  e.CallRuntime(
      "cuspan_rt_warp_match", b.getVoidTy(),
      {b.getInt32(static_cast<std::uint32_t>(mode)), e.mask(), inputs, masks, results, equal});
  auto* const type = results->getAllocatedType();
  if (mode == MatchMode::kAny && e.operand(0).kind == Operand::Kind::kPair)
    e.Reject("match.any has one destination");
  WriteLanes(e, b.CreateLoad(type, results), b.CreateIsNotNull(b.CreateLoad(type, equal)));
}

void EmitWarpReduction(FunctionEmitter& e, std::uint32_t operation) {
  auto& b = e.b;
  const Members members = ReadMembers(e, 2, true);
  auto* const values = e.WithWidth(32, [&] { return e.Read(1, Type::kB32); });
  if (e.failed()) return;
  if (members.word == nullptr) {
    auto* const inputs = e.Scratch(b.getInt32Ty());
    auto* const masks = e.Scratch(b.getInt32Ty());
    auto* const results = e.Scratch(b.getInt32Ty());
    b.CreateStore(values, inputs);
    b.CreateStore(members.words, masks);
    e.CallRuntime("cuspan_rt_warp_reduce", b.getVoidTy(),
                  {b.getInt32(operation), e.mask(), inputs, masks, results});
    WriteLanes(e, b.CreateLoad(results->getAllocatedType(), results), nullptr);
    return;
  }
  // Neutral elements, indexed by the operations of cuspan_rt_reduce.
  static constexpr std::array<std::uint32_t, 8> kNeutral = {0, 0x7fffffff, 0x80000000, 0xffffffff,
                                                            0, 0xffffffff, 0,          0};
  auto* const taking =
      b.CreateSelect(e.LaneBits(members.lanes), values, Splat(e, b.getInt32(kNeutral[operation])));
  const auto reduced = [&]() -> Value* {
    switch (operation) {
      case 0:
        return b.CreateAddReduce(taking);
      case 1:
      case 3:
        return b.CreateIntMinReduce(taking, operation == 1);
      case 2:
      case 4:
        return b.CreateIntMaxReduce(taking, operation == 2);
      case 5:
        return b.CreateAndReduce(taking);
      case 6:
        return b.CreateOrReduce(taking);
      default:
        return b.CreateXorReduce(taking);
    }
  };
  e.SetResult(analysis::kUniformShape);
  auto* const result = reduced();
  e.WithWidth(1, [&] { e.Write(result, Type::kB32); });
}

void EmitWarpElect(FunctionEmitter& e) {
  auto& b = e.b;
  const Members members = ReadMembers(e, 1, true);
  if (e.failed()) return;
  auto* const words = members.word != nullptr ? Splat(e, members.word) : members.words;
  auto* const leaders = b.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, words, b.getFalse());
  WriteLanes(e, leaders, b.CreateICmpEQ(leaders, e.LaneNumbers(32)));
}

void CheckBarrier(FunctionEmitter& e) {
  if (auto* const owing = e.Owing(); owing != nullptr)
    FaultIf(e, e.b.CreateIsNotNull(e.b.CreateAnd(e.mask(), owing)), kNeverMet);
}

void EmitWarpSync(FunctionEmitter& e) { ReadMembers(e, 0, true); }

}  // namespace cuspan::softgpu::emit
