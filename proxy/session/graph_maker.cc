#include "proxy/session/graph_maker.h"

#include <algorithm>

namespace cuspan::proxy {

// A task of the worker may change limits of the graphs. A shared run held has no memory to
// allocate. A thread making a collective call may be about to submit its kernels.
bool GraphMaker::MayMake() const {
  return session_.objects().batches.wants_graphs() && !session_.streams().queues().held() &&
         session_.worker().idle() && session_.collectives().idle() && session_.streams().AllDone();
}

void GraphMaker::MakeIfIdle() {
  while (MayMake()) session_.objects().batches.MakeNext();
}

void GraphMaker::AfterFrame() {
  if (!session_.objects().batches.wants_graphs()) {
    frames_ = 0;
    patience_ = kFirstPatience;
    return;
  }
  if (++frames_ < patience_) return;
  frames_ = 0;
  if (HoldLaunches())
    MakeIfIdle();
  else
    patience_ = std::min(2 * patience_, kLongestPatience);
}

bool GraphMaker::HoldLaunches() {
  const auto end = std::chrono::steady_clock::now() + kLongestHold;
  while (!MayMake()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    session_.completer().Help(std::chrono::nanoseconds(0));
  }
  return true;
}

}  // namespace cuspan::proxy
