// How the values that a warp's lanes hold in one register depend on the lane.
//
// A warp is cut into rows of equal length: 32 lanes, or as many as a narrow
// block is wide. In lane i of a row with the base value b a register holds
//   b + stride·i                                       (modulo its width), or
//   b + stride·i + scale·(ext(a + narrow·i) - ext(a)),  ext: 32 to 64 bits.
// The second is what an index of 32 bits becomes in an address of 64: it keeps
// `a`, the index in the row's first lane, as its anchor, so that it is exact
// even where the index wraps around.
#pragma once

#include <array>
#include <cstdint>

#include "proxy/ptx/module.h"

namespace cuspan::softgpu::analysis {

// How many base values there are. kNone: nothing was written to it yet.
enum class Spread : std::uint8_t { kNone, kWarp, kRows, kLanes };

struct Shape {
  enum class Extension : std::uint8_t { kNone, kZero, kSign };
  Spread spread = Spread::kNone;
  // Each base is a multiple of 2^zeros; at most 31, what a base of 0 has.
  std::uint8_t zeros = 0;
  Extension extension = Extension::kNone;
  std::int64_t stride = 0;
  std::int64_t narrow = 0;
  std::int64_t scale = 0;

  bool known() const { return spread != Spread::kNone; }
  // The same in all lanes of a row.
  bool flat() const { return stride == 0 && extension == Extension::kNone; }
  // The same in all lanes.
  bool uniform() const { return spread <= Spread::kWarp && flat(); }
  // How far it goes from lane to lane where nothing wraps around.
  std::int64_t step() const { return stride + scale * narrow; }

  friend bool operator==(const Shape&, const Shape&) = default;
};

inline constexpr Shape kUniformShape{Spread::kWarp};
inline constexpr Shape kLanesShape{Spread::kLanes};

// Of a register that is written in both ways.
Shape Join(const Shape& x, const Shape& y);

// What is known of a block's dimensions when code for it is made.
struct WarpLayout {
  // Lanes of a row: 32 where %tid.x counts up through each warp; 8 or 16 where that is the
  // block's extent along x; 1 where neither holds.
  unsigned row = 32;
  bool full = true;        // The block has whole warps only.
  bool aligned_x = false;  // %ntid.x is a multiple of 32.

  unsigned rows() const { return 32 / row; }
  friend bool operator==(const WarpLayout&, const WarpLayout&) = default;
};
WarpLayout LayoutOf(std::uint32_t x, std::uint32_t y, std::uint32_t z);

// Bytes between the copies of a .local or .param variable that neighbouring lanes have.
std::uint64_t LaneBytes(const ptx::Variable& variable);

// How code for a warp does an instruction.
enum class Way : std::uint8_t {
  kElements,  // Once, on vectors of the bases or of all lanes.
  kLoop,      // Once for each active lane.
  kOnce,      // Once for all, without operands that matter.
  kMemory,
  kTogether,  // Votes, shuffles, barriers.
  kCall,
  kBranch,
};

struct InstructionPlan {
  Way way = Way::kLoop;
  Spread width = Spread::kWarp;  // Of the values that it computes with.
  Shape result;
  // The operand that the result's anchor is taken from: its own anchor, or itself when it has
  // 32 bits; -1 for none.
  std::int8_t anchor = -1;
};

// Plans an instruction whose registers have the given shapes. Its guard is the caller's business.
InstructionPlan PlanInstruction(const ptx::Function& function, const ptx::Body& body,
                                const ptx::Instruction& instruction,
                                const std::vector<Shape>& registers, const WarpLayout& layout);

Shape ShapeOf(ptx::SpecialRegister which, const WarpLayout& layout);
// Of operand `operand` of the body, read with `bits` bits.
Shape ShapeOf(const ptx::Function& function, const ptx::Body& body, const ptx::Operand& operand,
              unsigned bits, const std::vector<Shape>& registers, const WarpLayout& layout);

}  // namespace cuspan::softgpu::analysis
