// Compiles optimised code while kernels run in code available at once.
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

// Runs two compilations at a time, each in a process: one for a thread, and a longer one for a
// warp; otherwise in the order of Add. Threads: any.
class BackgroundCompiler {
 public:
  // Limit of processor time for one form of a kernel.
  static constexpr std::chrono::seconds kLimit{120};

  // Returns the process's only instance; null if the directory of this library has no
  // cuspan-kernel-compiler.
  static BackgroundCompiler* OfProcess();

  // `program`: path of cuspan-kernel-compiler.
  explicit BackgroundCompiler(std::string program) : program_(std::move(program)) {}
  // Kills running compilations.
  ~BackgroundCompiler();
  BackgroundCompiler(const BackgroundCompiler&) = delete;

  struct Job {
    const void* owner = nullptr;
    CompilerTask task;
    std::size_t instructions = 0;  // Size of the kernel, and the waiting party, for messages.
    CompileNotice::For whom = CompileNotice::For::kLater;
    // Called on a compiler thread with the result of CompilerProcess::Wait.
    std::function<void(Result<KernelCode>)> done;
  };
  // Returns false if a thread cannot be created.
  bool Add(Job job);
  // Cancels all jobs of `owner`, and waits for a running `done`. Must not be called by `done`.
  void Forget(const void* owner);

 private:
  struct CompileQueue {
    std::deque<Job> waiting;
    const void* owner = nullptr;         // Owner of the running job.
    bool unwanted = false;               // The running job was cancelled.
    CompilerProcess* process = nullptr;  // Its process, if any.
    std::thread thread;                  // Started by the first job.
  };

  void Main(CompileQueue& queue);
  Result<KernelCode> Compile(CompileQueue& queue, const Job& job);
  // Cancels the running job of the compile queue.
  static void End(CompileQueue& queue);

  const std::string program_;
  std::mutex mutex_;  // Guards the compile queues.
  std::condition_variable changed_;
  std::array<CompileQueue, 2> queues_;
  bool ending_ = false;
};

}  // namespace cuspan::softgpu::jit
