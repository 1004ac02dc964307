#include "proxy/kernel_class/instruction_cost.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

namespace cuspan::kernel_class {
namespace {

using ptx::Instruction;
using ptx::Operand;
using ptx::Space;
using ptx::Type;

constexpr double kWarp = 32;
constexpr double kWarpGroup = 128;
// Assumed bytes per texture read: PTX shows only that four components are returned.
constexpr double kTexelBytes = 4;

template <std::size_t count>
bool IsOneOf(std::string_view word, const std::string_view (&words)[count]) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

bool IsHalf(Type type) {
  return type == Type::kF16 || type == Type::kBf16 || type == Type::kF16x2 || type == Type::kBf16x2;
}

// --- Tensor cores

// 2 · m · n · k for "m16n8k16".
std::optional<double> OperationsOf(std::string_view shape) {
  double product = 2;
  for (const char dimension : {'m', 'n', 'k'}) {
    if (shape.empty() || shape[0] != dimension) return std::nullopt;
    unsigned value = 0;
    const auto [end, error] = std::from_chars(shape.data() + 1, shape.data() + shape.size(), value);
    if (error != std::errc()) return std::nullopt;
    product *= value;
    shape.remove_prefix(static_cast<std::size_t>(end - shape.data()));
  }
  return shape.empty() ? std::optional(product) : std::nullopt;
}

// Number of .f16 operations taking the time of one operation on that type. (NVIDIA H100 Tensor Core
// GPU Architecture, "H100 SM Architecture", and the same table of the A100's: dense FMA operations
// per clock and SM, .f64 1/16 of .f16 in both)
double HalvesOf(const Instruction& instruction) {
  for (const auto modifier : instruction.modifiers) {
    if (modifier == "f64") return 16;
    if (modifier == "tf32") return 2;
    if (IsOneOf(modifier, {"s8", "u8", "e4m3", "e5m2", "e3m2", "e2m3"})) return 0.5;
    if (IsOneOf(modifier, {"s4", "u4", "b1", "e2m1"})) return 0.25;
  }
  return 1;
}

KernelMix TensorCost(const Instruction& instruction) {
  KernelMix cost;
  cost.other = 1;
  std::optional<double> operations;
  for (const auto modifier : instruction.modifiers)
    if (!operations) operations = OperationsOf(modifier);
  if (!operations) {
    cost.unknown_work = 1;
    return cost;
  }
  const bool sparse = instruction.Has("sp") || instruction.Has("sp::ordered_metadata");
  cost.tensor = *operations * HalvesOf(instruction) * (sparse ? 0.5 : 1) /
                (instruction.opcode == "wgmma" ? kWarpGroup : kWarp);
  return cost;
}

bool IsTensor(const Instruction& instruction) {
  return (instruction.opcode == "mma") ||
         (instruction.opcode == "wmma" && instruction.Has("mma")) ||
         (instruction.opcode == "wgmma" &&
          (instruction.Has("mma_async") || instruction.Has("mma_async.sp"))) ||
         (instruction.opcode == "tcgen05" && instruction.Has("mma"));
}

// --- Floating point. If a PTX instruction becomes several machine instructions, the cost is about
// --- their number for ordinary operands.

KernelMix DivisionCost(const Instruction& instruction, Type type) {
  KernelMix cost;
  const bool rough = instruction.Has("approx");
  const bool divides = instruction.opcode == "div";
  cost.special = 1;
  if (type == Type::kF64) {
    cost.fp64 = rough ? 0 : divides ? 9 : 7;
    cost.integer = rough ? 0 : 6;
  } else {
    cost.fp32 = divides ? (rough ? 2 : 8) : (rough ? 1 : 5);
    cost.integer = rough ? 1 : 3;
  }
  return cost;
}

KernelMix FloatCost(const Instruction& instruction, Type type) {
  static constexpr std::string_view kSpecial[] = {"sin", "cos", "lg2", "ex2", "tanh"};
  static constexpr std::string_view kDivisions[] = {"div", "rcp", "sqrt", "rsqrt"};
  const std::string_view opcode = instruction.opcode;
  KernelMix cost;
  // Merged into other instructions as a sign of an operand.
  if (opcode == "neg" || opcode == "abs") return cost;
  if (IsOneOf(opcode, kDivisions)) return DivisionCost(instruction, type);
  if (IsOneOf(opcode, kSpecial)) {
    cost.special = ptx::IsPacked(type) ? 2 : 1;
    return cost;
  }
  // The integer units execute these for .f32.
  const bool compares = opcode == "setp" || opcode == "set" || opcode == "min" || opcode == "max" ||
                        opcode == "testp" || opcode == "copysign" || opcode == "selp" ||
                        opcode == "slct";
  if (IsHalf(type)) {
    cost.fp16 = 2;
  } else if (type == Type::kF64 && opcode != "selp" && opcode != "slct") {
    cost.fp64 = 1;
  } else if (compares) {
    cost.integer = type == Type::kF64 ? 2 : 1;
  } else {
    cost.fp32 = instruction.Has("f32x2") ? 2 : 1;
  }
  return cost;
}

// --- Integers

KernelMix ConversionCost(const Instruction& instruction) {
  KernelMix cost;
  const Type to = instruction.types[0];
  const Type from = instruction.types[1];
  const bool wide = ptx::BitsOf(to) == 64 || ptx::BitsOf(from) == 64;
  const bool floating = ptx::IsFloat(to) || ptx::IsFloat(from);
  // Between integers: usually free, or merged into the instruction using the result.
  if (!floating || from == Type::kNone)
    cost.integer = ptx::BitsOf(to) < 32 ? 1 : 0;
  else if (wide)
    cost.special = 1;
  else
    cost.integer = 1;
  return cost;
}

KernelMix IntegerCost(const Instruction& instruction, Type type) {
  static constexpr std::string_view kCounts[] = {"popc", "clz", "bfind", "brev", "fns"};
  const std::string_view opcode = instruction.opcode;
  const bool wide = ptx::BitsOf(type) == 64;
  KernelMix cost;
  if (opcode == "div" || opcode == "rem") {
    const bool by_number =
        instruction.operands.size() == 3 && instruction.operands[2].kind == Operand::Kind::kInteger;
    cost.integer = by_number ? 4 : 14;
    cost.special = by_number ? 0 : 3;
    if (wide) cost.integer *= 5;
  } else if (opcode == "mul" || opcode == "mad") {
    // The result of .wide is usually added to an address, in the same instruction.
    cost.integer = instruction.Has("wide") ? (opcode == "mul" ? 0 : 1)
                   : wide                  ? 4
                   : instruction.Has("hi") ? 2
                                           : 1;
  } else if (IsOneOf(opcode, kCounts)) {
    cost.special = wide ? 2 : 1;
  } else {
    const bool adds = opcode == "add" || opcode == "sub";
    cost.integer = wide && !adds ? 2 : 1;
  }
  return cost;
}

// --- Other instructions

// True if it needs no machine instruction: renames a value, or is merged into its user.
bool IsFree(const Instruction& instruction) {
  return instruction.opcode == "mov" || instruction.opcode == "cvta" ||
         ((instruction.opcode == "ld" || instruction.opcode == "st") &&
          (instruction.Has("param") || instruction.Has("param::entry") ||
           instruction.Has("param::func")));
}

bool IsArithmetic(std::string_view opcode) {
  static constexpr std::string_view kOpcodes[] = {
      "abs",   "add",  "addc",     "and",   "bfe",   "bfi",   "bfind", "bmsk", "brev",
      "clz",   "cnot", "copysign", "cos",   "div",   "dp2a",  "dp4a",  "ex2",  "fma",
      "fns",   "lg2",  "lop3",     "mad",   "mad24", "madc",  "max",   "min",  "mul",
      "mul24", "neg",  "not",      "or",    "popc",  "prmt",  "rcp",   "rem",  "rsqrt",
      "sad",   "selp", "set",      "setp",  "shf",   "shl",   "shr",   "sin",  "slct",
      "sqrt",  "sub",  "subc",     "szext", "tanh",  "testp", "xor"};
  return std::binary_search(std::begin(kOpcodes), std::end(kOpcodes), opcode);
}

// x1, x2 or x4 matrices of ldmatrix and stmatrix, 4 bytes per lane each.
double MatricesOf(const Instruction& instruction) {
  return instruction.Has("x4") ? 4 : instruction.Has("x2") ? 2 : 1;
}

double VectorOf(const Instruction& instruction) {
  return instruction.Has("v8") ? 8 : instruction.Has("v4") ? 4 : instruction.Has("v2") ? 2 : 1;
}

// The state space of a modifier, also of the form "shared::cta".
std::optional<Space> SpaceNamed(std::string_view modifier) {
  const std::string_view word = modifier.substr(0, modifier.find(':'));
  if (word == "global") return Space::kGlobal;
  if (word == "shared") return Space::kShared;
  if (word == "local") return Space::kLocal;
  if (word == "const") return Space::kConst;
  if (word == "param") return Space::kParam;
  return std::nullopt;
}

Space FirstSpaceOf(const Instruction& instruction) {
  for (const auto modifier : instruction.modifiers)
    if (const auto space = SpaceNamed(modifier)) return *space;
  return Space::kGeneric;
}

// --- Accesses

// cp.async.ca.shared.global [to], [from], bytes; cp.async.bulk….shared::cta.global…,
// ….global.shared…
MemoryAccess CopyAccess(const Instruction& instruction) {
  MemoryAccess access;
  const bool bulk = instruction.Has("bulk");
  const bool commits = instruction.Has("commit_group") || instruction.Has("wait_group") ||
                       instruction.Has("wait_all") || instruction.Has("prefetch") ||
                       instruction.Has("mbarrier");
  const Space to = FirstSpaceOf(instruction);
  if (commits || (to != Space::kShared && to != Space::kGlobal)) return access;
  access.space = Space::kGlobal;
  if (!bulk) {
    if (instruction.operands.size() < 3) return access;
    access.kind = MemoryAccess::Kind::kAccess;
    access.address = 1;
    access.bytes =
        instruction.operands[2].kind == Operand::Kind::kInteger
            ? static_cast<double>(std::min<std::uint64_t>(instruction.operands[2].bits, 16))
            : 4;
    return access;
  }
  // Between the shared memories of two blocks.
  if (!instruction.Has("global")) return access;
  const bool loads = to == Space::kShared;
  access.kind = loads ? MemoryAccess::Kind::kBulkLoad : MemoryAccess::Kind::kBulkStore;
  access.address = loads ? 1 : 0;
  access.both_ways = instruction.Has("reduce");
  if (!instruction.Has("tensor") && instruction.operands.size() > 2) access.size = 2;
  return access;
}

// wmma.load.a.sync.aligned.row.m16n16k16.global.f16: each lane accesses a part of the matrix.
MemoryAccess WmmaAccess(const Instruction& instruction) {
  MemoryAccess access;
  const bool loads = instruction.Has("load");
  if (!loads && !instruction.Has("store")) return access;
  std::optional<double> operations;
  for (const auto modifier : instruction.modifiers)
    if (!operations) operations = OperationsOf(modifier);
  const double bits =
      ptx::BitsOf(instruction.types[0]) == 0 ? 8 : ptx::BitsOf(instruction.types[0]);
  access.kind = MemoryAccess::Kind::kAccess;
  access.space = FirstSpaceOf(instruction);
  access.address = loads ? 1 : 0;
  // Exact for m16n16k16: 256 elements per matrix; approximate for the other shapes.
  access.bytes = operations ? 256 * bits / 8 / kWarp : bits / 8;
  return access;
}

}  // namespace

KernelMix CostOf(const Instruction& instruction) {
  const std::string_view opcode = instruction.opcode;
  KernelMix cost;
  if (IsFree(instruction)) return cost;
  if (IsTensor(instruction)) return TensorCost(instruction);
  if (opcode == "cvt") return ConversionCost(instruction);
  if (IsArithmetic(opcode)) {
    const Type type = instruction.types[0];
    // The second type of set and slct is the type of the comparison.
    return ptx::IsFloat(type) || ptx::IsPacked(type) ? FloatCost(instruction, type)
                                                     : IntegerCost(instruction, type);
  }
  cost.other = 1;
  if (opcode == "shfl") cost.accesses = 1;
  if (opcode == "ldmatrix" || opcode == "stmatrix") cost.accesses = MatricesOf(instruction);
  if (opcode == "match" || opcode == "redux") cost.special = 2;
  return cost;
}

MemoryAccess AccessOf(const Instruction& instruction) {
  const std::string_view opcode = instruction.opcode;
  MemoryAccess access;
  const bool loads = opcode == "ld" || opcode == "ldu" || opcode == "atom";
  const bool stores = opcode == "st" || opcode == "red";
  if (loads || stores || opcode == "multimem") {
    access.kind = MemoryAccess::Kind::kAccess;
    access.space = FirstSpaceOf(instruction);
    access.bytes = VectorOf(instruction) * ptx::BytesOf(instruction.types[0]);
    access.both_ways = opcode == "atom" || opcode == "red";
    access.address = stores || instruction.Has("st") || instruction.Has("red") ? 0 : 1;
  } else if (opcode == "cp") {
    access = CopyAccess(instruction);
  } else if (opcode == "wmma") {
    access = WmmaAccess(instruction);
  } else if (opcode == "tex" || opcode == "tld4") {
    access = {MemoryAccess::Kind::kAccess, Space::kGlobal, kTexelBytes, false, 1};
  } else if (opcode == "suld" || opcode == "sust" || opcode == "sured") {
    access = {MemoryAccess::Kind::kAccess, Space::kGlobal,
              VectorOf(instruction) * ptx::BytesOf(instruction.types[0]), opcode == "sured",
              opcode == "suld" ? std::size_t{1} : std::size_t{0}};
  }
  if (access.address >= instruction.operands.size()) return {};
  return access;
}

std::size_t ExpectedBytes(const Instruction& instruction) {
  if (instruction.opcode != "mbarrier") return ptx::kNoIndex;
  // mbarrier.expect_tx [barrier], bytes; mbarrier.arrive.expect_tx state, [barrier], bytes
  const bool announces = instruction.Has("expect_tx");
  if (!announces || instruction.operands.empty()) return ptx::kNoIndex;
  return instruction.operands.size() - 1;
}

}  // namespace cuspan::kernel_class
