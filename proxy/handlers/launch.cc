#include <array>
#include <optional>

#include "proxy/handlers/handlers.h"
#include "proxy/handlers/kernel_limits.h"
#include "proxy/handlers/kernel_use.h"
#include "proxy/handlers/posted_op.h"
#include "proxy/handlers/sliced_launch.h"
#include "proxy/handlers/stream_wait.h"

namespace cuspan::proxy {
namespace {

// Minimum of pending ops for a launch to wait for a batch. The device needs longer for them than
// the few microseconds until a batch is complete.
constexpr std::uint64_t kEnoughToRun = 8;
// Maximum of argument bytes for batches; most kernels have far less.
constexpr std::size_t kMaxArgumentBytes = 1024;

struct LaunchOp final : PostedOp {
  using PostedOp::PostedOp;
  bool UsesGpu() const override { return true; }
  SubmitResult Submit() CUSPAN_REQUIRES(receiving_thread) override {
    session->files().served().KernelsMayAsk();
    if (call.kernel->prints) [[unlikely]] {
      BeginPrinting();
      SubmitWhole();
      EndPrinting();
      return SubmitResult::kSubmitted;
    }
    if (session->sharing().SharesNow()) [[unlikely]]
      if (const auto result = LaunchInSlices(*session, origin, stream, call)) return *result;
    ConsiderBatches();
    SubmitWhole();
    return SubmitResult::kSubmitted;
  }
  void SubmitWhole() CUSPAN_REQUIRES(receiving_thread) {
    std::vector<void*>& pointers = session->objects().argument_pointers;
    PointAtArguments(*call.kernel, call.arguments, pointers);
    Timeline::Start start = session->timeline().Begin(stream->driver);
    ShareGate::Sample sample;
    // Kernels that wait for files would tell nothing of their work.
    if (session->sharing().gate() != nullptr && !session->files().served().serves()) [[unlikely]]
      sample = session->sharing().gate()->BeginSample(*call.kernel->time, *stream);
    const CUresult result = LaunchKernel(session->driver(), call.kernel->driver, call.shape,
                                         stream->driver, pointers.data());
    if (result == CUDA_SUCCESS)
      session->timeline().End(std::move(start), *stream, TraceKind::kKernel, 0, 0,
                              reinterpret_cast<std::uint64_t>(stream->driver), call.kernel->name);
    FinishWork(result, session->sharing().SharesNow() ? Noted() : PredictedWork{});
    if (session->sharing().gate() != nullptr && result == CUDA_SUCCESS) [[unlikely]]
      session->sharing().gate()->EndSample(std::move(sample), call.kernel->time, Blocks(), stream);
  }
  std::size_t Keep() CUSPAN_REQUIRES(receiving_thread) override {
    waited = true;
    return call.Keep();
  }
  BatchKind Batches() const CUSPAN_REQUIRES(receiving_thread) override {
    return session->objects().batches.ready() && MayBatch() ? BatchKind::kLaunches
                                                            : BatchKind::kNone;
  }
  bool WaitsForBatch() const CUSPAN_REQUIRES(receiving_thread) {
    return Batches() != BatchKind::kNone && Behind();
  }
  BatchResult SubmitBatch(std::span<StreamOp* const> batch)
      CUSPAN_REQUIRES(receiving_thread) override {
    std::array<const KernelCall*, StreamQueues::kMaxInBatch> calls;
    for (std::size_t i = 0; i < batch.size(); ++i)
      calls[i] = &static_cast<const LaunchOp*>(batch[i])->call;
    const std::size_t count =
        session->objects().batches.Launch(*stream, {calls.data(), batch.size()});
    if (count == 0) return {};
    session->files().served().KernelsMayAsk();
    PredictedWork work{0, true};
    if (session->sharing().SharesNow())
      for (std::size_t i = 0; i < count; ++i) work.Add(static_cast<LaunchOp*>(batch[i])->Noted());
    FinishWork(CUDA_SUCCESS, work, count);
    return {count};
  }

  // True if launches arrive faster than they are submitted, and the device has enough pending work.
  bool Behind() const CUSPAN_REQUIRES(receiving_thread) {
    return (waited || session->channel().HasAnotherFrame()) &&
           stream->submitted - stream->progress->completed() >= kEnoughToRun;
  }
  // Submits the launch on another thread, if it may. See Submitters::Delegate.
  bool Delegate(std::optional<ClientMark>& mark) CUSPAN_REQUIRES(receiving_thread) {
    if (!session->submitters().SeveralThreads(origin.request)) return false;
    if (session->sharing().gate() != nullptr || session->timeline().traced() ||
        session->streams().IsLegacy(*stream) ||
        call.arguments.size() > DelegatedLaunch::kMaxArgumentBytes || call.kernel->prints ||
        PendingLimit::MarksNext(*stream) || WaitsForBatch())
      return false;
    ConsiderBatches();
    session->files().served().KernelsMayAsk();
    return session->submitters().Delegate(stream, origin, call, mark);
  }
  bool MayBatch() const CUSPAN_REQUIRES(receiving_thread) {
    const auto& [grid, block, cluster, dynamic_shared, cooperative] = call.shape;
    return !call.kernel->launched_alone && !call.kernel->prints && !cooperative && cluster.x == 1 &&
           cluster.y == 1 && cluster.z == 1 && call.arguments.size() <= kMaxArgumentBytes &&
           !session->timeline().traced() &&
           (!session->sharing().SharesNow() ||
            session->sharing().gate()->MayBatch(*call.kernel->time, Blocks()));
  }
  std::uint64_t Blocks() const {
    const Dim3& grid = call.shape.grid;
    return std::uint64_t{grid.x} * grid.y * grid.z;
  }
  // Predicts the work of a launch to be submitted now.
  PredictedWork Noted() CUSPAN_REQUIRES(receiving_thread) {
    const PredictedWork work = Predicted();
    if (work.known && session->sharing().gate()->pairs()) [[unlikely]]
      AskWhatLimits(*session, call.kernel, work.nanoseconds);
    return work;
  }
  PredictedWork Predicted() const CUSPAN_REQUIRES(receiving_thread) {
    PredictedWork work = session->sharing().gate()->Predict(*call.kernel->time, Blocks());
    work.bottleneck = call.kernel->bottleneck.load(std::memory_order_relaxed);
    return work;
  }
  void ConsiderBatches() CUSPAN_REQUIRES(receiving_thread) {
    if (Behind() && MayBatch()) session->objects().batches.Count(call);
  }

  KernelCall call;
  bool waited = false;
};

// Submits the launch, and writes `mark` behind it.
template <typename Op>
Status QueueLaunch(DeviceSession& session, const Origin& origin, const Op& op,
                   const GridShape& shape, std::optional<ClientMark> mark)
    CUSPAN_REQUIRES(receiving_thread) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Stream> stream,
                          session.streams().FindDelegated(op.stream));
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Kernel> kernel,
                          FindKernel(session, op.kernel, op.arguments));
  LaunchOp launch(session, origin, stream);
  launch.call = {std::move(kernel), shape, op.arguments, {}};
  if (!launch.Delegate(mark)) {
    session.submitters().Await(*stream);
    CUSPAN_RETURN_IF_ERROR(Queue(session, std::move(launch)));
  }
  if (mark) PutMark(session, origin, std::move(stream), *mark, Behind::kLaunch);
  return Status::Ok();
}

}  // namespace

Status Handle(DeviceSession& session, const Origin& origin, const Launch& op) {
  std::optional<ClientMark> mark;
  if (op.value != 0) {
    CUSPAN_ASSIGN_OR_RETURN(mark, MarkOf(session, op.mark, op.value));
  }
  return QueueLaunch(session, origin, op,
                     {op.grid, op.block, {}, op.dynamic_shared, op.cooperative}, mark);
}

Status Handle(DeviceSession& session, const Origin& origin, const LaunchShaped& op) {
  return QueueLaunch(session, origin, op, op.shape, std::nullopt);
}

}  // namespace cuspan::proxy
