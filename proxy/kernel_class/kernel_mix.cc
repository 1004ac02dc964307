#include "proxy/kernel_class/kernel_mix.h"

#include <algorithm>
#include <map>
#include <vector>

#include "proxy/kernel_class/instruction_cost.h"
#include "proxy/kernel_class/origins.h"
#include "proxy/kernel_class/run_weights.h"
#include "proxy/ptx/index.h"
#include "proxy/ptx/parser.h"

namespace cuspan::kernel_class {
namespace {

using ptx::Operand;

constexpr double kWarpLanes = 32;
// Assumed threads per block, if the kernel does not specify it.
constexpr double kUsualThreads = 128;
constexpr int kMaxCallDepth = 32;

// True if the instruction ends a failed program: trap, or a call of __assertfail.
bool EndsProgram(const ptx::Instruction& instruction) {
  if (instruction.opcode == "trap") return true;
  if (instruction.opcode != "call") return false;
  return std::any_of(instruction.operands.begin(), instruction.operands.end(),
                     [](const Operand& operand) { return operand.name == "__assertfail"; });
}

// The digits of 2/π, used by CUDA's sin, cos and tan to reduce arguments above 10^5.
bool ReadsDigits(const Operand& operand) {
  return operand.name.starts_with("__cudart_i2opi") ||
         std::any_of(operand.elements.begin(), operand.elements.end(), ReadsDigits);
}

std::vector<bool> RareOf(const ptx::Body& body) {
  std::vector<bool> rare(body.instructions.size());
  for (std::size_t i = 0; i < rare.size(); ++i) {
    const ptx::Instruction& instruction = body.instructions[i];
    rare[i] = EndsProgram(instruction) ||
              std::any_of(instruction.operands.begin(), instruction.operands.end(), ReadsDigits);
  }
  return rare;
}

// Provided by every driver; not performance-critical.
bool IsHelper(std::string_view name) {
  return name == "vprintf" || name == "malloc" || name == "free" || name == "__assertfail";
}

class MixCounter {
 public:
  MixCounter(std::string_view text, const ptx::Module& module) : text_(text), module_(module) {}

  // Work of one call of the function, including its own calls. `depth`: call depth from the kernel.
  Result<KernelMix> Count(const ptx::Function& function, int depth) {
    CUSPAN_ASSIGN_OR_RETURN(const ptx::Body body, ptx::ParseBody(text_, function));
    const Origins origins(module_, function, body);
    const std::vector<double> weights = RunWeights(body, RareOf(body));
    KernelMix mix;
    Traffic traffic;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (weights[i] == 0) continue;
      const ptx::Instruction& instruction = body.instructions[i];
      mix.Add(CostOf(instruction), weights[i]);
      if (instruction.opcode == "call") {
        CUSPAN_ASSIGN_OR_RETURN(const KernelMix called, OfCall(instruction, depth));
        mix.Add(called, weights[i]);
      }
      NoteAccess(instruction, origins, weights[i], &traffic, &mix);
    }
    AddTraffic(function, traffic, &mix);
    return mix;
  }

 private:
  // An access to global memory.
  struct Touch {
    Origin origin = 0;
    double bytes = 0;  // 0: a bulk load without a size operand.
    double times = 0;
    bool bulk = false;
  };
  // Accesses of one function.
  struct Traffic {
    std::vector<Touch> touches;
    double announced = 0;  // Bytes of bulk loads announced to barriers.
  };

  static void NoteAccess(const ptx::Instruction& instruction, const Origins& origins, double weight,
                         Traffic* traffic, KernelMix* mix) {
    if (const std::size_t at = ExpectedBytes(instruction); at != ptx::kNoIndex) {
      const auto bytes = origins.ValueOf(instruction.operands[at]);
      if (bytes) traffic->announced += weight * static_cast<double>(*bytes);
      return;
    }
    const MemoryAccess access = AccessOf(instruction);
    if (access.kind == MemoryAccess::Kind::kNone) return;
    if (access.space == ptx::Space::kParam || access.space == ptx::Space::kConst) return;
    const Origin origin = origins.Of(instruction.operands[access.address]);
    const bool near = access.space == ptx::Space::kShared || access.space == ptx::Space::kLocal ||
                      (access.space == ptx::Space::kGeneric && (origin & origin::kNear) != 0);
    if (access.kind == MemoryAccess::Kind::kAccess) {
      // If all lanes have the same address, it is one access of any width.
      const bool broadcast = (origin & origin::kLane) == 0;
      mix->accesses += weight * (broadcast ? 1 : std::max(access.bytes / 4, 1.0));
    }
    if (near) return;
    Touch touch{origin, access.bytes * (access.both_ways ? 2 : 1), weight,
                access.kind != MemoryAccess::Kind::kAccess};
    if (touch.bulk) {
      const auto bytes = access.size == ptx::kNoIndex
                             ? std::nullopt
                             : origins.ValueOf(instruction.operands[access.size]);
      if (bytes) touch.bytes = static_cast<double>(*bytes);
      if (!bytes && access.kind == MemoryAccess::Kind::kBulkStore) {
        mix->unknown_copies += weight;
        return;
      }
    }
    traffic->touches.push_back(touch);
  }

  // Threads of the block sharing a bulk copy.
  static double ThreadsOf(const ptx::Function& function) {
    for (const auto* const extent : {function.required_ntid, function.max_ntid})
      if (extent[0] != 0) return static_cast<double>(extent[0]) * extent[1] * extent[2];
    return kUsualThreads;
  }

  static void AddTraffic(const ptx::Function& function, const Traffic& traffic, KernelMix* mix) {
    // The indices used in all addresses together distinguish the kernel's threads.
    Origin used = 0;
    double unsized = 0;
    for (const Touch& touch : traffic.touches) {
      used |= touch.origin & origin::kIndices;
      if (touch.bulk && touch.bytes == 0) unsized += touch.times;
    }
    for (const Touch& touch : traffic.touches) {
      double bytes = touch.bytes * touch.times;
      if (touch.bulk) {
        if (touch.bytes == 0 && traffic.announced == 0) {
          mix->unknown_copies += touch.times;
          continue;
        }
        if (touch.bytes == 0) bytes = traffic.announced * touch.times / unsized;
        bytes /= ThreadsOf(function);
      }
      Origin missing = used & ~touch.origin;
      // A block index determines the parts computed from it.
      if ((touch.origin & origin::kBlocks) != 0) missing &= ~origin::kParts;
      // A bulk copy is made for the whole block.
      if (touch.bulk) missing &= origin::kBlocks | origin::kParts;
      if ((missing & origin::kLane) != 0) bytes /= kWarpLanes;
      const bool reread = (missing & ~origin::kLane) != 0 || (touch.origin & origin::kSmall) != 0;
      (reread ? mix->reread_bytes : mix->bytes) += bytes;
    }
  }

  // The callee is the first operand not in parentheses.
  Result<KernelMix> OfCall(const ptx::Instruction& instruction, int depth) {
    KernelMix unknown;
    unknown.unknown_work = 1;
    const auto called =
        std::find_if(instruction.operands.begin(), instruction.operands.end(),
                     [](const Operand& operand) { return operand.kind != Operand::Kind::kVector; });
    if (called == instruction.operands.end() || called->kind != Operand::Kind::kSymbol)
      return unknown;
    if (IsHelper(called->name)) return KernelMix{};
    const ptx::Function* const function = module_.FindFunction(called->name);
    if (function == nullptr || !function->defined || depth >= kMaxCallDepth) return unknown;
    // A recursive call gets the result so far: unknown.
    const auto [known, is_new] = known_.try_emplace(function, unknown);
    if (is_new) {
      CUSPAN_ASSIGN_OR_RETURN(const KernelMix mix, Count(*function, depth + 1));
      known->second = mix;
    }
    return known->second;
  }

  const std::string_view text_;
  const ptx::Module& module_;
  std::map<const ptx::Function*, KernelMix> known_;
};

}  // namespace

void KernelMix::Add(const KernelMix& more, double times) {
  bytes += more.bytes * times;
  reread_bytes += more.reread_bytes * times;
  unknown_copies += more.unknown_copies * times;
  accesses += more.accesses * times;
  fp32 += more.fp32 * times;
  fp64 += more.fp64 * times;
  fp16 += more.fp16 * times;
  integer += more.integer * times;
  special += more.special * times;
  other += more.other * times;
  tensor += more.tensor * times;
  unknown_work += more.unknown_work * times;
}

Result<KernelMix> MixOf(std::string_view ptx, std::string_view kernel) {
  CUSPAN_ASSIGN_OR_RETURN(const ptx::Module module, ptx::IndexModule(ptx));
  const ptx::Function* const entry = module.FindFunction(kernel);
  if (entry == nullptr || !entry->entry || !entry->defined)
    return Status::NotFound("the module has no kernel '{}'", Printable(kernel, 100));
  return MixCounter(ptx, module).Count(*entry, 0);
}

}  // namespace cuspan::kernel_class
