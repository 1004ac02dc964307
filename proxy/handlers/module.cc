#include <sys/mman.h>

#include <algorithm>
#include <cstdint>

#include "common/log.h"
#include "protocol/fatbin/image.h"
#include "proxy/gpu/linking.h"
#include "proxy/handlers/handlers.h"
#include "proxy/handlers/on_worker.h"
#include "proxy/streams/kernel_output.h"

namespace cuspan::proxy {
namespace {

CUresult Load(DeviceSession& session, Module& module, JitArguments& jit) {
  if (const Status image = fatbin::CheckImage(module.image); !image.ok()) {
    LogError("{}", image.message());
    return CUDA_ERROR_INVALID_IMAGE;
  }
  module.printing = fatbin::FindCallers(module.image, KernelOutput::kFunction);
  const CUresult result = LoadImage(session.driver(), module.image, jit, &module.driver);
  if (result != CUDA_SUCCESS)
    LogInfo("the driver cannot load a module of {} bytes: {}", module.total,
            session.driver().Describe(result));
  return result;
}

// Factor of memory reserved at first, by the size of the first piece. Pieces of a large image fill
// a frame. So a client only announcing a large image gets little memory.
constexpr std::uint64_t kRoomForByte = 8192;

// Reserves memory for an image received in many pieces, to avoid moving it as it grows. Uses huge
// pages: page faults for small ones take longer than the copy.
void Reserve(std::vector<std::byte>& image, std::uint64_t bytes) {
  image.reserve(bytes);
  constexpr std::uintptr_t kHugePage = 2 << 20;
  const auto start = reinterpret_cast<std::uintptr_t>(image.data());
  const std::uintptr_t first = (start + kHugePage - 1) / kHugePage * kHugePage;
  const std::uintptr_t last = (start + image.capacity()) / kHugePage * kHugePage;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
}

CUresult ReadKernelNames(const Driver& driver, const Module& module,
                         std::vector<std::string>& names) {
  unsigned count = 0;
  if (const CUresult result = driver.cuModuleGetFunctionCount(&count, module.driver);
      result != CUDA_SUCCESS)
    return result;
  std::vector<CUfunction> functions(count);
  if (count != 0) {
    const CUresult result =
        driver.cuModuleEnumerateFunctions(functions.data(), count, module.driver);
    if (result != CUDA_SUCCESS) return result;
  }
  for (const CUfunction function : functions) {
    const char* name = nullptr;
    if (const CUresult result = driver.cuFuncGetName(&name, function); result != CUDA_SUCCESS)
      return result;
    names.emplace_back(name);
  }
  return CUDA_SUCCESS;
}

// Returns the names of kernels from number `first`, as many as fit in a frame.
ModuleKernels::Reply NamesFrom(DeviceSession& session, Module& module, std::size_t first) {
  if (module.result != CUDA_SUCCESS) return FailedReply<ModuleKernels>(module.result);
  if (!module.kernels) {
    std::vector<std::string> names;
    const CUresult result =
        session.faults().Check(ReadKernelNames(session.driver(), module, names));
    if (result != CUDA_SUCCESS) return FailedReply<ModuleKernels>(result);
    module.kernels = std::move(names);
  }
  const std::vector<std::string>& names = *module.kernels;
  ModuleKernels::Reply reply;
  std::size_t room = kMaxInlineBytes;
  std::size_t next = std::min(first, names.size());
  for (; next < names.size(); ++next) {
    const std::size_t bytes = sizeof(std::uint32_t) + names[next].size();
    if (bytes > room) break;
    room -= bytes;
    reply.names.push_back(names[next]);
  }
  reply.last = next == names.size();
  // The name does not fit in a frame.
  if (!reply.last && reply.names.empty())
    return FailedReply<ModuleKernels>(CUDA_ERROR_NOT_SUPPORTED);
  return reply;
}

bool IsManaged(const Driver& driver, CUdeviceptr address) {
  std::uint64_t managed = 0;  // Undocumented size: the driver writes only low bytes.
  return driver.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address) ==
             CUDA_SUCCESS &&
         managed != 0;
}

}  // namespace

Status Handle(DeviceSession& session, const Origin&, const ModuleImage& op) {
  std::shared_ptr<Module> module = session.objects().modules.Find(op.module);
  if (module == nullptr && op.offset == 0) {
    module = std::make_shared<Module>();
    module->total = op.total;
    if (op.total == 0 || op.total > fatbin::kMaxModuleBytes ||
        !session.objects().modules.Add(op.module, module))
      return Status::Invalid(
          "module 0x{:x} is not new, or its image of {} bytes is empty or too large", op.module,
          op.total);
  }
  if (module == nullptr || module->load_asked || op.total != module->total ||
      op.offset != module->image.size() || op.data.empty() ||
      op.data.size() > module->total - module->image.size())
    return Status::Invalid("bytes {} + {} of {} of module 0x{:x} do not continue its image",
                           op.offset, op.data.size(), op.total, op.module);
  if (op.offset == 0) Reserve(module->image, std::min(op.total, op.data.size() * kRoomForByte));
  module->image.insert(module->image.end(), op.data.begin(), op.data.end());
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const ModuleLoad& op) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Module> module, session.objects().modules.Get(op.module));
  if (module->load_asked || module->image.size() != module->total)
    return Status::Invalid("module 0x{:x} is loaded twice, or with only {} of {} bytes", op.module,
                           module->image.size(), module->total);
  CUSPAN_ASSIGN_OR_RETURN(JitArguments made, JitArguments::Of(op.jit));
  module->load_asked = true;
  const auto jit = std::make_shared<JitArguments>(std::move(made));
  return OnWorker<ModuleLoad>(session, origin, [&session, module, jit] {
    if (session.sharing().kernel_table() != nullptr) module->hash = ModuleHash(module->image);
    module->result = session.faults().Check(Load(session, *module, *jit));
    // Needed for slicing its kernels and for finding their limits.
    if (session.sharing().gate() != nullptr && module->result == CUDA_SUCCESS)
      module->ptx = ModulePtx(module->image, CapabilityOf(session.device()));
    std::vector<std::byte>().swap(module->image);
    return ModuleLoad::Reply{module->result, jit->Answer()};
  });
}

Status Handle(DeviceSession& session, const Origin& origin, const ModuleUnload& op) {
  CUSPAN_ASSIGN_OR_RETURN(const std::shared_ptr<Module> module,
                          session.objects().modules.Take(op.module));
  std::vector<std::shared_ptr<KernelSlices>> slices;  // Kept until they no longer run.
  session.objects().kernels.RemoveIf([&](Kernel& kernel) {
    if (kernel.module != op.module) return false;
    if (kernel.slices != nullptr) slices.push_back(kernel.slices);
    kernel.launched_alone = true;  // Queued launches must not be batched.
    return true;
  });
  // Its kernels, and copies to its variables, may be queued or running.
  return OnWorkerWhenDone<ModuleUnload>(
      session, origin,
      [&session, op, module, batches = session.objects().batches.Extract(op.module),
       slices = std::move(slices)](CUresult) {
        for (const auto& some : batches) some->End();
        session.objects().variables.RemoveModule(op.module);
        return module->driver != nullptr ? session.driver().cuModuleUnload(module->driver)
                                         : CUDA_SUCCESS;
      });
}

Status Handle(DeviceSession& session, const Origin& origin, const VariableFind& op) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Module> module, session.objects().modules.Get(op.module));
  if (!module->load_asked) return Status::Invalid("module 0x{:x} is not loaded", op.module);
  return OnWorker<VariableFind>(session, origin, [&session, op, module] {
    CUdeviceptr address = 0;
    std::size_t bytes = 0;
    CUresult result = module->result;
    if (result == CUDA_SUCCESS)
      result = session.faults().Check(
          session.driver().cuModuleGetGlobal(&address, &bytes, module->driver, op.name.c_str()));
    if (result == CUDA_SUCCESS) session.objects().variables.Add(op.module, address, bytes);
    const bool managed = result == CUDA_SUCCESS && IsManaged(session.driver(), address);
    return VariableFind::Reply{result, address, bytes, managed};
  });
}

Status Handle(DeviceSession& session, const Origin& origin, const VariablePlace& op) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Module> module, session.objects().modules.Get(op.module));
  if (!module->load_asked) return Status::Invalid("module 0x{:x} is not loaded", op.module);
  return OnWorker<VariablePlace>(session, origin, [&session, op, module] {
    if (module->result != CUDA_SUCCESS) return VariablePlace::Reply{module->result};
    if (session.driver().place_variable == nullptr)
      return VariablePlace::Reply{CUDA_ERROR_NOT_SUPPORTED};
    CUdeviceptr now = 0;
    std::size_t bytes = 0;
    CUresult result = session.faults().Check(
        session.driver().cuModuleGetGlobal(&now, &bytes, module->driver, op.name.c_str()));
    if (result == CUDA_SUCCESS && !session.device().InFile(op.address, bytes))
      result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
      result = session.driver().place_variable(module->driver, op.name.c_str(), op.address);
    return VariablePlace::Reply{result};
  });
}

Status Handle(DeviceSession& session, const Origin& origin, const ModuleKernels& op) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Module> module, session.objects().modules.Get(op.module));
  if (!module->load_asked) return Status::Invalid("module 0x{:x} is not loaded", op.module);
  return OnWorker<ModuleKernels>(
      session, origin, [&session, op, module] { return NamesFrom(session, *module, op.first); });
}

}  // namespace cuspan::proxy
