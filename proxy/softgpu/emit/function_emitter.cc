#include "proxy/softgpu/emit/function_emitter.h"

#include <algorithm>
#include <cstddef>
#include <unordered_map>

#include "proxy/softgpu/analysis/cfg.h"
#include "proxy/softgpu/emit/families.h"
#include "proxy/softgpu/rt/abi.h"

namespace cuspan::softgpu::emit {
namespace {

using ptx::kNoIndex;
using ptx::Operand;
using Side = analysis::ReconvergencePoint::Side;

// Iterations of a spin loop per yield: the awaited value often arrives at once.
constexpr std::uint32_t kSpinsPerYield = 16;

}  // namespace

const Opcode* FindOpcode(std::string_view name) {
  static const auto* const kTable = [] {
    auto* const table = new std::unordered_map<std::string_view, const Opcode*>;
    for (auto family : {ArithmeticOpcodes(), IntegerOpcodes(), VideoOpcodes(), ScalarVideoOpcodes(),
                        FloatOpcodes(), CompareOpcodes(), ConvertOpcodes(), MemoryOpcodes(),
                        AtomicOpcodes(), MbarrierOpcodes(), AsyncCopyOpcodes(), CollectiveOpcodes(),
                        MatrixOpcodes(), TextureOpcodes(), ControlOpcodes(), CallOpcodes()})
      for (const auto& opcode : family) table->emplace(opcode.name, &opcode);
    return table;
  }();
  const auto found = kTable->find(name);
  return found == kTable->end() ? nullptr : found->second;
}

std::uint16_t TypeSetOf(ptx::Type type) {
  using ptx::Type;
  switch (type) {
    case Type::kNone:
      return kNoType;
    case Type::kPred:
      return kPredicates;
    case Type::kB8:
    case Type::kU8:
    case Type::kS8:
      return kBytes;
    case Type::kB32:
    case Type::kU32:
    case Type::kS32:
      return kIntegers | kWords;
    case Type::kB16:
    case Type::kU16:
    case Type::kS16:
    case Type::kB64:
    case Type::kU64:
    case Type::kS64:
      return kIntegers;
    case Type::kB128:
      return kWide;
    case Type::kF16:
    case Type::kBf16:
      return kHalves;
    case Type::kF16x2:
    case Type::kBf16x2:
      return kPacked;
    case Type::kU16x2:
    case Type::kS16x2:
      return kPackedIntegers;
    case Type::kE4m3x2:
    case Type::kE5m2x2:
      return kPackedBytes;
    case Type::kTf32:
      return kTf32Type;
    case Type::kF32:
      return kSingle;
    case Type::kF64:
      return kDouble;
  }
  return 0;
}

FunctionEmitter::FunctionEmitter(ModuleEmitter& module, const analysis::PlannedFunction& planned,
                                 const analysis::WarpFunction* warp,
                                 const std::vector<analysis::ReconvergencePoint>& points,
                                 llvm::Function* function)
    : b(module.context()),
      module_(module),
      planned_(planned),
      points_(points),
      function_(function),
      warp_(warp) {}

Status FunctionEmitter::Emit() {
  entry_ = llvm::BasicBlock::Create(context(), "entry", function_);
  return_ = llvm::BasicBlock::Create(context(), "return", function_);
  b.SetInsertPoint(return_);
  CreateFrame();
  if (warp_ != nullptr) {
    EmitWarp();
    return status_;
  }
  CreateBlocks();
  EmitInstructions();
  // Results in registers are stored in the common return block.
  b.SetInsertPoint(return_);
  const auto& results = function().signature.results;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::uint32_t reg = body().formal_registers[i];
    if (reg == kNoIndex) continue;
    auto* const value = b.CreateLoad(registers_[reg]->getAllocatedType(), registers_[reg]);
    b.CreateAlignedStore(value, FormalArgument(i), llvm::Align(1));
  }
  b.CreateRetVoid();
  b.SetInsertPoint(entry_);
  if (function().entry && module_.plan().reserved_shared_offset != kNoIndex) ClearReservedShared();
  b.CreateBr(BlockAt(0));
  return status_;
}

// The toolkit's code expects zeroed shared memory. The first thread, or warp, of a block runs
// before all others.
void FunctionEmitter::ClearReservedShared() {
  llvm::Value* index =
      warp_ == nullptr ? ConstInt(32, 0) : ContextField(offsetof(ThreadContext, warp), Int(32));
  for (unsigned i = 0; i < 3 && warp_ == nullptr; ++i)
    index = b.CreateOr(
        index, ContextField(offsetof(ThreadContext, tid) + i * sizeof(std::uint32_t), Int(32)));
  auto* const clear = llvm::BasicBlock::Create(context(), "", function_, return_);
  auto* const after = llvm::BasicBlock::Create(context(), "", function_, return_);
  auto* const reserved =
      b.CreateConstGEP1_64(b.getInt8Ty(), SharedBase(), module_.plan().reserved_shared_offset);
  b.CreateCondBr(b.CreateIsNull(index), clear, after);
  b.SetInsertPoint(clear);
  b.CreateMemSet(reserved, ConstInt(8, 0), analysis::kReservedSharedBytes, llvm::MaybeAlign(1));
  b.CreateBr(after);
  b.SetInsertPoint(after);
}

void FunctionEmitter::CreateFrame() {
  const auto types = ChooseRegisterTypes();
  b.SetInsertPoint(entry_);
  // A register read before its first write is zero. LLVM's undefined values would make branches
  // depending on them undefined, too.
  for (std::size_t i = 0; i < types.size(); ++i) {
    const unsigned count = warp_ == nullptr ? 1 : CountOf(warp_->registers[i].spread);
    auto* const type = count == 1 ? types[i] : llvm::FixedVectorType::get(types[i], count);
    auto* const slot = b.CreateAlloca(type);
    b.CreateStore(llvm::Constant::getNullValue(type), slot);
    registers_.push_back(slot);
  }
  variables_.resize(body().variables.size(), nullptr);
  if (function().entry) return;
  const auto& formals = body().formal_registers;
  for (std::size_t i = 0; i < formals.size(); ++i) {
    llvm::Value* const argument = FormalArgument(i);
    variables_[i] = argument;
    const bool result = i < function().signature.results.size();
    if (formals[i] == kNoIndex || result || warp_ != nullptr) continue;
    auto* const slot = registers_[formals[i]];
    b.CreateStore(b.CreateAlignedLoad(slot->getAllocatedType(), argument, llvm::Align(1)), slot);
  }
}

void FunctionEmitter::CreateBlocks() {
  const auto graph = analysis::BuildFlowGraph(body());
  blocks_.assign(body().instructions.size(), nullptr);
  for (const auto& block : graph.blocks)
    blocks_[block.begin] = llvm::BasicBlock::Create(context(), "", function_, return_);
}

llvm::BasicBlock* FunctionEmitter::BlockAt(std::uint32_t position) {
  return position < blocks_.size() && blocks_[position] != nullptr ? blocks_[position] : return_;
}

void FunctionEmitter::EmitInstructions() {
  const auto count = static_cast<std::uint32_t>(body().instructions.size());
  if (count == 0) return;
  b.SetInsertPoint(blocks_[0]);
  for (std::uint32_t i = 0; i < count && !failed(); ++i) {
    if (i != 0 && blocks_[i] != nullptr) {
      if (b.GetInsertBlock()->getTerminator() == nullptr) b.CreateBr(blocks_[i]);
      b.SetInsertPoint(blocks_[i]);
    }
    EmitOne(i);
  }
  if (b.GetInsertBlock()->getTerminator() == nullptr) b.CreateBr(return_);
}

void FunctionEmitter::EmitOne(std::uint32_t index) {
  instruction_ = &body().instructions[index];
  position_ = index;
  taken_ = 0;
  Reconverge(Side::kBefore);
  if (instruction_->guard == kNoIndex) {
    Dispatch();
    if (b.GetInsertBlock()->getTerminator() == nullptr) Reconverge(Side::kAfter);
    return;
  }
  // A guarded instruction is in a block of its own.
  llvm::Value* guard = b.CreateLoad(Int(1), registers_[instruction_->guard]);
  if (instruction_->guard_negated) guard = b.CreateNot(guard);
  auto* const run = llvm::BasicBlock::Create(context(), "", function_, return_);
  const bool starts_block = !PositionOfPoint(Side::kAfter) &&
                            (index + 1 >= blocks_.size() || blocks_[index + 1] != nullptr);
  auto* const after = starts_block ? BlockAt(index + 1)
                                   : llvm::BasicBlock::Create(context(), "", function_, return_);
  b.CreateCondBr(guard, run, after);
  b.SetInsertPoint(run);
  Dispatch();
  if (b.GetInsertBlock()->getTerminator() == nullptr) b.CreateBr(after);
  if (starts_block) return;
  b.SetInsertPoint(after);
  Reconverge(Side::kAfter);
}

void FunctionEmitter::Dispatch() {
  const Opcode* const opcode = FindOpcode(instruction_->opcode);
  if (opcode == nullptr) {
    Refuse("this instruction is not implemented");
    return;
  }
  if (operand_count() < opcode->min_operands || operand_count() > opcode->max_operands) {
    Reject(Format("it has {} operands; {} to {} are expected", operand_count(),
                  opcode->min_operands, opcode->max_operands));
    return;
  }
  if ((opcode->types & TypeSetOf(type())) == 0) {
    Refuse(type() == ptx::Type::kNone ? "it has no type" : "its type is not implemented");
    return;
  }
  opcode->emit(*this);
  const auto& modifiers = instruction_->modifiers;
  for (std::size_t i = 0; i < modifiers.size() && !failed(); ++i) {
    const bool taken = i < 64 && (taken_ >> i & 1) != 0;
    if (!taken && ptx::TypeNamed(modifiers[i]) == ptx::Type::kNone)
      Refuse(Format("the modifier '.{}' is not implemented here", modifiers[i]));
  }
}

const Operand& FunctionEmitter::operand(std::size_t i) const {
  static const Operand kMissing;
  return i < instruction_->operands.size() ? instruction_->operands[i] : kMissing;
}

bool FunctionEmitter::Consume(std::string_view modifier) {
  bool found = false;
  for (std::size_t i = 0; i < instruction_->modifiers.size() && i < 64; ++i) {
    if (instruction_->modifiers[i] != modifier) continue;
    taken_ |= std::uint64_t{1} << i;
    found = true;
  }
  return found;
}

Rounding FunctionEmitter::ConsumeRounding(Rounding otherwise) {
  if (Consume("rn")) return Rounding::kNearest;
  if (Consume("rz")) return Rounding::kZero;
  if (Consume("rm")) return Rounding::kDown;
  if (Consume("rp")) return Rounding::kUp;
  return otherwise;
}

// " (file.cu:12)", if the PTX has line information.
std::string FunctionEmitter::SourceLocation() const {
  const auto& lines = body().source_lines;
  const auto next = std::upper_bound(
      lines.begin(), lines.end(), instruction_->line,
      [](std::uint32_t line, const auto& source) { return line < source.ptx_line; });
  if (next == lines.begin()) return "";
  const auto& source = *std::prev(next);
  const auto file = module_.ptx().source_files.find(source.file);
  if (file == module_.ptx().source_files.end()) return "";
  const std::string_view path = file->second;
  return Format(" ({}:{})", path.substr(path.rfind('/') + 1), source.line);
}

std::string FunctionEmitter::Where() const {
  std::string where = Format("kernel '{}', PTX line {}{}", module_.kernel().name,
                             instruction_->line, SourceLocation());
  if (&function() != &module_.kernel()) where += Format(" in function '{}'", function().name);
  return where;
}

void FunctionEmitter::Refuse(std::string_view reason) {
  if (!failed())
    status_ = Status::Unsupported("{}: '{}': {}", Where(), instruction_->Name(), reason);
}

void FunctionEmitter::Reject(std::string_view problem) {
  if (!failed()) status_ = Status::Invalid("{}: '{}': {}", Where(), instruction_->Name(), problem);
}

llvm::Value* FunctionEmitter::CallRuntime(std::string_view name, llvm::Type* result,
                                          llvm::ArrayRef<llvm::Value*> arguments, bool pure) {
  std::vector<llvm::Type*> types;
  for (auto* argument : arguments) {
    if (argument->getType()->isVectorTy()) return CallForLanes(name, result, arguments, pure);
    types.push_back(argument->getType());
  }
  auto* const call = b.CreateCall(module_.External(name, result, types, pure), arguments);
  // The runtime groups the lanes of activemask by call site, so calls must not be merged.
  if (!pure) call->addFnAttr(llvm::Attribute::NoMerge);
  return call;
}

void FunctionEmitter::Fault(std::uint32_t driver_error, std::string_view what) {
  auto* const text = module_.Text(Format("{}: {}", Where(), what));
  if (warp_ != nullptr) SelectLane();
  CallRuntime("cuspan_rt_fault", b.getVoidTy(),
              {ContextPointer(), ConstInt(32, driver_error), text});
}

std::optional<std::uint64_t> FunctionEmitter::PositionOfPoint(Side side) const {
  auto point = std::lower_bound(
      points_.begin(), points_.end(), position_,
      [](const auto& before, std::uint32_t position) { return before.instruction < position; });
  for (; point != points_.end() && point->instruction == position_; ++point)
    if (point->side == side) return point->place;
  return std::nullopt;
}

void FunctionEmitter::Reconverge(Side side) {
  if (const auto place = PositionOfPoint(side))
    CallRuntime("cuspan_rt_reconverge", b.getVoidTy(), {ContextPointer(), b.getInt64(*place)});
}

void FunctionEmitter::YieldInSpinLoop() {
  const auto& branches = planned_.spin_branches;
  if (!std::binary_search(branches.begin(), branches.end(), position_)) return;
  if (spins_ == nullptr) {
    spins_ = Frame(Int(32), 4);
    llvm::IRBuilder<> at_entry(entry_, std::next(spins_->getIterator()));
    at_entry.CreateStore(ConstInt(32, 0), spins_);
  }
  auto* const spins = b.CreateAdd(b.CreateLoad(Int(32), spins_), ConstInt(32, 1));
  b.CreateStore(spins, spins_);
  auto* const yield = llvm::BasicBlock::Create(context(), "", function_, return_);
  auto* const after = llvm::BasicBlock::Create(context(), "", function_, return_);
  b.CreateCondBr(b.CreateICmpEQ(b.CreateURem(spins, ConstInt(32, kSpinsPerYield)), ConstInt(32, 0)),
                 yield, after);
  b.SetInsertPoint(yield);
  CallRuntime("cuspan_rt_yield", b.getVoidTy(), {ContextPointer()});
  b.CreateBr(after);
  b.SetInsertPoint(after);
}

llvm::Argument* FunctionEmitter::FormalArgument(std::size_t i) const {
  return function_->getArg(static_cast<unsigned>(i + (warp_ == nullptr ? 1 : 2)));
}

void FunctionEmitter::Return() { b.CreateBr(return_); }

}  // namespace cuspan::softgpu::emit
