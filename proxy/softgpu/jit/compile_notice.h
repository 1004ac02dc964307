// Compiling a kernel can take long, and whoever launched it waits without knowing why.
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

// While one lives a kernel is compiled. If that takes longer than `limit` (more than 0), lines on
// standard error say so, more and more rarely, and one says how long it took in the end. At the
// level info each compilation has a line. The watcher of compilations is told of each.
class CompileNotice {
 public:
  static constexpr std::chrono::seconds kLimit{2};

  // Who waits for the code: the program; the program, and the code goes to the cache on disk;
  // nobody, since the kernel runs in other code meanwhile.
  enum class For : std::uint8_t { kProgram, kProgramAndCache, kLater };

  // `form`: the code's, by its name; `instructions`: how large the kernel is.
  CompileNotice(std::string kernel, std::string form, std::size_t instructions, For whom,
                std::chrono::milliseconds limit = kLimit);
  ~CompileNotice();
  CompileNotice(const CompileNotice&) = delete;

  // How often it was said that the compilation takes longer than the limit.
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

// Who is told of compilations from now on; called once at most, before the first.
void SetCompilationWatcher(CompilationWatcher watcher, void* argument);

}  // namespace cuspan::softgpu
