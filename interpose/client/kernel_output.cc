#include "interpose/client/kernel_output.h"

#include <cstdio>
#include <utility>

namespace cuspan {

KernelOutput& KernelOutput::Get() {
  // Never destroyed: devices may print until the process ends.
  static auto* const output = new KernelOutput;
  return *output;
}

void KernelOutput::Write(bool error, std::string text) {
  {
    std::lock_guard lock(mutex_);
    kept_.push_back({error, std::move(text)});
    has_kept_.store(true, std::memory_order_release);
  }
  WriteNow();
}

void KernelOutput::WriteNow() {
  std::lock_guard lock(mutex_);
  while (!kept_.empty()) {
    const Piece& piece = kept_.front();
    std::FILE* const stream = piece.error ? stderr : stdout;
    if (::ftrylockfile(stream) != 0) return;
    std::fwrite(piece.text.data(), 1, piece.text.size(), stream);
    ::funlockfile(stream);
    kept_.pop_front();
  }
  has_kept_.store(false, std::memory_order_release);
}

}  // namespace cuspan
