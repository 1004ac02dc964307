// Dependences of the values in a function's registers: a thread's indices used, and the memory they
// point to.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "proxy/ptx/module.h"

namespace cuspan::kernel_class {

// A set of the flags below.
using Origin = std::uint32_t;
namespace origin {
inline constexpr Origin kLane = 1;  // %tid.x, %laneid, …: differs between the lanes of a warp.
inline constexpr Origin kTidY = 2;  // %tid.y, %warpid: usually differs between warps.
inline constexpr Origin kTidZ = 4;
inline constexpr Origin kBlockX = 8;
inline constexpr Origin kBlockY = 16;
inline constexpr Origin kBlockZ = 32;
inline constexpr Origin kBlocks = kBlockX | kBlockY | kBlockZ;
inline constexpr Origin kNear = 64;  // An address in .shared, .local or .const memory.
// An address in a variable of the module small enough to stay in the L2 cache.
inline constexpr Origin kSmall = 128;
// Values computed from a block's index by division, such as the row and the column of a tile. Each
// is treated as a separate index.
inline constexpr Origin kFirstPart = 256;
inline constexpr int kMaxParts = 16;
inline constexpr Origin kParts = ((Origin{1} << kMaxParts) - 1) * kFirstPart;
inline constexpr Origin kIndices = kLane | kTidY | kTidZ | kBlocks | kParts;
}  // namespace origin

// Control flow is ignored: a value assigned on two paths depends on both.
class Origins {
 public:
  // The arguments must outlive it.
  Origins(const ptx::Module& module, const ptx::Function& function, const ptx::Body& body);

  // Origin of a value, an address ("[…]"), or a list of them.
  Origin Of(const ptx::Operand& operand) const;
  // Indices read anywhere in this function.
  Origin indices() const { return indices_; }
  // The value of a constant operand, or of a register assigned only one constant.
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
  std::map<std::uint32_t, Origin> parts_;  // Key: the instruction computing it.
  std::vector<std::optional<std::uint64_t>> values_;
};

}  // namespace cuspan::kernel_class
