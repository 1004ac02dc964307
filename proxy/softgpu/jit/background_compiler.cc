#include "proxy/softgpu/jit/background_compiler.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
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
    unwanted_ = true;
    if (process_ != nullptr) process_->Kill();
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool BackgroundCompiler::Add(Job job) {
  std::lock_guard lock(mutex_);
  if (!thread_.joinable()) {
    // Signals are for the threads of the program.
    sigset_t all, before;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      thread_ = std::thread([this] { Main(); });
    } catch (const std::system_error&) {
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (!thread_.joinable()) return false;
  }
  const auto place = job.task.form.warps
                         ? waiting_.end()
                         : std::find_if(waiting_.begin(), waiting_.end(), [](const Job& other) {
                             return other.task.form.warps.has_value();
                           });
  waiting_.insert(place, std::move(job));
  changed_.notify_all();
  return true;
}

void BackgroundCompiler::Forget(const void* owner) {
  std::unique_lock lock(mutex_);
  std::erase_if(waiting_, [&](const Job& job) { return job.owner == owner; });
  if (owner_ != owner) return;
  unwanted_ = true;
  if (process_ != nullptr) process_->Kill();
  changed_.wait(lock, [&] { return owner_ != owner; });
}

void BackgroundCompiler::Main() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ending_ || !waiting_.empty(); });
    if (ending_) return;
    Job job = std::move(waiting_.front());
    waiting_.pop_front();
    owner_ = job.owner;
    unwanted_ = false;
    lock.unlock();
    Result<KernelCode> code = Compile(job);
    lock.lock();
    if (!unwanted_) {
      lock.unlock();  // Forget waits for owner_.
      job.done(std::move(code));
      lock.lock();
    }
    owner_ = nullptr;
    changed_.notify_all();
  }
}

Result<KernelCode> BackgroundCompiler::Compile(const Job& job) {
  const CompileNotice notice(job.task.kernel, job.task.form.Name(), job.instructions, job.whom);
  CUSPAN_ASSIGN_OR_RETURN(CompilerProcess process, CompilerProcess::Start(program_, job.task));
  {
    std::lock_guard lock(mutex_);
    if (unwanted_) return Status::Unavailable("nobody waits for it any more");
    process_ = &process;
  }
  auto code = process.Wait();
  std::lock_guard lock(mutex_);
  process_ = nullptr;
  return code;
}

}  // namespace cuspan::softgpu::jit
