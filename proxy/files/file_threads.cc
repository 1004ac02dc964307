#include "proxy/files/file_threads.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include "common/cores.h"
#include "common/log.h"
#include "common/settings.h"
#include "common/start_thread.h"

namespace cuspan::proxy {
namespace {

thread_local bool is_file_thread = false;

}  // namespace

// They sleep unless files are read or written. 8 threads read 28 to 42 GB/s from the page cache, 12
// read 50 (measured on nodes with an H200).
unsigned FileThreads::Wanted() {
  constexpr int kMost = 12;
  const auto automatic = static_cast<unsigned>(std::clamp(AvailableCores() * 3 / 4, 1, kMost));
  if (std::string_view(SettingText(settings::kFileThreads)) == "auto") return automatic;
  constexpr std::uint64_t kLimit = 256;
  const Result<std::uint64_t> wanted = SettingNumber(settings::kFileThreads, 1, kLimit);
  if (wanted.ok()) return static_cast<unsigned>(*wanted);
  LogWarn("{}: {} threads read and write files", wanted.status().message(), automatic);
  return automatic;
}

void FileThreads::End() {
  std::deque<std::function<void()>> dropped;  // They end without the lock.
  {
    const MutexLock lock(mutex_);
    running_ = false;
    dropped.swap(tasks_);
  }
  arrived_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

Status FileThreads::Start() {
  if (!threads_.empty()) return Status::Ok();
  {
    const MutexLock lock(mutex_);
    running_ = true;
  }
  while (threads_.size() < count_) {
    Result<std::thread> thread = StartThread("cuspan-file", [this] { Loop(); });
    if (thread.ok()) {
      threads_.push_back(std::move(*thread));
      continue;
    }
    if (!threads_.empty()) break;
    const MutexLock lock(mutex_);
    running_ = false;
    return thread.status();
  }
  return Status::Ok();
}

void FileThreads::Run(std::function<void()> task) {
  if (!is_file_thread) {
    const MutexLock lock(mutex_);
    if (running_) {
      tasks_.push_back(std::move(task));
      arrived_.notify_one();
      return;
    }
  }
  task();
}

void FileThreads::Loop() {
  is_file_thread = true;
  MutexLock lock(mutex_);
  for (;;) {
    // Idle: ends with a task, or with End.
    arrived_.wait(lock, [this]() CUSPAN_REQUIRES(mutex_) { return !running_ || !tasks_.empty(); });
    if (!running_) return;
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    task = nullptr;  // Objects in it may end with it.
    lock.lock();
  }
}

}  // namespace cuspan::proxy
