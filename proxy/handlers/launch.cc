#include <array>

#include "proxy/handlers/handlers.h"
#include "proxy/handlers/kernel_use.h"
#include "proxy/handlers/posted_op.h"

namespace cuspan::proxy {
namespace {

CUresult LaunchIn(const Driver& driver, CUfunction kernel, const GridShape& shape, CUstream stream,
                  void** arguments) {
  const auto& [grid, block, cluster, dynamic_shared, cooperative] = shape;
  if (cluster.x != 1 || cluster.y != 1 || cluster.z != 1) {
    if (driver.cuLaunchKernelEx == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
    std::array<CUlaunchAttribute, 2> attributes{};
    const CUlaunchConfig config = ClusterConfig(shape, stream, attributes);
    return driver.cuLaunchKernelEx(&config, kernel, arguments, nullptr);
  }
  return cooperative
             ? driver.cuLaunchCooperativeKernel(kernel, grid.x, grid.y, grid.z, block.x, block.y,
                                                block.z, dynamic_shared, stream, arguments)
             : driver.cuLaunchKernel(kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                     dynamic_shared, stream, arguments, nullptr);
}

struct LaunchOp final : PostedOp {
  using PostedOp::PostedOp;
  Turn Submit() override {
    std::vector<void*>& pointers = session->argument_pointers;
    PointAtArguments(*call.kernel, call.arguments, pointers);
    Timeline::Start start = session->timeline.Begin(stream->driver);
    const CUresult result =
        LaunchIn(session->driver, call.kernel->driver, call.shape, stream->driver, pointers.data());
    if (result == CUDA_SUCCESS)
      session->timeline.End(std::move(start), *stream, TraceKind::kKernel, 0, 0,
                            reinterpret_cast<std::uint64_t>(stream->driver), call.kernel->name);
    return Finish(result);
  }
  std::size_t Keep() override { return call.Keep(); }

  KernelCall call;
};

template <typename Op>
Status QueueLaunch(DeviceSession& session, const Origin& origin, const Op& op,
                   const GridShape& shape) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Stream> stream, session.FindStream(op.stream));
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Kernel> kernel,
                          FindKernel(session, op.kernel, op.arguments));
  LaunchOp launch(session, origin, std::move(stream));
  launch.call = {std::move(kernel), shape, op.arguments, {}};
  return Queue(session, std::move(launch));
}

}  // namespace

Status Handle(DeviceSession& session, const Origin& origin, const Launch& op) {
  return QueueLaunch(session, origin, op,
                     {op.grid, op.block, {}, op.dynamic_shared, op.cooperative});
}

Status Handle(DeviceSession& session, const Origin& origin, const LaunchShaped& op) {
  return QueueLaunch(session, origin, op, op.shape);
}

}  // namespace cuspan::proxy
