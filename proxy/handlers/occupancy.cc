#include <array>

#include "proxy/handlers/handlers.h"
#include "proxy/handlers/kernel_use.h"
#include "proxy/handlers/on_worker.h"

namespace cuspan::proxy {

Status Handle(DeviceSession& session, const Origin& origin, const KernelOccupancy& op) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Kernel> kernel, session.objects().kernels.Get(op.kernel));
  return OnWorker<KernelOccupancy>(session, origin, [&session, op, kernel] {
    int blocks = 0;
    const CUresult result = session.faults().Check(
        session.driver().cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
            &blocks, kernel->driver, op.block_threads, op.dynamic_shared, op.flags));
    return KernelOccupancy::Reply{result, blocks};
  });
}

Status Handle(DeviceSession& session, const Origin& origin, const KernelAvailableShared& op) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Kernel> kernel, session.objects().kernels.Get(op.kernel));
  return OnWorker<KernelAvailableShared>(session, origin, [&session, op, kernel] {
    std::size_t bytes = 0;
    const CUresult result =
        session.faults().Check(session.driver().cuOccupancyAvailableDynamicSMemPerBlock(
            &bytes, kernel->driver, op.blocks, op.block_threads));
    return KernelAvailableShared::Reply{result, bytes};
  });
}

Status Handle(DeviceSession& session, const Origin& origin, const KernelClusters& op) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Kernel> kernel, session.objects().kernels.Get(op.kernel));
  return OnWorker<KernelClusters>(session, origin, [&session, op, kernel] {
    const auto ask = op.largest ? session.driver().cuOccupancyMaxPotentialClusterSize
                                : session.driver().cuOccupancyMaxActiveClusters;
    int value = 0;
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    if (ask != nullptr) {
      std::array<CUlaunchAttribute, 2> attributes{};
      CUlaunchConfig config = ClusterConfig(op.shape, nullptr, attributes);
      // The cluster size is the result.
      if (op.largest) config.numAttrs = 0;
      result = session.faults().Check(ask(&value, kernel->driver, &config));
    }
    return KernelClusters::Reply{result, value};
  });
}

}  // namespace cuspan::proxy
