#include "proxy/streams/timeline.h"

#include <algorithm>
#include <limits>

#include "common/log.h"

namespace cuspan::proxy {
namespace {

// The driver returns milliseconds with 24 bits of precision. Up to this time they are exact to 0.1
// µs; then a new reference event is taken.
constexpr float kMaxMilliseconds = 1000;
constexpr int kTries = 8;

}  // namespace

Timeline::Timeline(const Driver& driver, EventPool& timing_events, Completer& completer)
    : driver_(driver), events_(timing_events), completer_(completer) {
  if (Tracing() == nullptr) return;
  auto clock = std::make_shared<Clock>();
  CUresult result = CUDA_SUCCESS;
  // The event happened between two readings of our clock. The try with the shortest interval is
  // used.
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (int i = 0; i < kTries && result == CUDA_SUCCESS; ++i) {
    PooledEvent event;
    const std::uint64_t before = TraceNow();
    result = events_.Record(nullptr, event);
    if (result == CUDA_SUCCESS) result = driver_.cuEventSynchronize(event.get());
    const std::uint64_t passed = TraceNow() - before;
    if (passed >= least) continue;
    least = passed;
    clock->time = before + passed / 2;
    clock->event = std::move(event);
  }
  if (result == CUDA_SUCCESS)
    clock_ = std::move(clock);
  else
    LogWarn("the device's work is not traced: {}", driver_.Describe(result));
}

Timeline::Start Timeline::BeginTraced(CUstream stream) {
  Start start;
  // An error here will also occur in the work itself.
  if (events_.Record(stream, start.event) != CUDA_SUCCESS) return {};
  return start;
}

void Timeline::EndTraced(Start start, Stream& stream, TraceKind kind, std::uint64_t transfer,
                         std::uint64_t offset, std::uint64_t bytes, std::string_view name) {
  struct Work {
    PooledEvent begin;
    PooledEvent end;
    TraceRecord record;
  };
  auto work = std::make_shared<Work>();
  work->begin = std::move(start.event);
  if (events_.Record(stream.driver, work->end) != CUDA_SUCCESS) return;
  work->record.transfer = transfer;
  work->record.offset = offset;
  work->record.bytes = bytes;
  work->record.kind = kind;
  work->record.SetName(name);
  PooledEvent mark;
  if (events_.Record(stream.driver, mark) != CUDA_SUCCESS) return;
  const auto record = [&driver = driver_, clock = clock_, work](CUresult result, std::uint64_t) {
    float begin = 0;
    float duration = 0;
    if (result == CUDA_SUCCESS)
      result = driver.cuEventElapsedTime(&begin, clock->event.get(), work->begin.get());
    if (result == CUDA_SUCCESS)
      result = driver.cuEventElapsedTime(&duration, work->begin.get(), work->end.get());
    if (result != CUDA_SUCCESS) return;
    const auto nanoseconds = [](float milliseconds) {
      return static_cast<std::int64_t>(static_cast<double>(milliseconds) * 1e6);
    };
    work->record.begin = clock->time + static_cast<std::uint64_t>(nanoseconds(begin));
    work->record.end =
        work->record.begin + static_cast<std::uint64_t>(nanoseconds(std::max(duration, 0.0F)));
    Tracing()->Add(work->record);
    if (begin < kMaxMilliseconds) return;
    clock->time = work->record.begin;
    clock->event = std::move(work->begin);
  };
  completer_.Add(stream.progress, std::move(mark), stream.submitted, record);
}

}  // namespace cuspan::proxy
