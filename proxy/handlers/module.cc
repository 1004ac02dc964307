#include <algorithm>

#include "common/log.h"
#include "protocol/fatbin/image.h"
#include "proxy/gpu/linking.h"
#include "proxy/handlers/handlers.h"
#include "proxy/handlers/kernel_use.h"
#include "proxy/kernel_output.h"

namespace cuspan::proxy {
namespace {

// More could not be told in one frame; CUDA's 32,764 bytes of arguments are rarely more than a few
// dozen.
constexpr std::size_t kMostParameters = 8192;

CUresult Load(DeviceSession& session, Module& module) {
  if (const Status image = fatbin::CheckImage(module.image); !image.ok()) {
    LogError("{}", image.message());
    return CUDA_ERROR_INVALID_IMAGE;
  }
  KernelOutput::Expect(module.image);
  const CUresult result = LoadImage(session.driver, module.image, &module.driver);
  if (result != CUDA_SUCCESS)
    LogInfo("the driver cannot load a module of {} bytes: {}", module.total,
            session.driver.Describe(result));
  return result;
}

CUresult ReadParameters(const Driver& driver, Kernel& kernel) {
  for (;;) {
    std::size_t offset = 0;
    std::size_t bytes = 0;
    const CUresult result =
        driver.cuFuncGetParamInfo(kernel.driver, kernel.parameter_bytes.size(), &offset, &bytes);
    if (result == CUDA_ERROR_INVALID_VALUE) return CUDA_SUCCESS;  // No more.
    if (result != CUDA_SUCCESS) return result;
    if (kernel.parameter_bytes.size() == kMostParameters) return CUDA_ERROR_NOT_SUPPORTED;
    kernel.parameter_bytes.push_back(static_cast<std::uint32_t>(bytes));
    kernel.argument_bytes += bytes;
  }
}

CUresult LookUpKernel(DeviceSession& session, const Module& module, const char* name,
                      Kernel& kernel, std::vector<std::int32_t>& attributes) {
  if (module.result != CUDA_SUCCESS) return module.result;
  if (const CUresult result =
          session.driver.cuModuleGetFunction(&kernel.driver, module.driver, name);
      result != CUDA_SUCCESS)
    return result;
  if (const CUresult result = ReadParameters(session.driver, kernel); result != CUDA_SUCCESS)
    return result;
  attributes.assign(CU_FUNC_ATTRIBUTE_MAX, 0);
  for (int i = 0; i < CU_FUNC_ATTRIBUTE_MAX; ++i) {
    // An older driver does not know the newest attributes: they stay 0.
    int value = 0;
    if (session.driver.cuFuncGetAttribute(&value, static_cast<CUfunction_attribute>(i),
                                          kernel.driver) == CUDA_SUCCESS)
      attributes[static_cast<std::size_t>(i)] = value;
  }
  return CUDA_SUCCESS;
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

// The kernels from number `first` on that a frame has room for.
ModuleKernels::Reply NamesFrom(DeviceSession& session, Module& module, std::size_t first) {
  if (module.result != CUDA_SUCCESS) return FailedReply<ModuleKernels>(module.result);
  if (!module.kernels) {
    std::vector<std::string> names;
    const CUresult result = session.faults.Check(ReadKernelNames(session.driver, module, names));
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
  // A name that no frame can hold.
  if (!reply.last && reply.names.empty())
    return FailedReply<ModuleKernels>(CUDA_ERROR_NOT_SUPPORTED);
  return reply;
}

bool IsManaged(const Driver& driver, CUdeviceptr address) {
  std::uint64_t managed = 0;  // The driver writes the low bytes of it, how many is not said.
  return driver.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address) ==
             CUDA_SUCCESS &&
         managed != 0;
}

Result<std::shared_ptr<Module>> FindModule(DeviceSession& session, std::uint64_t handle) {
  std::shared_ptr<Module> module = session.modules.Find(handle);
  if (module == nullptr) return Status::Invalid("module 0x{:x} does not exist", handle);
  return module;
}

}  // namespace

Status Handle(DeviceSession& session, const Origin&, const ModuleImage& op) {
  std::shared_ptr<Module> module = session.modules.Find(op.module);
  if (module == nullptr && op.offset == 0) {
    module = std::make_shared<Module>();
    module->total = op.total;
    if (op.total == 0 || op.total > fatbin::kMostModuleBytes ||
        !session.modules.Add(op.module, module))
      return Status::Invalid("module 0x{:x} with an image of {} bytes", op.module, op.total);
  }
  if (module == nullptr || module->load_asked || op.total != module->total ||
      op.offset != module->image.size() || op.data.empty() ||
      op.data.size() > module->total - module->image.size())
    return Status::Invalid("bytes {} + {} of {} of module 0x{:x} are not the next of its image",
                           op.offset, op.data.size(), op.total, op.module);
  module->image.insert(module->image.end(), op.data.begin(), op.data.end());
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const ModuleLoad& op) {
  Result<std::shared_ptr<Module>> module = FindModule(session, op.module);
  if (!module.ok()) return module.status();
  if ((*module)->load_asked || (*module)->image.size() != (*module)->total)
    return Status::Invalid("module 0x{:x} is loaded with {} of {} bytes, or twice", op.module,
                           (*module)->image.size(), (*module)->total);
  (*module)->load_asked = true;
  session.worker.Run([&session, origin, module = std::move(*module)] {
    module->result = session.faults.Check(Load(session, *module));
    module->image = {};
    session.channel.Reply<ModuleLoad>(origin.request, {module->result});
  });
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const ModuleUnload& op) {
  std::shared_ptr<Module> module = session.modules.Remove(op.module);
  if (module == nullptr) return Status::Invalid("module 0x{:x} does not exist", op.module);
  session.kernels.RemoveIf([&](const Kernel& kernel) { return kernel.module == op.module; });
  session.variables.RemoveModule(op.module);
  // Kernels of it may wait or run.
  session.WhenDeviceDone([&session, origin, module](CUresult, std::uint64_t) {
    session.worker.Run([&session, origin, module] {
      if (module->driver == nullptr) return;
      session.faults.Posted(origin, session.driver.cuModuleUnload(module->driver));
    });
  });
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const KernelFind& op) {
  Result<std::shared_ptr<Module>> module = FindModule(session, op.module);
  if (!module.ok()) return module.status();
  if (!(*module)->load_asked) return Status::Invalid("module 0x{:x} is not loaded", op.module);
  if (op.kernel == 0 || session.kernels.Find(op.kernel) != nullptr)
    return Status::Invalid("kernel 0x{:x} is no new handle", op.kernel);
  session.worker.Run([&session, origin, op, module = std::move(*module)] {
    auto kernel = std::make_shared<Kernel>();
    kernel->module = op.module;
    kernel->name = op.name;
    KernelFind::Reply reply;
    reply.result = session.faults.Check(
        LookUpKernel(session, *module, op.name.c_str(), *kernel, reply.attributes));
    if (reply.result == CUDA_SUCCESS) {
      reply.parameter_bytes = kernel->parameter_bytes;
      if (!session.kernels.Add(op.kernel, std::move(kernel)))
        reply = FailedReply<KernelFind>(CUDA_ERROR_INVALID_HANDLE);
    } else {
      reply.attributes.clear();
    }
    session.channel.Reply<KernelFind>(origin.request, reply);
  });
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const VariableFind& op) {
  Result<std::shared_ptr<Module>> module = FindModule(session, op.module);
  if (!module.ok()) return module.status();
  if (!(*module)->load_asked) return Status::Invalid("module 0x{:x} is not loaded", op.module);
  session.worker.Run([&session, origin, op, module = std::move(*module)] {
    CUdeviceptr address = 0;
    std::size_t bytes = 0;
    CUresult result = module->result;
    if (result == CUDA_SUCCESS)
      result = session.faults.Check(
          session.driver.cuModuleGetGlobal(&address, &bytes, module->driver, op.name.c_str()));
    if (result == CUDA_SUCCESS) session.variables.Add(op.module, address, bytes);
    const bool managed = result == CUDA_SUCCESS && IsManaged(session.driver, address);
    session.channel.Reply<VariableFind>(origin.request, {result, address, bytes, managed});
  });
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const ModuleKernels& op) {
  Result<std::shared_ptr<Module>> module = FindModule(session, op.module);
  if (!module.ok()) return module.status();
  if (!(*module)->load_asked) return Status::Invalid("module 0x{:x} is not loaded", op.module);
  session.worker.Run([&session, origin, op, module = std::move(*module)] {
    session.channel.Reply<ModuleKernels>(origin.request, NamesFrom(session, *module, op.first));
  });
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const KernelParameter& op) {
  Result<std::shared_ptr<Kernel>> kernel = FindKernel(session, op.kernel);
  if (!kernel.ok()) return kernel.status();
  session.worker.Run([&session, origin, op, kernel = std::move(*kernel)] {
    std::size_t offset = 0;
    std::size_t bytes = 0;
    const CUresult result = session.faults.Check(
        session.driver.cuFuncGetParamInfo(kernel->driver, op.index, &offset, &bytes));
    session.channel.Reply<KernelParameter>(origin.request, {result, offset});
  });
  return Status::Ok();
}

}  // namespace cuspan::proxy
