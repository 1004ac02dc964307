// If the program cancels a thread (pthread_cancel) inside one of our calls, the call is completed.
// The thread ends at the next cancellation point of the program. CUDA's calls do the same
// (measured, driver 580: cudaDeviceSynchronize, cudaStreamSynchronize). Our calls contain many
// cancellation points of the C library. Unwinding from there would leave mutexes locked, and would
// end the program at the first noexcept function.
#pragma once

#include <pthread.h>

namespace cuspan {

// Disables cancellation of the calling thread during its lifetime.
class CancellationOff {
 public:
  CancellationOff() { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~CancellationOff() { ::pthread_setcancelstate(before_, nullptr); }
  CancellationOff(const CancellationOff&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace cuspan
