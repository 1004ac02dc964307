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
  // Never destroyed: its thread may be at work until the process ends.
  static BackgroundCompiler* const compiler = []() -> BackgroundCompiler* {
    Dl_info info{};
    if (::dladdr(reinterpret_cast<const void*>(&BackgroundCompiler::OfProcess), &info) == 0)
      return nullptr;
    const std::filesystem::path program =
        std::filesystem::path(info.dli_fname).parent_path() / "cuspan-kernel-compiler";
    if (::access(program.c_str(), X_OK) == 0) return new BackgroundCompiler(program);
    LogInfo("software GPU: no {}: launches wait for optimised code", program.native());
    return nullptr;
  }();
  return compiler;
}

BackgroundCompiler::~BackgroundCompiler() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
    for (Lane& lane : lanes_) End(lane);
  }
  changed_.notify_all();
  for (Lane& lane : lanes_)
    if (lane.thread.joinable()) lane.thread.join();
}

void BackgroundCompiler::End(Lane& lane) {
  lane.unwanted = true;
  if (lane.process != nullptr) lane.process->Kill();
}

bool BackgroundCompiler::Add(Job job) {
  std::lock_guard lock(mutex_);
  Lane& lane = lanes_[job.task.form.warps ? 1 : 0];
  if (!lane.thread.joinable()) {
    // Signals are for the threads of the program.
    sigset_t all, before;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      lane.thread = std::thread([this, &lane] { Main(lane); });
    } catch (const std::system_error&) {
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (!lane.thread.joinable()) return false;
  }
  lane.waiting.push_back(std::move(job));
  changed_.notify_all();
  return true;
}

void BackgroundCompiler::Forget(const void* owner) {
  std::unique_lock lock(mutex_);
  const auto forget = [&] {
    bool at_work = false;
    for (Lane& lane : lanes_) {
      // What is at work may add another until it has ended.
      std::erase_if(lane.waiting, [&](const Job& job) { return job.owner == owner; });
      if (lane.owner != owner) continue;
      at_work = true;
      End(lane);
    }
    return !at_work;
  };
  changed_.wait(lock, forget);
}

void BackgroundCompiler::Main(Lane& lane) {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ending_ || !lane.waiting.empty(); });
    if (ending_) return;
    Job job = std::move(lane.waiting.front());
    lane.waiting.pop_front();
    lane.owner = job.owner;
    lane.unwanted = false;
    lock.unlock();
    Result<KernelCode> code = Compile(lane, job);
    lock.lock();
    if (!lane.unwanted) {
      lock.unlock();  // Forget waits for the owner.
      job.done(std::move(code));
      lock.lock();
    }
    lane.owner = nullptr;
    changed_.notify_all();
  }
}

Result<KernelCode> BackgroundCompiler::Compile(Lane& lane, const Job& job) {
  const CompileNotice notice(job.task.kernel, job.task.form.Name(), job.instructions, job.whom);
  CUSPAN_ASSIGN_OR_RETURN(CompilerProcess process, CompilerProcess::Start(program_, job.task));
  {
    std::lock_guard lock(mutex_);
    if (lane.unwanted) return Status::Internal("nobody waits for it any more");
    lane.process = &process;
  }
  auto code = process.Wait();
  std::lock_guard lock(mutex_);
  lane.process = nullptr;
  return code;
}

}  // namespace cuspan::softgpu::jit
