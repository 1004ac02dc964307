#include "proxy/streams/pending_limit.h"

#include <algorithm>
#include <utility>

namespace cuspan::proxy {

void PendingLimit::Mark(const std::shared_ptr<Stream>& stream) {
  PooledEvent event;
  if (faults_.Check(events_.Record(stream->driver, event)) != CUDA_SUCCESS) return;
  stream->marked = stream->submitted;
  completer_.Add(stream->progress, std::move(event), stream->submitted, ProgressMark{});
  if (stream->submitted - stream->progress->completed() < kMaxPending) return;
  queues_.Pause(*stream->queue);
  // A batch may have more than one mark.
  if (std::find(paused_.begin(), paused_.end(), stream) == paused_.end()) paused_.push_back(stream);
}

bool PendingLimit::SomeMayResume() const {
  return std::any_of(paused_.begin(), paused_.end(),
                     [](const auto& stream)
                         CUSPAN_REQUIRES(receiving_thread) { return MayResume(*stream); });
}

void PendingLimit::Resume() {
  std::vector<std::shared_ptr<Stream>> resumed;
  std::erase_if(paused_, [&](const auto& stream) CUSPAN_REQUIRES(receiving_thread) {
    if (!MayResume(*stream)) return false;
    resumed.push_back(stream);
    return true;
  });
  for (const auto& stream : resumed) queues_.Resume(*stream->queue);
}

}  // namespace cuspan::proxy
