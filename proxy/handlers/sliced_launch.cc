#include "proxy/handlers/sliced_launch.h"

#include <algorithm>

namespace cuspan::proxy {
namespace {

// Remaining part of a launch.
class SlicedLaunch final : public GatedRest {
 public:
  SlicedLaunch(DeviceSession& session, const Origin& origin, std::shared_ptr<Stream> stream,
               KernelCall call, slicing::SlicePlan plan, double nanoseconds)
      : session_(session),
        origin_(origin),
        stream_(std::move(stream)),
        call_(std::move(call)),
        plan_(plan),
        blocks_(BlocksOf(call_.shape)),
        nanoseconds_(nanoseconds) {
    call_.Keep();
  }

  bool Next() CUSPAN_REQUIRES(receiving_thread) override {
    const CUresult result = HandOver();
    if (result != CUDA_SUCCESS) session_.streams().Submitted(stream_, origin_, result, 1);
    return Ended() || result != CUDA_SUCCESS;
  }
  StreamQueue& queue() CUSPAN_REQUIRES(receiving_thread) override { return *stream_->queue; }

  bool Ended() const { return first_ == blocks_; }
  // Submits the next slice. Does not report failures.
  CUresult HandOver() CUSPAN_REQUIRES(receiving_thread) {
    // If no other run waits for the GPU any more, submits all the rest.
    const bool cut = session_.sharing().SharesNow();
    const std::uint64_t count = std::min(cut ? plan_.blocks : blocks_, blocks_ - first_);
    CUresult result = CUDA_SUCCESS;
    if (first_ == 0) result = call_.kernel->slices->Prepare(stream_->driver);
    PointAtArguments(*call_.kernel, call_.arguments, session_.objects().argument_pointers);
    Timeline::Start start = session_.timeline().Begin(stream_->driver);
    if (result == CUDA_SUCCESS)
      result = call_.kernel->slices->Launch(call_.shape, static_cast<std::uint32_t>(first_),
                                            static_cast<std::uint32_t>(count), stream_->driver,
                                            session_.objects().argument_pointers);
    if (result == CUDA_SUCCESS)
      session_.timeline().End(std::move(start), *stream_, TraceKind::kKernel, 0, 0,
                              reinterpret_cast<std::uint64_t>(stream_->driver), call_.kernel->name);
    if (result != CUDA_SUCCESS) return result;
    session_.streams().Submitted(stream_, origin_, result, 1);
    if (cut)
      session_.sharing().gate()->Started(
          stream_, {nanoseconds_ * static_cast<double>(count) / static_cast<double>(blocks_), true,
                    call_.kernel->bottleneck.load(std::memory_order_relaxed)});
    first_ += count;
    return result;
  }

  static std::uint64_t BlocksOf(const GridShape& shape) {
    return std::uint64_t{shape.grid.x} * shape.grid.y * shape.grid.z;
  }

 private:
  DeviceSession& session_;
  const Origin origin_;
  const std::shared_ptr<Stream> stream_;
  KernelCall call_;
  const slicing::SlicePlan plan_;
  const std::uint64_t blocks_;
  const double nanoseconds_;  // Time of the whole launch.
  std::uint64_t first_ = 0;   // The next block.
};

void MakeSlices(DeviceSession& session, Kernel& kernel) {
  kernel.slices = std::make_shared<KernelSlices>(session.device(), kernel.name);
  const std::shared_ptr<Module> module = session.objects().modules.Find(kernel.module);
  if (module == nullptr) return;
  session.worker().Run([slices = kernel.slices, module, whole = kernel.driver] {
    slices->Make(module->ptx, module->driver, whole);
  });
}

}  // namespace

std::optional<SubmitResult> LaunchInSlices(DeviceSession& session, const Origin& origin,
                                           const std::shared_ptr<Stream>& stream,
                                           const KernelCall& call) {
  const auto& [grid, block, cluster, dynamic_shared, cooperative] = call.shape;
  const std::uint64_t blocks = SlicedLaunch::BlocksOf(call.shape);
  const std::optional<double> nanoseconds = call.kernel->time->Predict(blocks);
  if (cooperative || cluster.x * cluster.y * cluster.z != 1 || !nanoseconds ||
      !session.sharing().gate()->WantsSlices(*nanoseconds))
    return std::nullopt;
  if (call.kernel->slices == nullptr) MakeSlices(session, *call.kernel);
  if (!call.kernel->slices->ready()) return std::nullopt;
  const slicing::SlicePlan plan = call.kernel->slices->Plan(call.shape, *nanoseconds);
  if (plan.slices <= 1) return std::nullopt;
  auto launch = std::make_unique<SlicedLaunch>(session, origin, stream, call, plan, *nanoseconds);
  if (const CUresult result = launch->HandOver(); result != CUDA_SUCCESS) {
    // The failure may concern the slices only. The whole kernel will repeat an error of the
    // program.
    call.kernel->slices->GiveUp(result);
    return std::nullopt;
  }
  if (launch->Ended()) return SubmitResult::kSubmitted;
  session.sharing().gate()->Continue(std::move(launch));
  return SubmitResult::kHeld;
}

}  // namespace cuspan::proxy
