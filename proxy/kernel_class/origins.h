// What the values of a function's registers depend on: which of a thread's indices, and which
// memory they are addresses of.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "proxy/ptx/module.h"

namespace cuspan::kernel_class {

// A set of these.
using Origin = std::uint32_t;
namespace origin {
inline constexpr Origin kLane = 1;  // %tid.x, %laneid, …: differs between the lanes of a warp.
inline constexpr Origin kTidY = 2;  // Those of the other rows of a block: mostly of other warps.
inline constexpr Origin kTidZ = 4;
inline constexpr Origin kBlockX = 8;
inline constexpr Origin kBlockY = 16;
inline constexpr Origin kBlockZ = 32;
inline constexpr Origin kBlocks = kBlockX | kBlockY | kBlockZ;
inline constexpr Origin kNear = 64;  // An address in .shared, .local or .const memory.
// An address in a variable of the module that is small enough to stay in the L2 cache.
inline constexpr Origin kSmall = 128;
// What a kernel makes of a block's index by division, such as the row and the column of a tile:
// each of these is as an index of its own.
inline constexpr Origin kFirstPart = 256;
inline constexpr int kMaxParts = 16;
inline constexpr Origin kParts = ((Origin{1} << kMaxParts) - 1) * kFirstPart;
inline constexpr Origin kIndices = kLane | kTidY | kTidZ | kBlocks | kParts;
}  // namespace origin

// Which way a program went does not count: a value that is one of two depends on what both do.
class Origins {
 public:
  // The arguments outlive it.
  Origins(const ptx::Module& module, const ptx::Function& function, const ptx::Body& body);

  // Of a value, an address ("[…]"), or a list of them.
  Origin Of(const ptx::Operand& operand) const;
  // Those that this function reads at all.
  Origin indices() const { return indices_; }
  // The value, if the operand is a number, or a register that is only ever given one.
  std::optional<std::uint64_t> ValueOf(const ptx::Operand& operand) const;

 private:
  void FindIndices();
  void FindValues();
  bool Pass();
  Origin Result(std::uint32_t at);
  bool MakesPart(const ptx::Instruction& instruction) const;
  bool Give(const ptx::Operand& destination, Origin origin);
  bool IsArgument(const ptx::Operand& address) const;

  const ptx::Module& module_;
  const ptx::Function& function_;
  const ptx::Body& body_;
  Origin indices_ = 0;
  std::vector<Origin> registers_;
  std::map<std::uint32_t, Origin> parts_;  // By the instruction that makes one.
  std::vector<std::optional<std::uint64_t>> values_;
};

}  // namespace cuspan::kernel_class
