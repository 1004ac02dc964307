#include "proxy/softgpu/jit/compile_notice.h"

#include <system_error>
#include <utility>

#include "common/log.h"

namespace cuspan::softgpu {

CompileNotice::CompileNotice(std::string kernel, bool kept, std::chrono::milliseconds limit)
    : kernel_(std::move(kernel)), kept_(kept), limit_(limit) {
  try {
    thread_ = std::thread([this] { Watch(); });
  } catch (const std::system_error&) {
    // Without a thread nothing is said; the kernel is compiled all the same.
  }
}

void CompileNotice::Watch() {
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, limit_, [this] { return done_; })) return;
  LogWarn("software GPU: compiling kernel {} takes more than {} s; the program waits{}", kernel_,
          limit_.count() / 1000, kept_ ? ". Later runs find the code in the cache" : "");
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
    LogInfo("software GPU: kernel {} took {:.3f} s to compile", kernel_, seconds.count());
}

}  // namespace cuspan::softgpu
