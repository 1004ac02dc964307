#include "proxy/session/stream_points.h"

#include <span>
#include <utility>

namespace cuspan::proxy {

StreamPoints::StreamPoints(const Driver& driver, Channel& channel, Faults& faults,
                           Completer& completer)
    : driver_(driver),
      channel_(channel),
      faults_(faults),
      completer_(completer),
      events_(driver, CU_EVENT_DISABLE_TIMING),
      marks_(driver, std::as_writable_bytes(channel.marks().all())) {}

void StreamPoints::AddMark(CUstream driver,
                           const std::shared_ptr<Completer::StreamProgress>& progress,
                           std::shared_ptr<AskedStream> asked, std::uint64_t submitted,
                           Answer answer) {
  std::uint32_t mark = 0;
  if (marks_.Put(driver, progress->word, &mark))
    return completer_.Add(progress, StreamPoint(std::move(asked), mark), submitted,
                          std::move(answer));
  PooledEvent event;
  const CUresult result = faults_.Check(events_.Record(driver, event));
  if (result != CUDA_SUCCESS) return answer(result, completer_.pushed());
  completer_.Add(progress, std::move(event), submitted, std::move(answer));
}

bool StreamPoints::TryMark(const std::shared_ptr<Completer::StreamProgress>& progress,
                           const std::shared_ptr<AskedStream>& asked, std::uint64_t submitted,
                           const ClientMark& mark) {
  CUresult result = faults_.lost();
  if (result == CUDA_SUCCESS) result = asked->Query(driver_);
  if (result == CUDA_ERROR_NOT_READY) return false;
  if (result != CUDA_SUCCESS || progress->Complete(submitted))
    WriteMark(mark, faults_.Check(result));
  else
    completer_.Add(progress, PooledEvent(), submitted, Writing(mark));
  return true;
}

void StreamPoints::PutMark(CUstream driver,
                           const std::shared_ptr<Completer::StreamProgress>& progress,
                           const std::shared_ptr<AskedStream>& asked, std::uint64_t submitted,
                           const ClientMark& mark) {
  const std::span<ChannelMark> all = channel_.marks().all();
  const std::size_t offset = static_cast<std::size_t>(mark.mark - all.data()) * sizeof(ChannelMark);
  if (marks_.PutForClient(driver, offset, mark.value))
    completer_.Add(progress, StreamPoint(asked, *mark.mark, mark.value), submitted,
                   WakeClient{mark.mark});
  else
    AddMark(driver, progress, asked, submitted, Writing(mark));
}

Answer StreamPoints::Writing(const ClientMark& mark) {
  return [this, mark](CUresult result, std::uint64_t) { WriteMark(mark, result); };
}

void StreamPoints::WriteMark(const ClientMark& mark, CUresult result) {
  mark.mark->value.store(result == CUDA_SUCCESS ? mark.value : mark.value | ChannelMark::kFailed,
                         std::memory_order_release);
  channel_.marks().WakeWaiter(*mark.mark);
}

}  // namespace cuspan::proxy
