#include "proxy/session/graph_maker.h"

#include <algorithm>

namespace cuspan::proxy {

bool GraphMaker::MayMake() const {
  return session_.objects().batches.wants_graphs() && session_.streams().AllDone();
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
  while (!session_.streams().AllDone()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    session_.completer().Help(std::chrono::nanoseconds(0));
  }
  return true;
}

}  // namespace cuspan::proxy
