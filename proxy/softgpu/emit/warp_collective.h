// What the lanes of a warp do together, as vector code; the counterparts of the
// runtime functions that threads of their own call (see collective.cc).
#pragma once

#include "proxy/softgpu/emit/function_emitter.h"
#include "proxy/softgpu/rt/abi.h"

namespace cuspan::softgpu::emit {

// Each takes what the current instruction's modifiers did not say yet from its operands.
void EmitWarpShuffle(FunctionEmitter& e, ShuffleMode mode, bool sync);
void EmitWarpVote(FunctionEmitter& e, VoteMode mode, bool sync);
void EmitWarpMatch(FunctionEmitter& e, MatchMode mode);
void EmitWarpReduction(FunctionEmitter& e, std::uint32_t operation);
void EmitWarpElect(FunctionEmitter& e);
void EmitWarpSync(FunctionEmitter& e);
// Before a barrier of the block.
void CheckBarrier(FunctionEmitter& e);

}  // namespace cuspan::softgpu::emit
