#include "proxy/handlers/handlers.h"
#include "proxy/handlers/kernel_use.h"
#include "proxy/handlers/on_worker.h"

namespace cuspan::proxy {
namespace {

// Limit of the reply's frame. CUDA allows 32,764 bytes of arguments; they are rarely more than a
// few dozen.
constexpr std::size_t kMaxParameters = 8192;

CUresult ReadParameters(const Driver& driver, Kernel& kernel, std::vector<std::uint32_t>* offsets) {
  for (;;) {
    std::size_t offset = 0;
    std::size_t bytes = 0;
    const CUresult result =
        driver.cuFuncGetParamInfo(kernel.driver, kernel.parameter_bytes.size(), &offset, &bytes);
    if (result == CUDA_ERROR_INVALID_VALUE) return CUDA_SUCCESS;  // No more.
    if (result != CUDA_SUCCESS) return result;
    if (kernel.parameter_bytes.size() == kMaxParameters) return CUDA_ERROR_NOT_SUPPORTED;
    kernel.parameter_bytes.push_back(static_cast<std::uint32_t>(bytes));
    offsets->push_back(static_cast<std::uint32_t>(offset));
    kernel.argument_bytes += bytes;
  }
}

CUresult LookUpKernel(DeviceSession& session, const Module& module, const char* name,
                      Kernel& kernel, KernelFind::Reply* reply) {
  if (module.result != CUDA_SUCCESS) return module.result;
  if (const CUresult result =
          session.driver().cuModuleGetFunction(&kernel.driver, module.driver, name);
      result != CUDA_SUCCESS)
    return result;
  if (const CUresult result = ReadParameters(session.driver(), kernel, &reply->parameter_offsets);
      result != CUDA_SUCCESS)
    return result;
  reply->attributes.assign(CU_FUNC_ATTRIBUTE_MAX, 0);
  for (int i = 0; i < CU_FUNC_ATTRIBUTE_MAX; ++i) {
    // Attributes unknown to an older driver stay 0.
    int value = 0;
    if (session.driver().cuFuncGetAttribute(&value, static_cast<CUfunction_attribute>(i),
                                            kernel.driver) == CUDA_SUCCESS)
      reply->attributes[static_cast<std::size_t>(i)] = value;
  }
  // True for kernels compiled for clusters: the cluster size of a graph node cannot be changed.
  kernel.launched_alone = reply->attributes[CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH] != 0 ||
                          reply->attributes[CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET] != 0;
  return CUDA_SUCCESS;
}

}  // namespace

Status Handle(DeviceSession& session, const Origin& origin, const KernelFind& op) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Module> module, session.objects().modules.Get(op.module));
  if (!module->load_asked) return Status::Invalid("module 0x{:x} is not loaded", op.module);
  CUSPAN_RETURN_IF_ERROR(session.objects().kernels.CheckNew(op.kernel));
  return OnWorker<KernelFind>(session, origin, [&session, op, module] {
    auto kernel = std::make_shared<Kernel>();
    kernel->module = op.module;
    kernel->name = op.name;
    kernel->prints = module->printing.Include(op.name);
    if (session.sharing().kernel_table() != nullptr) {
      const KernelKey key{module->hash, op.name};
      kernel->time = session.sharing().kernel_table()->TimeOf(key);
      kernel->bottleneck = session.sharing().kernel_table()->BottleneckOf(key);
    }
    KernelFind::Reply reply;
    reply.result =
        session.faults().Check(LookUpKernel(session, *module, op.name.c_str(), *kernel, &reply));
    if (reply.result == CUDA_SUCCESS) {
      reply.parameter_bytes = kernel->parameter_bytes;
      if (!session.objects().kernels.Add(op.kernel, std::move(kernel)))
        reply = FailedReply<KernelFind>(CUDA_ERROR_INVALID_HANDLE);
    } else {
      reply = FailedReply<KernelFind>(static_cast<CUresult>(reply.result));
    }
    return reply;
  });
}

Status Handle(DeviceSession& session, const Origin& origin, const KernelSetAttribute& op) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Kernel> kernel, session.objects().kernels.Get(op.kernel));
  if (op.attribute == CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH ||
      op.attribute == CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT ||
      op.attribute == CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH)
    kernel->launched_alone = true;
  return OnWorker<KernelSetAttribute>(session, origin, [&session, op, kernel] {
    return session.faults().Check(session.driver().cuFuncSetAttribute(
        kernel->driver, static_cast<CUfunction_attribute>(op.attribute), op.value));
  });
}

Status Handle(DeviceSession& session, const Origin& origin, const KernelSetCacheConfig& op) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Kernel> kernel, session.objects().kernels.Get(op.kernel));
  return OnWorker<KernelSetCacheConfig>(session, origin, [&session, op, kernel] {
    return session.driver().cuFuncSetCacheConfig(kernel->driver,
                                                 static_cast<CUfunc_cache>(op.config));
  });
}

}  // namespace cuspan::proxy
