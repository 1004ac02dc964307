// A thread that the program cancels (pthread_cancel) inside a call of ours goes on to the call's
// end, and is cancelled at the next cancellation point of the program's own. So it is with CUDA's
// calls (measured, driver 580: cudaDeviceSynchronize, cudaStreamSynchronize). Ours contain many
// functions at which the C library would cancel; unwinding from there would leave locks held, and
// would end the program where a function on the way promises not to throw.
#pragma once

#include <pthread.h>

namespace cuspan {

// The calling thread can not be cancelled while this lives.
class CancellationOff {
 public:
  CancellationOff() { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~CancellationOff() { ::pthread_setcancelstate(before_, nullptr); }
  CancellationOff(const CancellationOff&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace cuspan
