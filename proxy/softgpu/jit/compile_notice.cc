#include "proxy/softgpu/jit/compile_notice.h"

#include <string_view>
#include <system_error>
#include <utility>

#include "common/log.h"

namespace cuspan::softgpu {
namespace {

// First reminder after this multiple of the limit; later ones follow each time the duration
// doubles.
constexpr int kFirstReminder = 15;

// State of the program during the compilation.
std::string_view Meanwhile(CompileNotice::For whom) {
  switch (whom) {
    case CompileNotice::For::kProgram:
      return "the program waits";
    case CompileNotice::For::kProgramAndCache:
      return "the program waits. Later runs find the code in the cache";
    case CompileNotice::For::kLater:
      break;
  }
  return "it runs in slower code meanwhile";
}

struct {
  CompilationWatcher watcher = nullptr;
  void* argument = nullptr;
} the_watcher;

// Time of CLOCK_MONOTONIC, the clock of steady_clock here.
std::uint64_t Nanoseconds(std::chrono::steady_clock::time_point time) {
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(time.time_since_epoch()).count());
}

}  // namespace

void SetCompilationWatcher(CompilationWatcher watcher, void* argument) {
  the_watcher = {watcher, argument};
}

CompileNotice::CompileNotice(std::string kernel, std::string form, std::size_t instructions,
                             For whom, std::chrono::milliseconds limit)
    : kernel_(std::move(kernel)),
      form_(std::move(form)),
      instructions_(instructions),
      whom_(whom),
      limit_(limit) {
  try {
    thread_ = std::thread([this] { Watch(); });
  } catch (const std::system_error&) {
    // Without a thread, only the message is missing; the compilation continues.
  }
}

void CompileNotice::Watch() {
  std::unique_lock lock(mutex_);
  const auto ends_within = [&](std::chrono::milliseconds time) {
    return changed_.wait_until(lock, start_ + time, [this] { return done_; });
  };
  if (ends_within(limit_)) return;
  LogWarn("software GPU: compiling kernel {} ({} PTX instructions) takes more than {} s; {}",
          kernel_, instructions_, limit_.count() / 1000, Meanwhile(whom_));
  ++said_;
  for (auto next = kFirstReminder * limit_; !ends_within(next); next *= 2, ++said_)
    LogWarn("software GPU: kernel {} is still being compiled after {} s; {}", kernel_,
            next.count() / 1000, Meanwhile(whom_));
}

CompileNotice::~CompileNotice() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
  const auto end = std::chrono::steady_clock::now();
  const std::chrono::duration<double> seconds = end - start_;
  if (said_ != 0)
    LogWarn("software GPU: kernel {} took {:.1f} s to compile", kernel_, seconds.count());
  else
    LogInfo("software GPU: kernel {} ({} PTX instructions, {}) took {:.3f} s to compile; {}",
            kernel_, instructions_, form_, seconds.count(), Meanwhile(whom_));
  if (the_watcher.watcher != nullptr)
    the_watcher.watcher(the_watcher.argument, {kernel_.c_str(), form_.c_str(), Nanoseconds(start_),
                                               Nanoseconds(end), whom_ != For::kLater});
}

}  // namespace cuspan::softgpu
