#include "proxy/gpu/events.h"

namespace cuspan::proxy {

PooledEvent::~PooledEvent() {
  if (event_ != nullptr) pool_->Return(event_);
}

EventPool::~EventPool() {
  for (CUevent event : free_) driver_.cuEventDestroy(event);
}

CUresult EventPool::Record(CUstream stream, PooledEvent& event) {
  PooledEvent taken;
  CUresult result = Acquire(taken);
  if (result == CUDA_SUCCESS) result = driver_.cuEventRecord(taken.get(), stream);
  if (result == CUDA_SUCCESS) event = std::move(taken);
  return result;
}

CUresult EventPool::Acquire(PooledEvent& event) {
  {
    const MutexLock lock(mutex_);
    if (!free_.empty()) {
      event = PooledEvent(this, free_.back());
      free_.pop_back();
      return CUDA_SUCCESS;
    }
  }
  CUevent made = nullptr;
  const CUresult result = driver_.cuEventCreate(&made, flags_);
  if (result == CUDA_SUCCESS) event = PooledEvent(this, made);
  return result;
}

void EventPool::Return(CUevent event) {
  const MutexLock lock(mutex_);
  free_.push_back(event);
}

}  // namespace cuspan::proxy
