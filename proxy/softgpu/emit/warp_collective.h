// Collectives of a warp's lanes as vector code. collective.cc has the counterparts for single
// threads, calling the runtime.
#pragma once

#include "proxy/softgpu/emit/function_emitter.h"
#include "proxy/softgpu/rt/abi.h"

namespace cuspan::softgpu::emit {

// Each reads the operands of the current instruction; parameters come from its modifiers.
void EmitWarpShuffle(FunctionEmitter& e, ShuffleMode mode, bool sync);
void EmitWarpVote(FunctionEmitter& e, VoteMode mode, bool sync);
void EmitWarpMatch(FunctionEmitter& e, MatchMode mode);
void EmitWarpReduction(FunctionEmitter& e, std::uint32_t operation);
void EmitWarpElect(FunctionEmitter& e);
void EmitWarpSync(FunctionEmitter& e);
// Called before a barrier of the block. Faults if lanes expected to end arrive at it.
void CheckBarrier(FunctionEmitter& e);

}  // namespace cuspan::softgpu::emit
