// Messages about long compilations: the launching program waits without an apparent reason.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "proxy/softgpu/compilations.h"

namespace cuspan::softgpu {

// Lives as long as the compilation of one kernel. If this takes longer than `limit` (more than 0),
// logs warnings on standard error at growing intervals, and the total time at the end. Logs each
// compilation at level info. Notifies the watcher of each compilation.
class CompileNotice {
 public:
  static constexpr std::chrono::seconds kLimit{2};

  // Waiting party: the program; the program, and the code is stored in the disk cache; none,
  // because the kernel runs other code meanwhile.
  enum class For : std::uint8_t { kProgram, kProgramAndCache, kLater };

  // `form`: name of the code's form; `instructions`: size of the kernel.
  CompileNotice(std::string kernel, std::string form, std::size_t instructions, For whom,
                std::chrono::milliseconds limit = kLimit);
  ~CompileNotice();
  CompileNotice(const CompileNotice&) = delete;

  // Number of warnings about exceeding the limit.
  unsigned said() const { return said_.load(); }

 private:
  void Watch();

  const std::string kernel_, form_;
  const std::size_t instructions_;
  const For whom_;
  const std::chrono::milliseconds limit_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::atomic<unsigned> said_ = 0;
  std::thread thread_;  // Waits for the end or the limit.
};

// Sets the watcher of later compilations; called at most once, before the first compilation.
void SetCompilationWatcher(CompilationWatcher watcher, void* argument);

}  // namespace cuspan::softgpu
