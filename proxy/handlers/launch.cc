#include <array>

#include "proxy/handlers/handlers.h"
#include "proxy/handlers/kernel_use.h"
#include "proxy/handlers/posted_op.h"

namespace cuspan::proxy {
namespace {

// What a launch of clusters is to the driver; valid as long as `attributes`.
CUlaunchConfig ClusterConfig(const GridShape& shape, CUstream stream,
                             std::array<CUlaunchAttribute, 2>& attributes) {
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attributes[0].value.clusterDim = {shape.cluster.x, shape.cluster.y, shape.cluster.z};
  attributes[1].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  attributes[1].value.cooperative = shape.cooperative ? 1 : 0;
  CUlaunchConfig config{};
  SetSizes(shape, config);
  config.hStream = stream;
  config.attrs = attributes.data();
  config.numAttrs = attributes.size();
  return config;
}

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
    PointAtArguments(*kernel, arguments, pointers);
    Timeline::Start start = session->timeline.Begin(stream->driver);
    const CUresult result =
        LaunchIn(session->driver, kernel->driver, shape, stream->driver, pointers.data());
    if (result == CUDA_SUCCESS)
      session->timeline.End(std::move(start), *stream, TraceKind::kKernel, 0, 0,
                            reinterpret_cast<std::uint64_t>(stream->driver), kernel->name);
    return Finish(result);
  }
  std::size_t Keep() override {
    kept.assign(arguments.begin(), arguments.end());
    arguments = kept;
    return kept.size();
  }

  std::shared_ptr<Kernel> kernel;
  GridShape shape;
  Bytes arguments;
  std::vector<std::byte> kept;
};

template <typename Op>
Status QueueLaunch(DeviceSession& session, const Origin& origin, const Op& op,
                   const GridShape& shape) {
  Result<std::shared_ptr<Stream>> stream = session.FindStream(op.stream);
  if (!stream.ok()) return stream.status();
  Result<std::shared_ptr<Kernel>> kernel = FindKernel(session, op.kernel, op.arguments);
  if (!kernel.ok()) return kernel.status();
  LaunchOp launch(session, origin, std::move(*stream));
  launch.kernel = std::move(*kernel);
  launch.shape = shape;
  launch.arguments = op.arguments;
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

Status Handle(DeviceSession& session, const Origin& origin, const KernelSetAttribute& op) {
  Result<std::shared_ptr<Kernel>> kernel = FindKernel(session, op.kernel);
  if (!kernel.ok()) return kernel.status();
  session.worker.Run([&session, origin, op, kernel = std::move(*kernel)] {
    const CUresult result = session.faults.Check(session.driver.cuFuncSetAttribute(
        kernel->driver, static_cast<CUfunction_attribute>(op.attribute), op.value));
    session.channel.Reply<KernelSetAttribute>(origin.request, {result});
  });
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const KernelOccupancy& op) {
  Result<std::shared_ptr<Kernel>> kernel = FindKernel(session, op.kernel);
  if (!kernel.ok()) return kernel.status();
  session.worker.Run([&session, origin, op, kernel = std::move(*kernel)] {
    int blocks = 0;
    const CUresult result =
        session.faults.Check(session.driver.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
            &blocks, kernel->driver, op.block_threads, op.dynamic_shared, op.flags));
    session.channel.Reply<KernelOccupancy>(origin.request, {result, blocks});
  });
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const KernelAvailableShared& op) {
  Result<std::shared_ptr<Kernel>> kernel = FindKernel(session, op.kernel);
  if (!kernel.ok()) return kernel.status();
  session.worker.Run([&session, origin, op, kernel = std::move(*kernel)] {
    std::size_t bytes = 0;
    const CUresult result =
        session.faults.Check(session.driver.cuOccupancyAvailableDynamicSMemPerBlock(
            &bytes, kernel->driver, op.blocks, op.block_threads));
    session.channel.Reply<KernelAvailableShared>(origin.request, {result, bytes});
  });
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const KernelClusters& op) {
  Result<std::shared_ptr<Kernel>> kernel = FindKernel(session, op.kernel);
  if (!kernel.ok()) return kernel.status();
  session.worker.Run([&session, origin, op, kernel = std::move(*kernel)] {
    const auto ask = op.largest ? session.driver.cuOccupancyMaxPotentialClusterSize
                                : session.driver.cuOccupancyMaxActiveClusters;
    int value = 0;
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    if (ask != nullptr) {
      std::array<CUlaunchAttribute, 2> attributes{};
      CUlaunchConfig config = ClusterConfig(op.shape, nullptr, attributes);
      // The size is what is asked for.
      if (op.largest) config.numAttrs = 0;
      result = session.faults.Check(ask(&value, kernel->driver, &config));
    }
    session.channel.Reply<KernelClusters>(origin.request, {result, value});
  });
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const KernelSetCacheConfig& op) {
  Result<std::shared_ptr<Kernel>> kernel = FindKernel(session, op.kernel);
  if (!kernel.ok()) return kernel.status();
  session.worker.Run([&session, origin, op, kernel = std::move(*kernel)] {
    session.faults.Posted(origin, session.driver.cuFuncSetCacheConfig(
                                      kernel->driver, static_cast<CUfunc_cache>(op.config)));
  });
  return Status::Ok();
}

}  // namespace cuspan::proxy
