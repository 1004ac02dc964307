#include "proxy/softgpu/emit/module_emitter.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include "proxy/softgpu/emit/function_emitter.h"

namespace cuspan::softgpu::emit {

namespace {

constexpr std::string_view kVariablePrefix = "ptx.variable.";
constexpr std::string_view kFunctionPrefix = "ptx.address.";

std::optional<std::string_view> NameBehind(std::string_view prefix, std::string_view symbol) {
  if (!symbol.starts_with(prefix)) return std::nullopt;
  return symbol.substr(prefix.size());
}

}  // namespace

std::string VariableSymbol(std::string_view name) { return Format("{}{}", kVariablePrefix, name); }
std::string FunctionSymbol(std::string_view name) { return Format("{}{}", kFunctionPrefix, name); }
std::optional<std::string_view> NameOfVariableSymbol(std::string_view symbol) {
  return NameBehind(kVariablePrefix, symbol);
}
std::optional<std::string_view> NameOfFunctionSymbol(std::string_view symbol) {
  return NameBehind(kFunctionPrefix, symbol);
}
std::string EntrySymbol(std::string_view name) { return Format("ptx.entry.{}", name); }

ModuleEmitter::ModuleEmitter(llvm::LLVMContext& context, const ptx::Module& module,
                             const analysis::KernelPlan& plan, const analysis::WarpPlan* warps,
                             const ReconvergencePoints& points, const Host& host)
    : context_(context),
      module_(module),
      plan_(plan),
      warps_(warps),
      points_(points),
      host_(host) {}

void ModuleEmitter::Declare() {
  auto* const pointer = llvm::PointerType::getUnqual(context_);
  for (std::size_t i = 0; i < plan_.functions.size(); ++i) {
    const auto& function = module_.functions[plan_.functions[i].index];
    // Arguments: the context, then the address of each result and parameter. A kernel finds its
    // parameters in the context.
    std::vector<llvm::Type*> arguments = {pointer};
    if (!function.entry) {
      // Code for a warp gets the mask of calling lanes behind the context.
      if (warps_ != nullptr) arguments.push_back(llvm::Type::getInt32Ty(context_));
      arguments.resize(arguments.size() + function.signature.results.size() +
                           function.signature.parameters.size(),
                       pointer);
    }
    auto* const declared = llvm::Function::Create(
        llvm::FunctionType::get(llvm::Type::getVoidTy(context_), arguments, false),
        i == 0 ? llvm::Function::ExternalLinkage : llvm::Function::InternalLinkage,
        i == 0 ? EntrySymbol(function.name) : Format("ptx.function.{}", function.name), out_.get());
    declared->setDoesNotThrow();
    // Large frames (.local memory) must not skip the guard page below a stack.
    declared->addFnAttr("probe-stack", "inline-asm");
    if (warps_ != nullptr) declared->addFnAttr("prefer-vector-width", "512");
    functions_[plan_.functions[i].index] = declared;
  }
}

Result<std::unique_ptr<llvm::Module>> ModuleEmitter::Emit() {
  out_ = std::make_unique<llvm::Module>(std::string(kernel().name), context_);
  Declare();
  for (std::size_t i = 0; i < plan_.functions.size(); ++i) {
    const auto& function = plan_.functions[i];
    const auto* const warp = warps_ == nullptr ? nullptr : &warps_->functions[i];
    CUSPAN_RETURN_IF_ERROR(
        FunctionEmitter(*this, function, warp, points_[i], functions_[function.index]).Emit());
  }
  std::string problem;
  llvm::raw_string_ostream stream(problem);
  if (llvm::verifyModule(*out_, &stream))
    return Status::Internal("kernel '{}': the generated code is not valid: {}", kernel().name,
                            stream.str());
  return std::move(out_);
}

llvm::Function* ModuleEmitter::FunctionOf(std::uint32_t index) const {
  const auto found = functions_.find(index);
  return found == functions_.end() ? nullptr : found->second;
}

llvm::Constant* ModuleEmitter::VariableAddress(std::string_view name) {
  return out_->getOrInsertGlobal(VariableSymbol(name), llvm::Type::getInt8Ty(context_));
}

llvm::Constant* ModuleEmitter::FunctionAddress(std::string_view name) {
  return out_->getOrInsertGlobal(FunctionSymbol(name), llvm::Type::getInt8Ty(context_));
}

llvm::FunctionCallee ModuleEmitter::External(std::string_view name, llvm::Type* result,
                                             llvm::ArrayRef<llvm::Type*> arguments, bool pure) {
  auto callee = out_->getOrInsertFunction(llvm::StringRef(name.data(), name.size()),
                                          llvm::FunctionType::get(result, arguments, false));
  auto* const function = llvm::cast<llvm::Function>(callee.getCallee());
  function->setDoesNotThrow();
  if (pure) {
    function->setDoesNotAccessMemory();
    function->setWillReturn();
  }
  return callee;
}

llvm::Constant* ModuleEmitter::Text(const std::string& text) {
  auto* const bytes = llvm::ConstantDataArray::getString(context_, text);
  auto* const global = new llvm::GlobalVariable(*out_, bytes->getType(), true,
                                                llvm::GlobalValue::PrivateLinkage, bytes);
  global->setUnnamedAddr(llvm::GlobalValue::UnnamedAddr::Global);
  return global;
}

}  // namespace cuspan::softgpu::emit
