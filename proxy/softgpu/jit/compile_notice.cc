#include "proxy/softgpu/jit/compile_notice.h"

#include <string_view>
#include <system_error>
#include <utility>

#include "common/log.h"

namespace cuspan::softgpu {
namespace {

// What happens while the kernel is compiled.
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

}  // namespace

CompileNotice::CompileNotice(std::string kernel, std::size_t instructions, For whom,
                             std::chrono::milliseconds limit)
    : kernel_(std::move(kernel)), instructions_(instructions), whom_(whom), limit_(limit) {
  try {
    thread_ = std::thread([this] { Watch(); });
  } catch (const std::system_error&) {
    // Without a thread nothing is said; the kernel is compiled all the same.
  }
}

void CompileNotice::Watch() {
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, limit_, [this] { return done_; })) return;
  LogWarn("software GPU: compiling kernel {} ({} PTX instructions) takes more than {} s; {}",
          kernel_, instructions_, limit_.count() / 1000, Meanwhile(whom_));
  late_.store(true);
}

CompileNotice::~CompileNotice() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start_;
  if (late_)
    LogWarn("software GPU: kernel {} took {:.1f} s to compile", kernel_, seconds.count());
  else
    LogInfo("software GPU: kernel {} ({} PTX instructions) took {:.3f} s to compile; {}", kernel_,
            instructions_, seconds.count(), Meanwhile(whom_));
}

}  // namespace cuspan::softgpu
