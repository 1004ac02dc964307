// Compiles optimised code while kernels run in code that was there at once.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "common/status.h"
#include "proxy/softgpu/jit/compile_notice.h"
#include "proxy/softgpu/jit/compiler_process.h"
#include "proxy/softgpu/jit/kernel_file.h"

namespace cuspan::softgpu::jit {

// Two compilations at a time, each in a process of its own: one for a thread, and one for a warp,
// which takes longer; else in the order of Add. Any thread calls.
class BackgroundCompiler {
 public:
  // So much processor time a form of a kernel may take.
  static constexpr std::chrono::seconds kLimit{120};

  // That of this process; null when there is no program cuspan-kernel-compiler beside the file
  // that holds this code. The same for each call.
  static BackgroundCompiler* OfProcess();

  // `program`: the path of cuspan-kernel-compiler.
  explicit BackgroundCompiler(std::string program) : program_(std::move(program)) {}
  // Ends what is being compiled.
  ~BackgroundCompiler();
  BackgroundCompiler(const BackgroundCompiler&) = delete;

  struct Job {
    const void* owner = nullptr;
    CompilerTask task;
    std::size_t instructions = 0;  // How large the kernel is, for messages, and who waits for it.
    CompileNotice::For whom = CompileNotice::For::kLater;
    // Called on a thread of the compiler's with what CompilerProcess::Wait says.
    std::function<void(Result<KernelCode>)> done;
  };
  // False when there can be no thread for it.
  bool Add(Job job);
  // Nothing is done for `owner` any more when this returns. Not called by `done`.
  void Forget(const void* owner);

 private:
  struct CompileQueue {
    std::deque<Job> waiting;
    const void* owner = nullptr;         // Whose job is at work.
    bool unwanted = false;               // That job has been forgotten.
    CompilerProcess* process = nullptr;  // Its process, while there is one.
    std::thread thread;                  // Started by the first job.
  };

  void Main(CompileQueue& queue);
  Result<KernelCode> Compile(CompileQueue& queue, const Job& job);
  // What is at work there is not wanted any more.
  static void End(CompileQueue& queue);

  const std::string program_;
  std::mutex mutex_;  // Guards the lanes.
  std::condition_variable changed_;
  std::array<CompileQueue, 2> queues_;
  bool ending_ = false;
};

}  // namespace cuspan::softgpu::jit
