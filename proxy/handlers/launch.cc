#include "proxy/handlers/handlers.h"
#include "proxy/handlers/posted_op.h"

namespace cuspan::proxy {
namespace {

struct LaunchOp final : PostedOp {
  using PostedOp::PostedOp;
  Turn Submit() override {
    std::vector<void*>& pointers = session->argument_pointers;
    pointers.clear();
    const std::byte* next = arguments.data();
    for (const std::uint32_t bytes : kernel->parameter_bytes) {
      pointers.push_back(const_cast<std::byte*>(next));
      next += bytes;
    }
    Timeline::Start start = session->timeline.Begin(stream->driver);
    const Driver& driver = session->driver;
    const CUresult result =
        cooperative
            ? driver.cuLaunchCooperativeKernel(kernel->driver, grid.x, grid.y, grid.z, block.x,
                                               block.y, block.z, dynamic_shared, stream->driver,
                                               pointers.data())
            : driver.cuLaunchKernel(kernel->driver, grid.x, grid.y, grid.z, block.x, block.y,
                                    block.z, dynamic_shared, stream->driver, pointers.data(),
                                    nullptr);
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
  Dim3 grid;
  Dim3 block;
  std::uint32_t dynamic_shared = 0;
  bool cooperative = false;
  Bytes arguments;
  std::vector<std::byte> kept;
};

Result<std::shared_ptr<Kernel>> FindKernel(Session& session, std::uint64_t handle) {
  std::shared_ptr<Kernel> kernel = session.kernels.Find(handle);
  if (kernel == nullptr) return Status::Invalid("kernel 0x{:x} does not exist", handle);
  return kernel;
}

}  // namespace

Status Handle(Session& session, const Origin& origin, const Launch& op) {
  Result<std::shared_ptr<Stream>> stream = session.FindStream(op.stream);
  if (!stream.ok()) return stream.status();
  Result<std::shared_ptr<Kernel>> kernel = FindKernel(session, op.kernel);
  if (!kernel.ok()) return kernel.status();
  if (op.arguments.size() != (*kernel)->argument_bytes)
    return Status::Invalid("a launch with {} bytes of arguments of a kernel that takes {}", op.arguments.size(),
                           (*kernel)->argument_bytes);
  LaunchOp launch(session, origin, std::move(*stream));
  launch.kernel = std::move(*kernel);
  launch.grid = op.grid;
  launch.block = op.block;
  launch.dynamic_shared = op.dynamic_shared;
  launch.cooperative = op.cooperative;
  launch.arguments = op.arguments;
  return Queue(session, std::move(launch));
}

Status Handle(Session& session, const Origin& origin, const KernelSetAttribute& op) {
  Result<std::shared_ptr<Kernel>> kernel = FindKernel(session, op.kernel);
  if (!kernel.ok()) return kernel.status();
  session.worker.Run([&session, origin, op, kernel = std::move(*kernel)] {
    const CUresult result = session.faults.Check(session.driver.cuFuncSetAttribute(
        kernel->driver, static_cast<CUfunction_attribute>(op.attribute), op.value));
    session.channel.Reply<KernelSetAttribute>(origin.request, {result});
  });
  return Status::Ok();
}

Status Handle(Session& session, const Origin& origin, const KernelOccupancy& op) {
  Result<std::shared_ptr<Kernel>> kernel = FindKernel(session, op.kernel);
  if (!kernel.ok()) return kernel.status();
  session.worker.Run([&session, origin, op, kernel = std::move(*kernel)] {
    int blocks = 0;
    const CUresult result = session.faults.Check(session.driver.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        &blocks, kernel->driver, op.block_threads, op.dynamic_shared, op.flags));
    session.channel.Reply<KernelOccupancy>(origin.request, {result, blocks});
  });
  return Status::Ok();
}

Status Handle(Session& session, const Origin& origin, const KernelAvailableShared& op) {
  Result<std::shared_ptr<Kernel>> kernel = FindKernel(session, op.kernel);
  if (!kernel.ok()) return kernel.status();
  session.worker.Run([&session, origin, op, kernel = std::move(*kernel)] {
    std::size_t bytes = 0;
    const CUresult result = session.faults.Check(session.driver.cuOccupancyAvailableDynamicSMemPerBlock(
        &bytes, kernel->driver, op.blocks, op.block_threads));
    session.channel.Reply<KernelAvailableShared>(origin.request, {result, bytes});
  });
  return Status::Ok();
}

Status Handle(Session& session, const Origin& origin, const KernelSetCacheConfig& op) {
  Result<std::shared_ptr<Kernel>> kernel = FindKernel(session, op.kernel);
  if (!kernel.ok()) return kernel.status();
  session.worker.Run([&session, origin, op, kernel = std::move(*kernel)] {
    session.faults.Posted(origin,
                          session.driver.cuFuncSetCacheConfig(kernel->driver, static_cast<CUfunc_cache>(op.config)));
  });
  return Status::Ok();
}

}  // namespace cuspan::proxy
