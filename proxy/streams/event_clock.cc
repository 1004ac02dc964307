#include "proxy/streams/event_clock.h"

#include "proxy/streams/completion.h"

namespace cuspan::proxy {

CUresult EventClock::Time(std::shared_ptr<EventRecordState> record, double* milliseconds) {
  *milliseconds = milliseconds_;
  if (last_ != nullptr) {
    float difference = 0;
    const CUresult result = driver_.cuEventElapsedTime(&difference, last_->driver_event.get(),
                                                       record->driver_event.get());
    if (result != CUDA_SUCCESS) return result;
    milliseconds_ += double{difference};
  }
  last_ = std::move(record);
  *milliseconds = milliseconds_;
  return CUDA_SUCCESS;
}

}  // namespace cuspan::proxy
