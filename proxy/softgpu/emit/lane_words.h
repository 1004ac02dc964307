// Registers passed to the runtime in memory: 32-bit words, word `i` of all lanes side by side (one
// lane, or the whole warp).
#pragma once

#include "proxy/softgpu/emit/function_emitter.h"

namespace cuspan::softgpu::emit {

class LaneWords {
 public:
  // Allocates uninitialised memory in the frame, `count` words for each lane.
  LaneWords(FunctionEmitter& e, unsigned count)
      : e_(e),
        lanes_(Lanes(e)),
        memory_(e.FrameBytes(std::uint64_t{count} * lanes_ * kWordBytes, 64)) {
    e_.b.CreateLifetimeStart(memory_);
  }
  // Ends the lifetime of the memory, so that LLVM can reuse it.
  void End() { e_.b.CreateLifetimeEnd(memory_); }

  // Number of lanes of a value.
  static unsigned Lanes(FunctionEmitter& e) {
    const auto* const vector = llvm::dyn_cast<llvm::FixedVectorType>(e.Int(32));
    return vector == nullptr ? 1 : vector->getNumElements();
  }
  unsigned lanes() const { return lanes_; }
  llvm::Value* memory() const { return memory_; }

  // `value` has 32 bits, integer or float.
  void Put(unsigned i, llvm::Value* value) {
    e_.b.CreateAlignedStore(value, At(i), llvm::Align(4));
  }
  // Word `i` as an integer.
  llvm::Value* Get(unsigned i) { return e_.b.CreateAlignedLoad(e_.Int(32), At(i), llvm::Align(4)); }
  // A 64-bit value takes two words, the lower first.
  void PutWide(unsigned i, llvm::Value* value) {
    auto* const bits = e_.b.CreateBitCast(value, e_.Int(64));
    Put(i, e_.b.CreateTrunc(bits, e_.Int(32)));
    Put(i + 1, e_.b.CreateTrunc(e_.b.CreateLShr(bits, e_.ConstInt(64, 32)), e_.Int(32)));
  }
  llvm::Value* GetWide(unsigned i) {
    auto* const low = e_.b.CreateZExt(Get(i), e_.Int(64));
    auto* const high = e_.b.CreateZExt(Get(i + 1), e_.Int(64));
    return e_.b.CreateOr(low, e_.b.CreateShl(high, e_.ConstInt(64, 32)));
  }

 private:
  static constexpr unsigned kWordBytes = 4;

  llvm::Value* At(unsigned i) {
    return e_.b.CreateConstInBoundsGEP1_64(e_.b.getInt8Ty(), memory_,
                                           std::uint64_t{i} * lanes_ * kWordBytes);
  }

  FunctionEmitter& e_;
  const unsigned lanes_;
  llvm::AllocaInst* const memory_;
};

}  // namespace cuspan::softgpu::emit
