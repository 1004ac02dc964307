#include "proxy/softgpu/analysis/shape.h"

#include <algorithm>
#include <bit>
#include <string_view>
#include <unordered_set>

#include "proxy/ptx/declarations.h"
#include "proxy/softgpu/analysis/cfg.h"
#include "proxy/softgpu/analysis/facts.h"
#include "proxy/softgpu/rt/abi.h"

namespace cuspan::softgpu::analysis {
namespace {

using ptx::Instruction;
using ptx::Operand;
using ptx::Space;
using ptx::SpecialRegister;
using ptx::Type;
using Extension = Shape::Extension;

// True if each lane's result depends only on its own operands, and the emitter uses vector
// operations for the instruction.
bool IsElementwise(const Instruction& instruction) {
  static const auto* const kNames = new std::unordered_set<std::string_view>{
      "add",   "sub",   "mul",   "mad",   "fma",    "div",      "rem",       "abs",       "neg",
      "min",   "max",   "and",   "or",    "xor",    "not",      "cnot",      "shl",       "shr",
      "shf",   "popc",  "clz",   "bfind", "brev",   "bfe",      "bfi",       "bmsk",      "szext",
      "lop3",  "prmt",  "fns",   "addc",  "subc",   "madc",     "mul24",     "mad24",     "sad",
      "setp",  "set",   "selp",  "slct",  "cvt",    "mov",      "sin",       "cos",       "ex2",
      "lg2",   "tanh",  "rcp",   "sqrt",  "rsqrt",  "copysign", "testp",     "dp4a",      "dp2a",
      "vadd2", "vadd4", "vsub2", "vsub4", "vavrg2", "vavrg4",   "vabsdiff2", "vabsdiff4", "vmin2",
      "vmin4", "vmax2", "vmax4", "cvta"};
  return kNames->count(instruction.opcode) != 0;
}

bool IsOnce(const Instruction& instruction) {
  static const auto* const kNames = new std::unordered_set<std::string_view>{
      "membar",        "fence",        "prefetch",       "prefetchu",  "discard",
      "applypriority", "createpolicy", "griddepcontrol", "setmaxnreg", "pmevent"};
  if (instruction.opcode == "cp")
    return instruction.operands.empty() || instruction.operands[0].kind != Operand::Kind::kAddress;
  return kNames->count(instruction.opcode) != 0;
}

bool IsTogether(const Instruction& instruction) {
  static const auto* const kNames = new std::unordered_set<std::string_view>{
      "bar", "barrier", "shfl", "vote", "match", "redux", "activemask", "nanosleep", "elect"};
  return kNames->count(instruction.opcode) != 0;
}

std::int64_t Wrapped(std::int64_t value, unsigned bits) {
  return bits == 32 ? static_cast<std::int32_t>(static_cast<std::uint32_t>(value)) : value;
}

std::int64_t Product(std::int64_t x, std::int64_t y) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(x) * static_cast<std::uint64_t>(y));
}
std::int64_t Sum(std::int64_t x, std::int64_t y) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(x) + static_cast<std::uint64_t>(y));
}

Spread Wider(Spread x, Spread y) { return std::max(x, y); }

constexpr unsigned kMaxZeros = 31;

unsigned ZerosOf(std::uint64_t value) {
  return std::min(static_cast<unsigned>(std::countr_zero(value)), kMaxZeros);
}

// Offsets of the lanes of a row from its base, if base and offsets have no bit in common. Each bit
// of the sum is then a bit of the base or of the offset.
struct Addends {
  std::uint64_t bits = 0;  // Union of the bits of all offsets.
  std::int64_t stride = 0;
  unsigned row = 0;

  unsigned width() const { return static_cast<unsigned>(std::bit_width(bits)); }
  // True if `of(addend)` grows by a constant `step` from lane to lane.
  template <typename Of>
  bool Linear(Of of, std::int64_t* step) const {
    *step = of(static_cast<std::uint64_t>(row > 1 ? stride : 0));
    for (unsigned i = 0; i < row; ++i)
      if (of(static_cast<std::uint64_t>(stride) * i) != *step * static_cast<std::int64_t>(i))
        return false;
    return true;
  }
};
bool Separate(const Shape& shape, const WarpLayout& layout, Addends* addends) {
  if (shape.spread == Spread::kLanes || shape.extension != Extension::kNone) return false;
  if (shape.stride < 0 || shape.stride >= std::int64_t{1} << kMaxZeros) return false;
  *addends = {0, shape.stride, layout.row};
  for (unsigned i = 0; i < layout.row; ++i)
    addends->bits |= static_cast<std::uint64_t>(shape.stride) * i;
  return addends->width() <= shape.zeros;
}

// Plans one instruction from the shapes of its operands and its constants.
class InstructionPlanner {
 public:
  InstructionPlanner(const ptx::Function& function, const ptx::Body& body,
                     const Instruction& instruction, const std::vector<Shape>& registers,
                     const WarpLayout& layout)
      : function_(function), body_(body), i_(instruction), registers_(registers), layout_(layout) {}

  InstructionPlan Plan() {
    InstructionPlan plan;
    if (IsBranch(i_) || LeavesFunction(i_)) {
      plan.way = Way::kBranch;
      return plan;
    }
    if (i_.opcode == "call") return Lanes(Way::kCall);
    if (IsOnce(i_)) {
      plan.way = Way::kOnce;
      plan.result = kUniformShape;
      return plan;
    }
    if (i_.opcode == "ld" || i_.opcode == "ldu" || i_.opcode == "st") return Memory();
    if (IsTogether(i_)) return Together();
    // If an operand's shape is still unknown, the result's shape is unknown too.
    Spread widest = Spread::kWarp;
    bool flat = true;
    for (std::size_t k = 1; k < i_.operands.size(); ++k) {
      if (!Visit(i_.operands[k], &widest, &flat)) return plan.result = {}, WithWay(plan);
    }
    if (!IsElementwise(i_)) {
      if (i_.opcode == "isspacep" && widest == Spread::kWarp && flat) {
        plan.way = Way::kElements;
        plan.result = kUniformShape;
        return plan;
      }
      return Lanes(Way::kLoop);
    }
    plan.way = Way::kElements;
    if (i_.Has("cc") || i_.opcode == "addc" || i_.opcode == "subc" || i_.opcode == "madc")
      return Lanes(Way::kElements);
    Shape result;
    if (Linear(&result, &plan.anchor)) {
      plan.width = result.spread == Spread::kNone ? widest : result.spread;
      plan.result = result;
      if (plan.result.extension == Extension::kNone) plan.anchor = -1;
      return plan;
    }
    if (!flat) return Lanes(Way::kElements);
    plan.width = widest;
    plan.result.spread = widest;
    return plan;
  }

 private:
  InstructionPlan WithWay(InstructionPlan plan) const {
    plan.way = IsElementwise(i_) ? Way::kElements : Way::kLoop;
    return plan;
  }
  static InstructionPlan Lanes(Way way) {
    InstructionPlan plan;
    plan.way = way;
    plan.width = Spread::kLanes;
    plan.result = kLanesShape;
    return plan;
  }

  Shape Of(std::size_t k, unsigned bits) const {
    return ShapeOf(function_, body_, i_.operands[k], bits, registers_, layout_);
  }
  Shape Of(std::size_t k) const { return Of(k, 0); }

  bool Visit(const Operand& operand, Spread* widest, bool* flat) const {
    if (!operand.elements.empty() || operand.kind == Operand::Kind::kVector) {
      for (const auto& element : operand.elements)
        if (!Visit(element, widest, flat)) return false;
      return true;
    }
    if (operand.kind == Operand::Kind::kNone) return true;
    const Shape shape = ShapeOf(function_, body_, operand, 0, registers_, layout_);
    if (!shape.known()) return false;
    *widest = Wider(*widest, shape.spread);
    *flat = *flat && shape.flat();
    return true;
  }

  InstructionPlan Memory() const {
    InstructionPlan plan;
    plan.way = Way::kMemory;
    const bool load = i_.opcode != "st";
    const std::size_t at = load ? 1 : 0;
    if (i_.operands.size() <= at || i_.operands[at].kind != Operand::Kind::kAddress)
      return Lanes(Way::kMemory);
    const Shape address =
        i_.operands[at].elements.size() == 1
            ? ShapeOf(function_, body_, i_.operands[at].elements[0], 0, registers_, layout_)
            : kLanesShape;
    if (!address.known()) return plan;
    plan.width = address.flat() ? address.spread : Spread::kLanes;
    plan.result.spread = plan.width;
    return plan;
  }

  InstructionPlan Together() const {
    InstructionPlan plan = Lanes(Way::kTogether);
    Spread widest = Spread::kWarp;
    bool flat = true;
    const auto uniform_result = [&] { plan.result = kUniformShape; };
    if (i_.opcode == "activemask") uniform_result();
    if (i_.opcode == "bar" || i_.opcode == "barrier") uniform_result();
    if (i_.opcode == "vote" || i_.opcode == "redux") {
      const std::size_t members = 2;
      if (i_.operands.size() <= members) {
        uniform_result();
      } else if (!Visit(i_.operands[members], &widest, &flat)) {
        plan.result = {};
      } else if (flat && widest == Spread::kWarp) {
        uniform_result();
      }
    }
    return plan;
  }

  const Operand* Constant(std::size_t k) const {
    return k < i_.operands.size() && i_.operands[k].kind == Operand::Kind::kInteger
               ? &i_.operands[k]
               : nullptr;
  }

  // True if the operand can be an anchor.
  bool Has32Bits(std::size_t k) const {
    const Operand& operand = i_.operands[k];
    return operand.kind != Operand::Kind::kRegister ||
           ptx::BitsOf(body_.registers[operand.index].type) == 32;
  }

  static Shape Scaled(Shape shape, std::int64_t factor, unsigned bits) {
    shape.stride = Wrapped(Product(shape.stride, factor), bits);
    shape.scale = Product(shape.scale, factor);
    shape.zeros = Zeros(shape.zeros + ZerosOf(static_cast<std::uint64_t>(factor)));
    return Normal(shape);
  }
  static std::uint8_t Zeros(unsigned zeros) {
    return static_cast<std::uint8_t>(std::min(zeros, kMaxZeros));
  }
  static Shape Normal(Shape shape) {
    if (shape.extension != Extension::kNone && (shape.scale == 0 || shape.narrow == 0)) {
      shape.extension = Extension::kNone;
      shape.scale = shape.narrow = 0;
    }
    return shape;
  }
  // x + y or x - y; returns false if it has no shape.
  bool Added(const Shape& x, const Shape& y, bool subtract, unsigned bits, Shape* sum) const {
    if (y.extension != Extension::kNone && (subtract || x.extension != Extension::kNone))
      return false;
    *sum = x;
    sum->spread = Wider(x.spread, y.spread);
    sum->stride = Wrapped(Sum(x.stride, subtract ? Product(y.stride, -1) : y.stride), bits);
    if (y.extension != Extension::kNone) {
      sum->extension = y.extension;
      sum->narrow = y.narrow;
      sum->scale = y.scale;
    }
    sum->zeros = std::min(x.zeros, y.zeros);
    return true;
  }
  // Shape after extending 32 bits to 64.
  Shape Extended(const Shape& shape, bool is_signed) const {
    Shape wide;
    wide.spread = shape.spread;
    wide.zeros = shape.zeros;
    if (shape.flat()) return wide;
    // No carry: nothing wraps around, and the sign is the base's.
    if (Addends addends; Separate(shape, layout_, &addends)) {
      wide.stride = shape.stride;
      return wide;
    }
    wide.extension = is_signed ? Extension::kSign : Extension::kZero;
    wide.narrow = shape.stride;
    wide.scale = 1;
    return wide;
  }

  // Product of operands 1 and 2. One must be a constant unless both are flat.
  bool Multiplied(unsigned bits, bool wide, Shape* product, std::int8_t* anchor) const {
    for (const std::size_t constant : {2, 1}) {
      const std::size_t other = 3 - constant;
      if (Constant(constant) == nullptr) continue;
      Shape shape = Of(other, bits);
      *anchor = static_cast<std::int8_t>(other);
      auto factor = static_cast<std::int64_t>(Constant(constant)->bits);
      if (bits == 32)
        factor = wide && !ptx::IsSigned(i_.types[0])
                     ? static_cast<std::int64_t>(static_cast<std::uint32_t>(factor))
                     : Wrapped(factor, 32);
      if (wide) {
        if (!Has32Bits(other)) return false;
        if (shape.extension != Extension::kNone) return false;
        shape = Extended(shape, ptx::IsSigned(i_.types[0]));
      }
      *product = Scaled(shape, factor, wide ? 64 : bits);
      return true;
    }
    const Shape x = Of(1, bits), y = Of(2, bits);
    if (!x.flat() || !y.flat()) return false;
    *product = {};
    product->spread = Wider(x.spread, y.spread);
    product->zeros = Zeros(x.zeros + y.zeros);
    return true;
  }

  // True if the result has a base and a stride again. The instruction computes the new base from
  // the bases.
  bool Linear(Shape* result, std::int8_t* anchor) const {
    const Type type = i_.types[0];
    const unsigned bits = ptx::BitsOf(type);
    const bool integer = !ptx::IsFloat(type) && !ptx::IsPacked(type) && !ptx::IsPackedInteger(type);
    if (!integer || (bits != 32 && bits != 64) || i_.Has("sat")) return false;
    const std::string_view op = i_.opcode;
    const auto count = i_.operands.size();
    if ((op == "mov" || (op == "cvta" && i_.operands.size() == 2)) && count == 2) {
      if (i_.operands[0].kind != Operand::Kind::kRegister ||
          i_.operands[1].kind == Operand::Kind::kVector)
        return false;
      // The width is that of the register: function pointers may differ from the instruction.
      *result = Of(1, bits);
      *anchor = 1;
      if (result->extension != Extension::kNone && bits == 32) return false;
      if (op == "cvta") result->zeros = 0;
      return true;
    }
    if ((op == "add" || op == "sub") && count == 3) {
      const Shape x = Of(1, bits), y = Of(2, bits);
      if (!Added(x, y, op == "sub", bits, result)) return false;
      *anchor = y.extension != Extension::kNone ? 2 : 1;
      return true;
    }
    if (op == "mul" && count == 3 && !i_.Has("hi")) {
      if (i_.Has("wide") && bits != 32) return false;
      return Multiplied(bits, i_.Has("wide"), result, anchor);
    }
    if (op == "mad" && count == 4 && !i_.Has("hi")) {
      const bool wide = i_.Has("wide");
      if (wide && bits != 32) return false;
      Shape product;
      if (!Multiplied(bits, wide, &product, anchor)) return false;
      const unsigned sum_bits = wide ? 64 : bits;
      const Shape addend = Of(3, sum_bits);
      if (addend.extension != Extension::kNone) *anchor = 3;
      return Added(product, addend, false, sum_bits, result);
    }
    if (op == "shl" && count == 3 && Constant(2) != nullptr && Constant(2)->bits < bits) {
      *result = Scaled(Of(1, bits), std::int64_t{1} << Constant(2)->bits, bits);
      *anchor = 1;
      return true;
    }
    if (op == "cvt" && count == 2) return Converted(result, anchor);
    return count == 3 && OfSeparate(op, bits, result);
  }

  bool Converted(Shape* result, std::int8_t* anchor) const {
    const Type to = i_.types[0], from = i_.types[1];
    const unsigned from_bits = ptx::BitsOf(from), to_bits = ptx::BitsOf(to);
    if (ptx::IsFloat(from) || ptx::IsPacked(from) || (from_bits != 32 && from_bits != 64))
      return false;
    const Shape source = Of(1, from_bits);
    *anchor = 1;
    if (from_bits == to_bits) {
      *result = source;
      return true;
    }
    if (from_bits == 32) {
      if (source.extension != Extension::kNone || !Has32Bits(1)) return false;
      *result = Extended(source, ptx::IsSigned(from));
      return true;
    }
    *result = {};
    result->spread = source.spread;
    result->zeros = source.zeros;
    result->stride = Wrapped(source.step(), 32);
    return true;
  }

  // Bit operations on %tid.x and values derived from it, and comparisons with one result for all
  // lanes of a row.
  bool OfSeparate(std::string_view op, unsigned bits, Shape* result) const {
    Addends addends;
    std::size_t at = 1;
    const bool commutes = op == "and" || op == "or" || op == "xor";
    if (commutes && Of(1, bits).flat()) at = 2;
    const Shape x = Of(at, bits);
    if (!Separate(x, layout_, &addends)) return false;
    const Shape y = Of(3 - at, bits);
    const Operand* const constant = Constant(3 - at);
    if (constant == nullptr && !y.flat()) return false;
    *result = {};
    result->spread = Wider(x.spread, y.spread);
    const std::uint64_t value = constant == nullptr ? 0 : constant->bits;
    if (op == "and") {
      if (constant == nullptr && y.zeros < addends.width()) return false;
      result->zeros = std::max(x.zeros, y.zeros);
      return addends.Linear(
          [&](std::uint64_t addend) { return static_cast<std::int64_t>(addend & value); },
          &result->stride);
    }
    if (op == "or" || op == "xor") {
      if (constant == nullptr ? y.zeros < addends.width() : (value & addends.bits) != 0)
        return false;
      result->zeros = std::min(x.zeros, y.zeros);
      result->stride = x.stride;
      return true;
    }
    if (op == "shr") {
      if (constant == nullptr || value >= bits) return false;
      result->zeros = Zeros(x.zeros > value ? x.zeros - static_cast<unsigned>(value) : 0);
      return addends.Linear(
          [&](std::uint64_t addend) { return static_cast<std::int64_t>(addend >> value); },
          &result->stride);
    }
    if (op != "setp" || at != 1 || i_.operands[0].kind != Operand::Kind::kRegister) return false;
    // All lanes of a row lie between two adjacent multiples of a power of two. The comparand must
    // be a multiple, or one less than a multiple.
    const bool below = i_.Has("lt") || i_.Has("ge") || i_.Has("lo") || i_.Has("hs");
    const bool above = i_.Has("gt") || i_.Has("le") || i_.Has("hi") || i_.Has("ls");
    if (below) return y.zeros >= addends.width();
    return above && constant != nullptr && ZerosOf(value + 1) >= addends.width();
  }

  const ptx::Function& function_;
  const ptx::Body& body_;
  const Instruction& i_;
  const std::vector<Shape>& registers_;
  const WarpLayout& layout_;
};

}  // namespace

Shape Join(const Shape& x, const Shape& y) {
  if (!x.known()) return y;
  if (!y.known()) return x;
  Shape joined = x;
  joined.spread = Wider(x.spread, y.spread);
  joined.zeros = std::min(x.zeros, y.zeros);
  if (x.extension == y.extension && x.stride == y.stride && x.narrow == y.narrow &&
      x.scale == y.scale)
    return joined;
  return kLanesShape;
}

WarpLayout LayoutOf(std::uint32_t x, std::uint32_t y, std::uint32_t z) {
  WarpLayout layout;
  layout.full = std::uint64_t{x} * y * z % 32 == 0;
  layout.aligned_x = x % 32 == 0;
  if (layout.aligned_x || (y == 1 && z == 1)) {
    layout.row = 32;
  } else {
    layout.row = x == 16 || x == 8 ? x : 1;
  }
  return layout;
}

std::uint64_t LaneBytes(const ptx::Variable& variable) {
  constexpr std::uint64_t kLine = 64;
  const std::uint64_t unit = std::max<std::uint64_t>(variable.alignment, kLine);
  if (variable.space != ptx::Space::kLocal || variable.bytes < 2 * kLocalPadding * unit)
    return ptx::AlignUp(variable.bytes, std::max(variable.alignment, 16U));
  // Copies have an odd number of cache lines. Equal offsets of all lanes then fall into different
  // cache sets; a power of two would put them into one set of 8 to 16 ways.
  const std::uint64_t bytes = ptx::AlignUp(variable.bytes, unit);
  return bytes / unit % 2 != 0 ? bytes : bytes + unit;
}

InstructionPlan PlanInstruction(const ptx::Function& function, const ptx::Body& body,
                                const Instruction& instruction, const std::vector<Shape>& registers,
                                const WarpLayout& layout) {
  InstructionPlan plan = InstructionPlanner(function, body, instruction, registers, layout).Plan();
  if (layout.row == 1 && plan.result.spread == Spread::kRows) plan.result.spread = Spread::kLanes;
  if (layout.row == 1 && plan.width == Spread::kRows) plan.width = Spread::kLanes;
  // Each lane has its own base, so strides are not needed.
  if (plan.result.spread == Spread::kLanes) {
    const bool bases = !plan.result.flat();
    plan.result = kLanesShape;
    plan.anchor = -1;
    if (bases) plan.width = Spread::kLanes;
  }
  return plan;
}

Shape ShapeOf(SpecialRegister which, const WarpLayout& layout) {
  using R = SpecialRegister;
  Shape shape = kUniformShape;
  const auto zeros = [](unsigned lanes) { return static_cast<std::uint8_t>(ZerosOf(lanes)); };
  const Spread rows = layout.row == 32  ? Spread::kWarp
                      : layout.row == 1 ? Spread::kLanes
                                        : Spread::kRows;
  switch (which) {
    case R::kTidX:
      if (layout.row == 1) return kLanesShape;
      shape.stride = 1;
      // Rows of less than 32 lanes begin at 0.
      shape.zeros = layout.row == 32 ? zeros(32) : kMaxZeros;
      return shape;
    case R::kTidY:
    case R::kTidZ:
      shape.spread = rows;
      return shape;
    case R::kLaneid:
      if (layout.row == 1) return kLanesShape;
      shape.spread = rows;
      shape.stride = 1;
      shape.zeros = layout.row == 32 ? kMaxZeros : zeros(layout.row);
      return shape;
    case R::kNtidX:
      if (layout.aligned_x) shape.zeros = zeros(32);
      if (layout.row == 8 || layout.row == 16) shape.zeros = zeros(layout.row);
      return shape;
    case R::kLanemaskEq:
    case R::kLanemaskLt:
    case R::kLanemaskLe:
    case R::kLanemaskGt:
    case R::kLanemaskGe:
      return kLanesShape;
    default:
      return shape;
  }
}

Shape ShapeOf(const ptx::Function& function, const ptx::Body& body, const Operand& operand,
              unsigned bits, const std::vector<Shape>& registers, const WarpLayout& layout) {
  switch (operand.kind) {
    case Operand::Kind::kRegister: {
      Shape shape = registers[operand.index];
      const unsigned declared = ptx::BitsOf(body.registers[operand.index].type);
      if (bits == 0 || bits == declared || !shape.known() || shape.flat()) return shape;
      if (bits != 32 || declared != 64) return kLanesShape;
      // Lower half of a 64-bit register.
      Shape low;
      low.spread = shape.spread;
      low.zeros = shape.zeros;
      low.stride = Wrapped(shape.step(), 32);
      return low;
    }
    case Operand::Kind::kInteger: {
      Shape shape = kUniformShape;
      shape.zeros = static_cast<std::uint8_t>(ZerosOf(operand.bits));
      return shape;
    }
    case Operand::Kind::kSpecial:
      return ShapeOf(operand.special, layout);
    case Operand::Kind::kVariable: {
      const auto& variable = body.variables[operand.index];
      const bool own = variable.space == Space::kLocal || variable.space == Space::kParam;
      if (!own || (function.entry && operand.index < body.formal_registers.size()))
        return kUniformShape;
      Shape shape;
      shape.spread = layout.row == 32  ? Spread::kWarp
                     : layout.row == 1 ? Spread::kLanes
                                       : Spread::kRows;
      if (layout.row != 1) shape.stride = static_cast<std::int64_t>(LaneBytes(variable));
      return shape;
    }
    case Operand::Kind::kSymbol:
    default:
      return kUniformShape;
  }
}

}  // namespace cuspan::softgpu::analysis
