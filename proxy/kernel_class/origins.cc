#include "proxy/kernel_class/origins.h"

#include <algorithm>
#include <string_view>

namespace cuspan::kernel_class {
namespace {

using ptx::Operand;
using ptx::SpecialRegister;

// Small enough for the smallest L2 caches of current GPUs (a few MiB). A module's own variables are
// usually tables.
constexpr std::uint64_t kSmallVariable = 1 << 20;
// Each pass propagates dependences through at least one more loop level. More passes are not worth
// the time.
constexpr int kMaxPasses = 32;

Origin OfSpecial(SpecialRegister special) {
  using R = SpecialRegister;
  switch (special) {
    case R::kTidX:
    case R::kLaneid:
    case R::kLanemaskEq:
    case R::kLanemaskLe:
    case R::kLanemaskLt:
    case R::kLanemaskGe:
    case R::kLanemaskGt:
      return origin::kLane;
    case R::kTidY:
    case R::kWarpid:
      return origin::kTidY;
    case R::kTidZ:
      return origin::kTidZ;
    case R::kCtaidX:
    case R::kClusteridX:
    case R::kClusterCtaid:
    case R::kClusterCtarank:
    case R::kSmid:
      return origin::kBlockX;
    case R::kCtaidY:
    case R::kClusteridY:
      return origin::kBlockY;
    case R::kCtaidZ:
    case R::kClusteridZ:
      return origin::kBlockZ;
    default:
      return 0;
  }
}

// True if the first operand is not a result.
bool HasNoResult(std::string_view opcode) {
  static constexpr std::string_view kOpcodes[] = {
      "st",      "red",   "bra",   "brx",       "bar",      "barrier",  "membar", "fence",
      "ret",     "exit",  "trap",  "prefetch",  "stmatrix", "cp",       "sust",   "sured",
      "discard", "wgmma", "brkpt", "nanosleep", "pmevent",  "prefetchu"};
  return std::find(std::begin(kOpcodes), std::end(kOpcodes), opcode) != std::end(kOpcodes);
}

}  // namespace

Origins::Origins(const ptx::Module& module, const ptx::Function& function, const ptx::Body& body)
    : module_(module), function_(function), body_(body), registers_(body.registers.size(), 0) {
  FindIndices();
  FindValues();
  // A function's arguments are unknown; a kernel's are the same for all threads.
  if (!function.entry)
    for (const std::uint32_t formal : body.formal_registers)
      if (formal != ptx::kNoIndex) registers_[formal] = indices_;
  for (int pass = 0; pass < kMaxPasses; ++pass)
    if (!Pass()) return;
  std::fill(registers_.begin(), registers_.end(), indices_);
}

void Origins::FindIndices() {
  if (!function_.entry) {
    indices_ = origin::kIndices;
    return;
  }
  for (const ptx::Instruction& instruction : body_.instructions)
    for (const Operand& operand : instruction.operands)
      if (operand.kind == Operand::Kind::kSpecial) indices_ |= OfSpecial(operand.special);
}

void Origins::FindValues() {
  std::vector<std::uint8_t> given(body_.registers.size(), 0);
  values_.resize(body_.registers.size());
  for (const ptx::Instruction& instruction : body_.instructions) {
    if (instruction.operands.empty() || HasNoResult(instruction.opcode)) continue;
    const Operand& to = instruction.operands[0];
    const auto give = [&](const Operand& one) {
      if (one.kind == Operand::Kind::kRegister && given[one.index] < 2) ++given[one.index];
    };
    give(to);
    for (const Operand& element : to.elements) give(element);
    if (instruction.opcode == "mov" && to.kind == Operand::Kind::kRegister &&
        instruction.operands.size() == 2 && instruction.operands[1].kind == Operand::Kind::kInteger)
      values_[to.index] = instruction.operands[1].bits;
  }
  for (std::size_t i = 0; i < given.size(); ++i)
    if (given[i] != 1) values_[i].reset();
}

std::optional<std::uint64_t> Origins::ValueOf(const Operand& operand) const {
  if (operand.kind == Operand::Kind::kInteger) return operand.bits;
  if (operand.kind == Operand::Kind::kRegister) return values_[operand.index];
  return std::nullopt;
}

Origin Origins::Of(const Operand& operand) const {
  switch (operand.kind) {
    case Operand::Kind::kRegister:
      return registers_[operand.index];
    case Operand::Kind::kSpecial:
      return OfSpecial(operand.special);
    case Operand::Kind::kVariable: {
      const ptx::Space space = body_.variables[operand.index].space;
      return space == ptx::Space::kShared || space == ptx::Space::kLocal ? origin::kNear
                                                                         : Origin{0};
    }
    case Operand::Kind::kSymbol: {
      const ptx::Variable* const variable = module_.FindVariable(operand.name);
      if (variable == nullptr) return 0;
      if (variable->space != ptx::Space::kGlobal) return origin::kNear;
      const bool small = !variable->external && variable->bytes <= kSmallVariable;
      return small ? origin::kSmall : Origin{0};
    }
    default: {
      Origin all = 0;
      for (const Operand& element : operand.elements) all |= Of(element);
      return all;
    }
  }
}

// True if the address is a parameter of the kernel.
bool Origins::IsArgument(const Operand& address) const {
  if (!function_.entry || address.elements.empty()) return false;
  const Operand& base = address.elements[0];
  return base.kind == Operand::Kind::kVariable && base.index < body_.formal_registers.size();
}

// True for a quotient or remainder of values uniform in a block.
bool Origins::MakesPart(const ptx::Instruction& instruction) const {
  static constexpr std::string_view kOpcodes[] = {"div", "rem", "shr", "and", "sub"};
  if (!function_.entry || instruction.operands.size() != 3 ||
      std::find(std::begin(kOpcodes), std::end(kOpcodes), instruction.opcode) == std::end(kOpcodes))
    return false;
  const Origin value = Of(instruction.operands[1]), by = Of(instruction.operands[2]);
  const Origin known = origin::kBlocks | origin::kParts;
  if ((value & known) == 0 || ((value | by) & ~known) != 0) return false;
  // x - (x / y) · y
  return instruction.opcode != "sub" || (by & origin::kParts) != 0;
}

Origin Origins::Result(std::uint32_t at) {
  const ptx::Instruction& instruction = body_.instructions[at];
  const std::string_view opcode = instruction.opcode;
  if (opcode == "call" || opcode == "atom" || opcode == "mma" || opcode == "wmma" ||
      opcode == "ldmatrix")
    return indices_;
  if (MakesPart(instruction)) {
    const auto known = parts_.find(at);
    if (known != parts_.end()) return known->second;
    if (parts_.size() < origin::kMaxParts)
      return parts_[at] = origin::kFirstPart << static_cast<int>(parts_.size());
  }
  Origin all = 0;
  for (std::size_t i = 1; i < instruction.operands.size(); ++i) all |= Of(instruction.operands[i]);
  if (instruction.guard != ptx::kNoIndex) all |= registers_[instruction.guard] & origin::kIndices;
  if (opcode == "ld" || opcode == "ldu") {
    if (instruction.Has("param") || instruction.Has("param::entry"))
      return IsArgument(instruction.operands[1]) ? Origin{0} : indices_;
    const Origin indices = all & origin::kIndices;
    if (instruction.Has("local")) return indices_;
    // The contents of shared memory depend on the block.
    if ((all & origin::kNear) != 0 && !instruction.Has("const"))
      return indices | (indices_ & origin::kBlocks);
    return indices;
  }
  if (opcode == "tex" || opcode == "tld4" || opcode == "suld" || opcode == "setp" ||
      opcode == "set")
    return all & origin::kIndices;
  if (opcode == "shfl" || opcode == "match") return (all & origin::kIndices) | origin::kLane;
  return all;
}

bool Origins::Give(const Operand& destination, Origin origin) {
  bool changed = false;
  if (destination.kind == Operand::Kind::kRegister) {
    Origin& known = registers_[destination.index];
    changed = (origin & ~known) != 0;
    known |= origin;
  }
  for (const Operand& element : destination.elements) changed |= Give(element, origin);
  return changed;
}

bool Origins::Pass() {
  bool changed = false;
  for (std::uint32_t i = 0; i < body_.instructions.size(); ++i) {
    const ptx::Instruction& instruction = body_.instructions[i];
    if (!instruction.operands.empty() && !HasNoResult(instruction.opcode))
      changed |= Give(instruction.operands[0], Result(i));
  }
  return changed;
}

}  // namespace cuspan::kernel_class
