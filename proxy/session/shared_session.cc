#include "proxy/session/shared_session.h"

#include <algorithm>
#include <utility>

#include "proxy/session/device_session.h"

namespace cuspan::proxy {
namespace {

// Upper bound of the driver's allocation granularity (measured on an H200; not documented).
constexpr std::uint64_t kMinPiece = 2 << 20;
constexpr std::uint64_t kMaxPiece = 1 << 30;
constexpr std::uint64_t kPiecesOfGpu = 64;

std::uint64_t PieceBytes(const Driver& driver) {
  std::size_t free = 0, total = 0;
  if (driver.cuMemGetInfo(&free, &total) != CUDA_SUCCESS) return kMaxPiece;
  return std::clamp(total / kPiecesOfGpu / kMinPiece * kMinPiece, kMinPiece, kMaxPiece);
}

}  // namespace

SharedSession::SharedSession(DeviceSession& session)
    : session_(session), copies_(session.driver()) {}

void SharedSession::Wake() { session_.channel().own_bell().Ring(); }
bool SharedSession::traced() const { return session_.timeline().traced(); }
std::string SharedSession::Describe(CUresult result) const {
  return session_.driver().Describe(result);
}

// --- Work

StreamQueues& SharedSession::queues() { return session_.streams().queues(); }

void SharedSession::HoldAll() {
  session_.streams().queues().HoldAll();
  session_.worker().Hold();
}

void SharedSession::LetAll() {
  session_.worker().Let();
  session_.streams().queues().LetAll();
}

bool SharedSession::HasWaiting() const {
  return session_.streams().queues().waiting_ops() != 0 || session_.worker().HasWaiting();
}

bool SharedSession::Mark(const std::shared_ptr<Stream>& stream, Answer done) {
  PooledEvent event;
  if (session_.faults().Check(session_.streams().points().events().Record(stream->driver, event)) !=
      CUDA_SUCCESS)
    return false;
  session_.completer().Add(stream->progress, std::move(event), stream->submitted, std::move(done));
  return true;
}

void SharedSession::MarkAll(Answer done) { session_.streams().WhenHandedOverDone(std::move(done)); }

// --- Measuring run times

bool SharedSession::BeginTime(Stream& stream, PooledEvent* begin) {
  if (!session_.streams().AllDone(&stream) ||
      session_.streams().timing_events().Record(stream.driver, *begin) != CUDA_SUCCESS)
    return false;
  session_.sharing().KeepKernelTimes();
  return true;
}

void SharedSession::EndTime(PooledEvent begin, const std::shared_ptr<Stream>& stream,
                            std::function<void(double)> took) {
  struct Measured {
    PooledEvent begin, end;
  };
  auto measured = std::make_shared<Measured>();
  measured->begin = std::move(begin);
  PooledEvent mark;
  if (session_.streams().timing_events().Record(stream->driver, measured->end) != CUDA_SUCCESS ||
      session_.streams().points().events().Record(stream->driver, mark) != CUDA_SUCCESS)
    return;
  session_.completer().Add(
      stream->progress, std::move(mark), stream->submitted,
      [this, measured, took = std::move(took)](CUresult result, std::uint64_t) {
        float milliseconds = 0;
        if (result == CUDA_SUCCESS &&
            session_.driver().cuEventElapsedTime(&milliseconds, measured->begin.get(),
                                                 measured->end.get()) == CUDA_SUCCESS)
          took(static_cast<double>(milliseconds) * 1e6);
      });
}

// --- Memory

// Called before the first op: the worker is idle.
void SharedSession::MaySwap() CUSPAN_NO_THREAD_SAFETY_ANALYSIS {
  session_.memory().mappings().MaySwap(copies_, PieceBytes(session_.driver()));
  session_.memory().reservations().MaySwap(copies_);
}

void SharedSession::SetAwaitRoom(std::function<bool(std::uint64_t, unsigned)> await_room) {
  session_.device().memory().SetAwaitRoom(std::move(await_room));
}

void SharedSession::ServeFirst(const std::function<bool()>& over) {
  session_.worker().ServeFirst(over);
}

void SharedSession::RunFirst(std::function<void()> task) {
  session_.worker().RunFirst(std::move(task));
}

CUresult SharedSession::SwapOut(std::uint64_t bytes) {
  const std::uint64_t before = swapped_bytes();
  const CUresult result = session_.faults().Check(session_.memory().mappings().SwapOut(bytes));
  // Some memory may have been swapped out before.
  const std::uint64_t gone = swapped_bytes() - before;
  if ((result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY) || gone >= bytes)
    return result;
  return session_.faults().Check(session_.memory().reservations().SwapOut(bytes - gone));
}

CUresult SharedSession::SwapIn() {
  const CUresult result = session_.faults().Check(session_.memory().mappings().SwapIn());
  return result != CUDA_SUCCESS
             ? result
             : session_.faults().Check(session_.memory().reservations().SwapIn());
}

std::uint64_t SharedSession::swapped_bytes() const {
  return session_.memory().mappings().swapped_bytes() +
         session_.memory().reservations().swapped_bytes();
}

}  // namespace cuspan::proxy
