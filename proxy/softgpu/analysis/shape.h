// Shape of a register: the dependence of its values on the lane of a warp.
//
// A warp is divided into rows of equal length: 32 lanes, or the width of a narrow block. In lane i
// of a row with base value b, a register holds
//   b + stride·i                                       (modulo its width), or
//   b + stride·i + scale·(ext(a + narrow·i) - ext(a)),  ext: 32 to 64 bits.
// The second form is a 32-bit index used in a 64-bit address. Its anchor `a` is the index in the
// row's first lane, so that the form is exact even if the index wraps around.
#pragma once

#include <array>
#include <cstdint>

#include "proxy/ptx/module.h"

namespace cuspan::softgpu::analysis {

// Number of base values. kNone: not written yet.
enum class Spread : std::uint8_t { kNone, kWarp, kRows, kLanes };

struct Shape {
  enum class Extension : std::uint8_t { kNone, kZero, kSign };
  Spread spread = Spread::kNone;
  // Each base is a multiple of 2^zeros; at most 31 (a base of 0).
  std::uint8_t zeros = 0;
  Extension extension = Extension::kNone;
  std::int64_t stride = 0;
  std::int64_t narrow = 0;
  std::int64_t scale = 0;

  bool known() const { return spread != Spread::kNone; }
  // True if equal in all lanes of a row.
  bool flat() const { return stride == 0 && extension == Extension::kNone; }
  // True if equal in all lanes.
  bool uniform() const { return spread <= Spread::kWarp && flat(); }
  // Difference between adjacent lanes if nothing wraps around.
  std::int64_t step() const { return stride + scale * narrow; }

  friend bool operator==(const Shape&, const Shape&) = default;
};

inline constexpr Shape kUniformShape{Spread::kWarp};
inline constexpr Shape kLanesShape{Spread::kLanes};

// Shape of a register written with both shapes.
Shape Join(const Shape& x, const Shape& y);

// Block dimensions known at code generation.
struct WarpLayout {
  // Lanes per row: 32 if %tid.x counts up through each warp; 8 or 16 if this is the block's x
  // dimension; else 1.
  unsigned row = 32;
  bool full = true;        // The block has only whole warps.
  bool aligned_x = false;  // %ntid.x is a multiple of 32.

  unsigned rows() const { return 32 / row; }
  friend bool operator==(const WarpLayout&, const WarpLayout&) = default;
};
WarpLayout LayoutOf(std::uint32_t x, std::uint32_t y, std::uint32_t z);

// Bytes between neighbouring lanes' copies of a .local or .param variable.
std::uint64_t LaneBytes(const ptx::Variable& variable);

// Execution of an instruction in code for a warp.
enum class Way : std::uint8_t {
  kElements,  // Once, on vectors of the bases or of all lanes.
  kLoop,      // Once for each active lane.
  kOnce,      // Once for all; operands do not matter.
  kMemory,
  kTogether,  // Votes, shuffles, barriers.
  kCall,
  kBranch,
};

struct InstructionPlan {
  Way way = Way::kLoop;
  Spread width = Spread::kWarp;  // Number of values computed with.
  Shape result;
  // Operand providing the result's anchor: the operand's anchor, or the operand itself if it has 32
  // bits. -1: no anchor.
  std::int8_t anchor = -1;
};

// Plans an instruction, given the shapes of the registers. The caller handles its guard.
InstructionPlan PlanInstruction(const ptx::Function& function, const ptx::Body& body,
                                const ptx::Instruction& instruction,
                                const std::vector<Shape>& registers, const WarpLayout& layout);

Shape ShapeOf(ptx::SpecialRegister which, const WarpLayout& layout);
// Shape of `operand` read with `bits` bits; 0: its own width.
Shape ShapeOf(const ptx::Function& function, const ptx::Body& body, const ptx::Operand& operand,
              unsigned bits, const std::vector<Shape>& registers, const WarpLayout& layout);

}  // namespace cuspan::softgpu::analysis
