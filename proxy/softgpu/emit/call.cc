// Calls of functions of the module and of the device runtime, and calls through pointers. (PTX ISA,
// "call"; the layout of arguments is in "Function Declarations and Definitions")
//
// A function's parameters are the context and the address of each result and parameter.
#include <algorithm>

#include "proxy/softgpu/analysis/device_runtime.h"
#include "proxy/softgpu/emit/families.h"

namespace cuspan::softgpu::emit {
namespace {

using llvm::Value;
using ptx::Operand;
using ptx::Signature;
using ptx::Space;
using ptx::Type;

constexpr std::uint32_t kInvalidProgramCounter = 718;  // CUDA_ERROR_INVALID_PC (cuda.h)

// Parts of "call{.uni} (results), callee, (arguments), prototype".
struct Call {
  llvm::ArrayRef<Operand> results;
  const Operand* callee = nullptr;
  llvm::ArrayRef<Operand> arguments;
  const Operand* prototype = nullptr;
};

Call Split(FunctionEmitter& e) {
  Call call;
  std::size_t i = 0;
  if (e.operand(i).kind == Operand::Kind::kVector) call.results = e.operand(i++).elements;
  call.callee = &e.operand(i++);
  if (e.operand(i).kind == Operand::Kind::kVector) call.arguments = e.operand(i++).elements;
  if (i < e.operand_count()) call.prototype = &e.operand(i++);
  if (i < e.operand_count()) e.Reject("there are too many operands");
  return call;
}

std::uint64_t BytesOf(const ptx::Variable& variable) {
  return variable.space == Space::kRegister ? std::max(1U, ptx::BytesOf(variable.type))
                                            : variable.bytes;
}

// Address of `actual`, passed as `formal`: a .param variable itself, or a copy of a register or
// constant.
Value* Passed(FunctionEmitter& e, const Operand& actual, const ptx::Variable& formal,
              bool is_result) {
  if (actual.kind == Operand::Kind::kVariable) {
    Operand address;
    address.kind = Operand::Kind::kAddress;
    address.elements.push_back(actual);
    return e.Address(address, Space::kParam, BytesOf(formal));
  }
  auto* const copy = e.FrameBytes(std::max<std::uint64_t>(BytesOf(formal), 16), 16);
  if (!is_result) {
    auto* const value = e.Read(actual, formal.type);
    if (!e.failed()) e.b.CreateAlignedStore(value, copy, llvm::Align(1));
  }
  return copy;
}

// True if the call fits `signature`. Linked objects may declare up to `declared_results` results of
// a function without them. The caller's values of these are unspecified, so the call drops them.
bool Fits(FunctionEmitter& e, const Signature& signature, std::size_t declared_results,
          Call* call) {
  const std::size_t results = signature.results.size();
  if (call->results.size() < results ||
      call->results.size() > std::max(results, declared_results) ||
      call->arguments.size() != signature.parameters.size()) {
    e.Reject(Format("the call has {} results and {} arguments, the function {} and {}",
                    call->results.size(), call->arguments.size(), results,
                    signature.parameters.size()));
    return false;
  }
  call->results = call->results.take_front(results);
  return true;
}

// Arguments of the LLVM call; the call fits the signature.
std::vector<Value*> PassAll(FunctionEmitter& e, const Call& call, const Signature& signature) {
  std::vector<Value*> passed = {e.ContextPointer()};
  for (std::size_t i = 0; i < call.results.size(); ++i)
    passed.push_back(Passed(e, call.results[i], signature.results[i], true));
  for (std::size_t i = 0; i < call.arguments.size(); ++i)
    passed.push_back(Passed(e, call.arguments[i], signature.parameters[i], false));
  return passed;
}

// Loads results requested in registers.
void FetchResults(FunctionEmitter& e, const Call& call, const Signature& signature,
                  const std::vector<Value*>& passed) {
  for (std::size_t i = 0; i < call.results.size() && !e.failed(); ++i) {
    if (call.results[i].kind != Operand::Kind::kRegister) continue;
    const Type type = signature.results[i].type;
    e.Write(call.results[i], e.b.CreateAlignedLoad(e.TypeOf(type), passed[i + 1], llvm::Align(1)),
            type);
  }
}

bool SameLayout(const std::vector<ptx::Variable>& one, const std::vector<ptx::Variable>& other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                    [](const auto& x, const auto& y) { return BytesOf(x) == BytesOf(y); });
}

// --- Calls by a warp: results and parameters are arrays with an element for each lane.

// Address of the array of `actual`, passed as `formal`: the variable itself, or copies of a
// register or constant.
Value* PassedByWarp(FunctionEmitter& e, const Operand& actual, const ptx::Variable& formal,
                    bool is_result) {
  ptx::Variable layout = formal;
  layout.bytes = BytesOf(formal);
  const std::uint64_t lane_bytes = analysis::LaneBytes(layout);
  if (actual.kind == Operand::Kind::kVariable) {
    const auto& variable = e.body().variables[actual.index];
    if (analysis::LaneBytes(variable) != lane_bytes) {
      e.Refuse(Format("the size of '{}' differs from the parameter's", variable.name));
      return llvm::ConstantPointerNull::get(e.Pointer());
    }
    return e.FrameAddress(actual.index);
  }
  auto* const copies = e.FrameBytes(32 * lane_bytes, 64);
  if (is_result) return copies;
  e.ForEachLane([&] {
    auto* const value = e.Read(actual, formal.type);
    auto* const at =
        e.b.CreateMul(e.b.CreateZExt(e.lane(), e.b.getInt64Ty()), e.b.getInt64(lane_bytes));
    e.b.CreateAlignedStore(value, e.b.CreateGEP(e.b.getInt8Ty(), copies, at), llvm::Align(1));
  });
  return copies;
}

std::vector<Value*> PassAllByWarp(FunctionEmitter& e, const Call& call,
                                  const Signature& signature) {
  std::vector<Value*> passed = {e.ContextPointer(), e.mask()};
  for (std::size_t i = 0; i < call.results.size(); ++i)
    passed.push_back(PassedByWarp(e, call.results[i], signature.results[i], true));
  for (std::size_t i = 0; i < call.arguments.size(); ++i)
    passed.push_back(PassedByWarp(e, call.arguments[i], signature.parameters[i], false));
  return passed;
}

void FetchResultsByWarp(FunctionEmitter& e, const Call& call, const Signature& signature,
                        const std::vector<Value*>& passed) {
  for (std::size_t i = 0; i < call.results.size() && !e.failed(); ++i) {
    if (call.results[i].kind != Operand::Kind::kRegister) continue;
    ptx::Variable layout = signature.results[i];
    layout.bytes = BytesOf(signature.results[i]);
    e.ForEachLane([&] {
      auto* const at = e.b.CreateMul(e.b.CreateZExt(e.lane(), e.b.getInt64Ty()),
                                     e.b.getInt64(analysis::LaneBytes(layout)));
      auto* const from = e.b.CreateGEP(e.b.getInt8Ty(), passed[i + 2], at);
      e.Write(call.results[i], e.b.CreateAlignedLoad(e.TypeOf(layout.type), from, llvm::Align(1)),
              layout.type);
    });
  }
}

// Functions of the device runtime take their parameters by value.
void CallDeviceRuntime(FunctionEmitter& e, std::string_view name, const Call& call,
                       const Signature& signature) {
  const auto* const function = analysis::FindRuntimeFunction(name);
  if (function == nullptr) {
    e.Refuse(Format("'{}' is not implemented", name));
    return;
  }
  const auto passed = PassAll(e, call, signature);
  if (e.failed()) return;
  const auto type_of = [&](char kind) -> llvm::Type* {
    if (kind == 'v') return e.b.getVoidTy();
    return kind == 'p' || kind == 'd' ? e.Pointer() : e.Int(kind == 'l' ? 64 : 32);
  };
  const auto bytes_of = [](char kind) -> std::uint64_t {
    return kind == 'd' ? 12 : kind == 'w' ? 4 : 8;
  };
  // A declaration may omit the result.
  const bool has_result = function->result != 'v' && !signature.results.empty();
  bool fits = signature.parameters.size() == function->parameters.size() &&
              (!has_result || BytesOf(signature.results[0]) == bytes_of(function->result));
  for (std::size_t i = 0; fits && i < function->parameters.size(); ++i)
    fits = BytesOf(signature.parameters[i]) == bytes_of(function->parameters[i]);
  if (!fits) {
    e.Reject(Format("the declaration of '{}' has wrong parameters or results", name));
    return;
  }
  std::vector<Value*> values = {e.ContextPointer()};
  for (std::size_t i = 0; i < function->parameters.size(); ++i) {
    Value* const at = passed[1 + signature.results.size() + i];
    const char kind = function->parameters[i];
    values.push_back(kind == 'd' ? at : e.b.CreateAlignedLoad(type_of(kind), at, llvm::Align(1)));
  }
  Value* const result = e.CallRuntime(function->symbol, type_of(function->result), values);
  if (e.failed() || !has_result) return;
  e.b.CreateAlignedStore(result, passed[1], llvm::Align(1));
  FetchResults(e, call, signature, passed);
}

void CallDirect(FunctionEmitter& e, Call call) {
  const auto& ptx = e.module().ptx();
  const auto found = ptx.function_index.find(call.callee->name);
  if (found == ptx.function_index.end()) {
    e.Reject(Format("'{}' is not declared", call.callee->name));
    return;
  }
  const auto& target = ptx.functions[found->second];
  if (!Fits(e, target.signature, target.declared_results, &call)) return;
  if (!target.defined) {
    if (e.warp() == nullptr) {
      CallDeviceRuntime(e, target.name, call, target.signature);
      return;
    }
    e.ForEachLane([&] {
      e.SelectLane();
      CallDeviceRuntime(e, target.name, call, target.signature);
    });
    return;
  }
  auto* const callee = e.module().FunctionOf(found->second);
  if (e.warp() != nullptr) {
    const auto passed = PassAllByWarp(e, call, target.signature);
    if (e.failed() || callee == nullptr) return;
    e.b.CreateCall(callee, passed);
    FetchResultsByWarp(e, call, target.signature, passed);
    return;
  }
  const auto passed = PassAll(e, call, target.signature);
  if (e.failed() || callee == nullptr) return;
  e.b.CreateCall(callee, passed);
  FetchResults(e, call, target.signature, passed);
}

// Calls each target once, with the lanes calling it.
void CallIndirectByWarp(FunctionEmitter& e, const Call& call, const Signature& signature) {
  auto& b = e.b;
  auto* const pointers = e.WithWidth(32, [&] { return e.Read(*call.callee, Type::kU64); });
  auto passed = PassAllByWarp(e, call, signature);
  if (e.failed()) return;
  auto* const function = b.GetInsertBlock()->getParent();
  const auto& plan = e.module().plan();
  Value* rest = e.mask();
  for (auto index : plan.indirect_targets) {
    const std::uint32_t target_index = plan.functions[index].index;
    const auto& target = e.module().ptx().functions[target_index];
    if (!SameLayout(target.signature.results, signature.results) ||
        !SameLayout(target.signature.parameters, signature.parameters))
      continue;
    auto* const address = b.CreatePtrToInt(e.module().FunctionAddress(target.name), b.getInt64Ty());
    auto* const same = b.CreateICmpEQ(pointers, b.CreateVectorSplat(32, address));
    auto* const lanes = b.CreateAnd(e.Ballot(same), e.mask());
    auto* const calls = llvm::BasicBlock::Create(e.context(), "", function);
    auto* const next = llvm::BasicBlock::Create(e.context(), "", function);
    b.CreateCondBr(b.CreateIsNotNull(lanes), calls, next);
    b.SetInsertPoint(calls);
    passed[1] = lanes;
    b.CreateCall(e.module().FunctionOf(target_index), passed);
    b.CreateBr(next);
    b.SetInsertPoint(next);
    rest = b.CreateAnd(rest, b.CreateNot(lanes));
  }
  auto* const wrong = llvm::BasicBlock::Create(e.context(), "", function);
  auto* const done = llvm::BasicBlock::Create(e.context(), "", function);
  b.CreateCondBr(b.CreateIsNotNull(rest), wrong, done);
  b.SetInsertPoint(wrong);
  e.Fault(kInvalidProgramCounter,
          "a call through a pointer that is not a function of this signature");
  b.CreateUnreachable();
  b.SetInsertPoint(done);
  FetchResultsByWarp(e, call, signature, passed);
}

// A function pointer must be the address of one of the indirect targets, with the same signature;
// otherwise the thread ends with an error.
void CallIndirect(FunctionEmitter& e, Call call) {
  if (call.prototype == nullptr) {
    e.Refuse("a call through a pointer without a prototype is not implemented");
    return;
  }
  const Signature* signature = nullptr;
  for (const auto& prototype : e.body().prototypes)
    if (prototype.name == call.prototype->name) {
      const ptx::Function* const target = e.module().ptx().FindFunction(prototype.target);
      signature = prototype.target.empty() ? &prototype.signature
                  : target != nullptr      ? &target->signature
                                           : nullptr;
    }
  if (signature == nullptr) {
    e.Refuse(Format("there is no .callprototype or .calltargets '{}'", call.prototype->name));
    return;
  }
  if (!Fits(e, *signature, 0, &call)) return;
  if (e.warp() != nullptr) {
    CallIndirectByWarp(e, call, *signature);
    return;
  }
  auto* const pointer = e.Read(*call.callee, Type::kU64);
  const auto passed = PassAll(e, call, *signature);
  if (e.failed()) return;
  auto* const function = e.b.GetInsertBlock()->getParent();
  auto* const done = llvm::BasicBlock::Create(e.context(), "", function);
  const auto& plan = e.module().plan();
  for (auto index : plan.indirect_targets) {
    const std::uint32_t target_index = plan.functions[index].index;
    const auto& target = e.module().ptx().functions[target_index];
    if (!SameLayout(target.signature.results, signature->results) ||
        !SameLayout(target.signature.parameters, signature->parameters))
      continue;
    auto* const matches = llvm::BasicBlock::Create(e.context(), "", function);
    auto* const next = llvm::BasicBlock::Create(e.context(), "", function);
    auto* const address = e.b.CreatePtrToInt(e.module().FunctionAddress(target.name), e.Int(64));
    e.b.CreateCondBr(e.b.CreateICmpEQ(pointer, address), matches, next);
    e.b.SetInsertPoint(matches);
    e.b.CreateCall(e.module().FunctionOf(target_index), passed);
    e.b.CreateBr(done);
    e.b.SetInsertPoint(next);
  }
  e.Fault(kInvalidProgramCounter,
          "a call through a pointer that is not a function of this signature");
  e.b.CreateUnreachable();
  e.b.SetInsertPoint(done);
  FetchResults(e, call, *signature, passed);
}

void EmitCall(FunctionEmitter& e) {
  e.Consume("uni");
  const Call call = Split(e);
  if (e.failed()) return;
  if (call.callee->kind == Operand::Kind::kSymbol) {
    CallDirect(e, call);
  } else if (call.callee->kind == Operand::Kind::kRegister) {
    CallIndirect(e, call);
  } else {
    e.Reject("a function is expected");
  }
}

constexpr Opcode kCallOpcodes[] = {{"call", 1, 4, kNoType, EmitCall}};

}  // namespace

std::span<const Opcode> CallOpcodes() { return kCallOpcodes; }

}  // namespace cuspan::softgpu::emit
