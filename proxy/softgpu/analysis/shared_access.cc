#include "proxy/softgpu/analysis/shared_access.h"

#include <algorithm>
#include <string_view>

#include "proxy/softgpu/analysis/facts.h"

namespace cuspan::softgpu::analysis {
namespace {

using ptx::Instruction;
using ptx::kNoIndex;
using ptx::Operand;
using ptx::Space;

constexpr std::int64_t kLanes = 32;

// First term number of each kind; smaller numbers are registers.
constexpr std::uint32_t kSpecialTerms = 0x20000000, kBodyVariableTerms = 0x40000000,
                        kModuleVariableTerms = 0x60000000;
// Longer sums and longer chains of instructions become one term.
constexpr std::size_t kMaxTerms = 8;
constexpr unsigned kMaxDepth = 64;

std::int32_t Low(std::uint64_t value) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(value));
}
std::int32_t LowProduct(std::int32_t x, std::int32_t y) {
  return Low(static_cast<std::uint64_t>(static_cast<std::int64_t>(x) * y));
}
std::int32_t LowSum(std::int64_t x, std::int64_t y) {
  return Low(static_cast<std::uint64_t>(x + y));
}

LinearAddress Constant(std::int32_t value) {
  LinearAddress address;
  address.known = true;
  address.constant = value;
  return address;
}
LinearAddress Term(std::uint32_t term) {
  LinearAddress address = Constant(0);
  address.terms.emplace_back(term, 1);
  return address;
}

// x + factor * y
LinearAddress Combined(const LinearAddress& x, const LinearAddress& y, std::int32_t factor) {
  LinearAddress sum = Constant(LowSum(x.constant, LowProduct(y.constant, factor)));
  auto left = x.terms.begin();
  auto right = y.terms.begin();
  const auto add = [&](std::uint32_t term, std::int32_t of_term) {
    if (of_term != 0) sum.terms.emplace_back(term, of_term);
  };
  while (left != x.terms.end() || right != y.terms.end()) {
    if (right == y.terms.end() || (left != x.terms.end() && left->first < right->first)) {
      add(left->first, left->second);
      ++left;
    } else if (left == x.terms.end() || right->first < left->first) {
      add(right->first, LowProduct(right->second, factor));
      ++right;
    } else {
      add(left->first, LowSum(left->second, LowProduct(right->second, factor)));
      ++left;
      ++right;
    }
  }
  return sum;
}

bool HasOne(const Instruction& instruction, std::initializer_list<std::string_view> modifiers) {
  return std::any_of(modifiers.begin(), modifiers.end(),
                     [&](std::string_view modifier) { return instruction.Has(modifier); });
}

bool NamesShared(std::string_view modifier) {
  return modifier == "shared" || modifier == "shared::cta" || modifier == "shared::cluster";
}

// First state space named by the instruction; kGeneric without one.
Space SpaceOf(const Instruction& instruction) {
  for (const std::string_view modifier : instruction.modifiers) {
    if (NamesShared(modifier)) return Space::kShared;
    if (modifier == "global") return Space::kGlobal;
    if (modifier == "local") return Space::kLocal;
    if (modifier == "const") return Space::kConst;
    if (modifier.starts_with("param")) return Space::kParam;
  }
  return Space::kGeneric;
}

class AccessFinder {
 public:
  AccessFinder(const ptx::Module& module, const ptx::Body& body, bool is_kernel, bool has_shared,
               const RegisterShapes& registers)
      : module_(module),
        body_(body),
        is_kernel_(is_kernel),
        has_shared_(has_shared),
        registers_(registers),
        definition_(body.registers.size(), kNoIndex),
        known_(body.registers.size()) {
    for (std::uint32_t i = 0; i < body.instructions.size(); ++i) {
      const bool always = body.instructions[i].guard == kNoIndex;
      for (const auto r : WrittenRegisters(body.instructions[i]))
        definition_[r] = definition_[r] == kNoIndex && always ? i : kMany;
    }
  }

  std::vector<SharedAccess> Find() {
    std::vector<SharedAccess> accesses;
    for (std::uint32_t i = 0; i < body_.instructions.size(); ++i) {
      SharedAccess access;
      access.instruction = i;
      if (Describe(body_.instructions[i], &access)) accesses.push_back(std::move(access));
    }
    return accesses;
  }

 private:
  static constexpr std::uint32_t kMany = kNoIndex - 1;

  bool Describe(const Instruction& i, SharedAccess* access) {
    const std::string_view op = i.opcode;
    if (op == "ld" || op == "ldu") {
      access->reads = true;
      return Locate(i, 1, access);
    }
    if (op == "st") {
      access->writes = true;
      access->unordered = i.Has("async");
      return Locate(i, 0, access);
    }
    if (op == "atom" || op == "red" || op == "mbarrier") {
      access->reads = access->writes = true;
      access->unordered = !HasOne(i, {"init", "inval"});
      const bool first = !i.operands.empty() && i.operands[0].kind == Operand::Kind::kAddress;
      return Locate(i, first ? 0 : 1, access);
    }
    if (op == "cp") {
      // The first space named by cp.async and the like is the destination.
      const auto named = std::find_if(
          i.modifiers.begin(), i.modifiers.end(),
          [](std::string_view modifier) { return NamesShared(modifier) || modifier == "global"; });
      if (named == i.modifiers.end() || i.operands.empty()) return false;
      const bool to_shared = NamesShared(*named);
      access->unordered = true;
      access->reads = !to_shared;
      access->writes = to_shared;
      return has_shared_;
    }
    const bool matrix_memory =
        op == "ldmatrix" || op == "stmatrix" ||
        (op == "wmma" && HasOne(i, {"load", "store"}) && SpaceOf(i) != Space::kGlobal);
    if (!matrix_memory) return false;
    access->writes = op == "stmatrix" || i.Has("store");
    access->reads = !access->writes;
    return has_shared_;
  }

  // Sets address and memory from operand `at`. Returns false if lanes do not exchange data by this
  // access.
  bool Locate(const Instruction& i, std::size_t at, SharedAccess* access) {
    if (at >= i.operands.size() || i.operands[at].kind != Operand::Kind::kAddress) return false;
    const bool is_volatile = i.Has("volatile");
    Space space = SpaceOf(i);
    if (space != Space::kShared && space != Space::kGlobal && space != Space::kGeneric)
      return false;
    access->address = AddressOf(i.operands[at]);
    if (space == Space::kGeneric) space = SpaceOfAddress(access->address);
    if (space == Space::kLocal) return false;
    if (space == Space::kGlobal || !has_shared_) {
      access->memory = SharedMemory::kVolatileGlobal;
      if (!is_volatile) return false;
    } else if (space == Space::kGeneric) {
      access->memory = SharedMemory::kEither;
    }
    std::uint64_t bytes = ptx::BitsOf(i.types[0]) / 8;
    if (i.Has("v2")) bytes *= 2;
    if (i.Has("v4")) bytes *= 4;
    if (i.Has("v8")) bytes *= 8;
    access->bytes = std::max<std::uint64_t>(bytes, 1);
    return true;
  }

  // Space of a generic address, found by its terms; kGeneric if it may be shared memory.
  Space SpaceOfAddress(const LinearAddress& address) const {
    for (const auto& [term, factor] : address.terms) {
      if (term >= kModuleVariableTerms) {
        const Space space = module_.variables[term - kModuleVariableTerms].space;
        return space == Space::kConst ? Space::kGlobal : space;
      }
      if (term >= kBodyVariableTerms) {
        const Space space = body_.variables[term - kBodyVariableTerms].space;
        return space == Space::kShared ? space : Space::kLocal;
      }
      if (term >= kSpecialTerms || definition_[term] >= kMany) continue;
      // Pointers loaded from outside the block point to global memory.
      const Instruction& made = body_.instructions[definition_[term]];
      if (made.opcode != "ld" || ptx::BitsOf(made.types[0]) != 64) continue;
      const Space from = SpaceOf(made);
      if (from == Space::kGlobal || from == Space::kConst || (from == Space::kParam && is_kernel_))
        return Space::kGlobal;
    }
    return Space::kGeneric;
  }

  LinearAddress AddressOf(const Operand& operand) {
    if (operand.elements.size() != 1) return {};
    const Operand& base = operand.elements[0];
    LinearAddress address = ValueOf(base, 0);
    if (!address.known) return address;
    address.constant = LowSum(address.constant, operand.offset);
    if (base.kind != Operand::Kind::kRegister) {
      address.stride = 0;
    } else if (base.index < registers_.shapes.size()) {
      const Shape& shape = registers_.shapes[base.index];
      if (shape.known() && shape.spread <= Spread::kWarp) address.stride = shape.step();
      address.scattered = shape.spread == Spread::kLanes && registers_.layout.row > 1;
    }
    return address;
  }

  LinearAddress ValueOf(const Operand& operand, unsigned depth) {
    switch (operand.kind) {
      case Operand::Kind::kRegister:
        return RegisterValue(operand.index, depth);
      case Operand::Kind::kInteger:
        return Constant(Low(operand.bits));
      case Operand::Kind::kSpecial:
        return Term(kSpecialTerms + static_cast<std::uint32_t>(operand.special));
      case Operand::Kind::kVariable:
        return Combined(Term(kBodyVariableTerms + operand.index),
                        Constant(LowSum(operand.offset, 0)), 1);
      case Operand::Kind::kSymbol: {
        const auto found = module_.variable_index.find(operand.name);
        if (found == module_.variable_index.end()) return {};
        return Combined(Term(kModuleVariableTerms + found->second),
                        Constant(LowSum(operand.offset, 0)), 1);
      }
      default:
        return {};
    }
  }

  LinearAddress RegisterValue(std::uint32_t r, unsigned depth) {
    if (known_[r]) return *known_[r];
    LinearAddress value;
    // The value of a register with several definitions is unknown.
    if (definition_[r] == kMany) return value;
    if (definition_[r] != kNoIndex && depth < kMaxDepth)
      value = Computed(body_.instructions[definition_[r]], depth + 1);
    if (!value.known || value.terms.size() > kMaxTerms) value = Term(r);
    known_[r] = value;
    return value;
  }

  // Sum computed by an instruction with one result; unknown for other operations.
  LinearAddress Computed(const Instruction& i, unsigned depth) {
    const std::string_view op = i.opcode;
    const auto count = i.operands.size();
    if (i.operands[0].kind != Operand::Kind::kRegister || ptx::IsFloat(i.types[0])) return {};
    const auto value = [&](std::size_t k) { return ValueOf(i.operands[k], depth); };
    if ((op == "mov" || op == "cvta" || op == "cvt") && count == 2) {
      // Conversions from or to narrower types truncate.
      const bool whole = op == "mov" || op == "cvta" ||
                         (ptx::BitsOf(i.types[0]) >= 32 && ptx::BitsOf(i.types[1]) >= 32 &&
                          !ptx::IsFloat(i.types[1]));
      return whole ? value(1) : LinearAddress{};
    }
    if ((op == "add" || op == "sub") && count == 3 && !i.Has("cc") && !i.Has("sat")) {
      const LinearAddress x = value(1), y = value(2);
      if (!x.known || !y.known) return {};
      return Combined(x, y, op == "add" ? 1 : -1);
    }
    const bool low = i.Has("lo") || i.Has("wide");
    if (((op == "mul" && count == 3) || (op == "mad" && count == 4)) && low && !i.Has("cc")) {
      const LinearAddress x = value(1), y = value(2);
      if (!x.known || !y.known || (!x.terms.empty() && !y.terms.empty())) return {};
      const LinearAddress product = x.terms.empty() ? Combined(Constant(0), y, x.constant)
                                                    : Combined(Constant(0), x, y.constant);
      if (op == "mul") return product;
      const LinearAddress addend = value(3);
      return addend.known ? Combined(addend, product, 1) : LinearAddress{};
    }
    if (op == "shl" && count == 3 && i.operands[2].kind == Operand::Kind::kInteger &&
        i.operands[2].bits < 31) {
      const LinearAddress x = value(1);
      return x.known ? Combined(Constant(0), x, std::int32_t{1} << i.operands[2].bits)
                     : LinearAddress{};
    }
    return {};
  }

  const ptx::Module& module_;
  const ptx::Body& body_;
  const bool is_kernel_, has_shared_;
  const RegisterShapes& registers_;
  // Instruction writing each register, kNoIndex or kMany.
  std::vector<std::uint32_t> definition_;
  std::vector<std::optional<LinearAddress>> known_;  // Indexed by register.
};

// Term of the variable containing the address; kNoIndex if unknown.
std::uint32_t VariableOf(const LinearAddress& address) {
  for (const auto& [term, factor] : address.terms)
    if (term >= kBodyVariableTerms) return factor == 1 ? term : kNoIndex;
  return kNoIndex;
}

// True for dynamic shared memory: its variables alias.
bool IsOpen(const ptx::Module& module, const ptx::Body& body, std::uint32_t variable) {
  const auto& found = variable >= kModuleVariableTerms
                          ? module.variables[variable - kModuleVariableTerms]
                          : body.variables[variable - kBodyVariableTerms];
  return found.external || found.bytes == 0;
}

}  // namespace

std::vector<SharedAccess> FindSharedAccesses(const ptx::Module& module, const ptx::Body& body,
                                             bool is_kernel, bool has_shared,
                                             const RegisterShapes& registers) {
  return AccessFinder(module, body, is_kernel, has_shared, registers).Find();
}

bool MayConflict(const ptx::Module& module, const ptx::Body& body, const SharedAccess& before,
                 const SharedAccess& after, const Between& between) {
  if (!before.writes && !after.writes) return false;
  if (before.unordered && after.unordered) return false;
  if (before.memory != after.memory && before.memory != SharedMemory::kEither &&
      after.memory != SharedMemory::kEither)
    return false;
  const LinearAddress &x = before.address, &y = after.address;
  if (!x.known || !y.known) return true;
  const std::uint32_t one = VariableOf(x), other = VariableOf(y);
  if (one != kNoIndex && other != kNoIndex && one != other &&
      !(IsOpen(module, body, one) && IsOpen(module, body, other)))
    return false;
  // Elements stored in different iterations are assumed to be different.
  if (!between.same_iteration)
    return before.instruction != after.instruction || after.reads || !y.stride || *y.stride == 0;
  const bool same_place = x.terms == y.terms && x.constant == y.constant;
  if (between.same_lanes && !before.unordered && !after.unordered && after.writes) {
    // The same lane reads and writes the element, or writes both elements.
    if (!before.writes && same_place && !y.stride) return false;
    if (!before.reads && !after.reads && x.scattered && y.scattered) return false;
  }
  if (x.terms != y.terms || !y.stride) return true;
  const std::int64_t apart = LowSum(y.constant, -std::int64_t{x.constant});
  for (std::int64_t lanes = 1 - kLanes; lanes < kLanes; ++lanes) {
    const std::int64_t distance = apart + lanes * *y.stride;
    const bool overlap = distance < static_cast<std::int64_t>(before.bytes) &&
                         -distance < static_cast<std::int64_t>(after.bytes);
    if (lanes != 0 && overlap) return true;
  }
  return false;
}

}  // namespace cuspan::softgpu::analysis
