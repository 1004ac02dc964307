#include "proxy/softgpu/jit/background_compiler.h"

#include <dlfcn.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/log.h"

namespace cuspan::softgpu::jit {

BackgroundCompiler* BackgroundCompiler::OfProcess() {
  // Never destroyed: its threads may run until the process ends.
  static BackgroundCompiler* const compiler = []() -> BackgroundCompiler* {
    Dl_info info{};
    if (::dladdr(reinterpret_cast<const void*>(&BackgroundCompiler::OfProcess), &info) == 0)
      return nullptr;
    const std::filesystem::path program =
        std::filesystem::path(info.dli_fname).parent_path() / "cuspan-kernel-compiler";
    if (::access(program.c_str(), X_OK) == 0) return new BackgroundCompiler(program);
    LogInfo("software GPU: {} is missing: launches wait for optimised code", program.native());
    return nullptr;
  }();
  return compiler;
}

BackgroundCompiler::~BackgroundCompiler() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
    for (CompileQueue& queue : queues_) End(queue);
  }
  changed_.notify_all();
  for (CompileQueue& queue : queues_)
    if (queue.thread.joinable()) queue.thread.join();
}

void BackgroundCompiler::End(CompileQueue& queue) {
  queue.unwanted = true;
  if (queue.process != nullptr) queue.process->Kill();
}

bool BackgroundCompiler::Add(Job job) {
  std::lock_guard lock(mutex_);
  CompileQueue& queue = queues_[job.task.form.warps ? 1 : 0];
  if (!queue.thread.joinable()) {
    // Signals are handled by the program's threads.
    sigset_t all, before;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      queue.thread = std::thread([this, &queue] { Main(queue); });
    } catch (const std::system_error&) {
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (!queue.thread.joinable()) return false;
  }
  queue.waiting.push_back(std::move(job));
  changed_.notify_all();
  return true;
}

void BackgroundCompiler::Forget(const void* owner) {
  std::unique_lock lock(mutex_);
  const auto forget = [&] {
    bool at_work = false;
    for (CompileQueue& queue : queues_) {
      // A running job may add another one until it ends.
      std::erase_if(queue.waiting, [&](const Job& job) { return job.owner == owner; });
      if (queue.owner != owner) continue;
      at_work = true;
      End(queue);
    }
    return !at_work;
  };
  changed_.wait(lock, forget);
}

void BackgroundCompiler::Main(CompileQueue& queue) {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ending_ || !queue.waiting.empty(); });
    if (ending_) return;
    Job job = std::move(queue.waiting.front());
    queue.waiting.pop_front();
    queue.owner = job.owner;
    queue.unwanted = false;
    lock.unlock();
    Result<KernelCode> code = Compile(queue, job);
    lock.lock();
    if (!queue.unwanted) {
      lock.unlock();  // queue.owner still blocks Forget.
      job.done(std::move(code));
      lock.lock();
    }
    queue.owner = nullptr;
    changed_.notify_all();
  }
}

Result<KernelCode> BackgroundCompiler::Compile(CompileQueue& queue, const Job& job) {
  const CompileNotice notice(job.task.kernel, job.task.form.Name(), job.instructions, job.whom);
  CUSPAN_ASSIGN_OR_RETURN(CompilerProcess process, CompilerProcess::Start(program_, job.task));
  {
    std::lock_guard lock(mutex_);
    if (queue.unwanted) return Status::Internal("the compilation is no longer needed");
    queue.process = &process;
  }
  auto code = process.Wait();
  std::lock_guard lock(mutex_);
  queue.process = nullptr;
  return code;
}

}  // namespace cuspan::softgpu::jit
