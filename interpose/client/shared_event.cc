#include "interpose/client/shared_event.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <new>
#include <string>
#include <utility>

#include "common/high_fd.h"
#include "common/log.h"
#include "interpose/client/base/background_thread.h"
#include "interpose/client/base/handles.h"

namespace cuspan {

namespace {

constexpr std::uint64_t kEventMagic = 0x7473'6576'656e'7531;
// Maximum sleep of a waiting thread between checks of the recording process.
constexpr long kLongestPauseNs = 50'000'000;
// Sleep of the thread watching several events; each may change.
constexpr long kWatchPauseNs = 200'000;

// Packs a record's number and a CUresult into one word.
constexpr unsigned kResultBits = 16;
std::uint64_t PackReached(std::uint64_t number, CUresult result) {
  return number << kResultBits | static_cast<std::uint64_t>(result);
}
std::uint64_t NumberIn(std::uint64_t reached) { return reached >> kResultBits; }
CUresult ResultIn(std::uint64_t reached) {
  return static_cast<CUresult>(reached & ((std::uint64_t{1} << kResultBits) - 1));
}

}  // namespace

std::shared_ptr<SharedEvent> SharedEvent::Create() {
  Result<UniqueFd> file = CreateSharedMemory("cuspan-event", sizeof(Page));
  if (!file.ok()) return nullptr;
  Result<Mapping> mapping = Mapping::Map(file->get(), 0, sizeof(Page));
  if (!mapping.ok()) return nullptr;
  Page* const page = new (mapping->data()) Page{};
  if (::getrandom(page->token.data(), sizeof page->token, 0) != sizeof page->token) return nullptr;
  return std::shared_ptr<SharedEvent>(
      new SharedEvent(std::move(*mapping), MoveHigh(std::move(*file))));
}

std::shared_ptr<SharedEvent> SharedEvent::Open(const SharedEventHandle& handle) {
  if (handle.magic != kEventMagic) return nullptr;
  const std::string path =
      "/proc/" + std::to_string(handle.process) + "/fd/" + std::to_string(handle.file);
  const UniqueFd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file.valid()) return nullptr;
  Result<Mapping> mapping = Mapping::Map(file.get(), 0, sizeof(Page));
  if (!mapping.ok()) return nullptr;
  std::shared_ptr<SharedEvent> event(new SharedEvent(std::move(*mapping), UniqueFd()));
  return event->page().token == handle.token ? event : nullptr;
}

bool SharedEvent::GetHandle(SharedEventHandle* handle) const {
  if (!file_.valid()) return false;
  *handle = {};
  handle->magic = kEventMagic;
  handle->process = static_cast<std::uint32_t>(::getpid());
  handle->file = file_.get();
  handle->token = page().token;
  return true;
}

std::uint64_t SharedEvent::BeginRecord() {
  page().recorder.store(static_cast<std::uint32_t>(::getpid()), std::memory_order_relaxed);
  return page().recorded.fetch_add(1) + 1;
}

void SharedEvent::Reached(std::uint64_t number, CUresult result) {
  Page& state = page();
  std::uint64_t known = state.reached.load();
  while (NumberIn(known) < number &&
         !state.reached.compare_exchange_weak(known, PackReached(number, result))) {
  }
  state.change_count.fetch_add(1);
  ::syscall(SYS_futex, &state.change_count, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

// Uses a pidfd: the pid of an ended process is valid until its parent has waited for it.
bool SharedEvent::RecorderEnded(pid_t recorder) {
  const MutexLock lock(recorder_mutex_);
  if (recorder_ != recorder) {
    UniqueFd opened(static_cast<int>(::syscall(SYS_pidfd_open, recorder, 0U)));
    // Kernels before 5.3 have no pidfds.
    if (!opened.valid()) return ::kill(recorder, 0) != 0 && errno == ESRCH;
    recorder_file_ = MoveHigh(std::move(opened));
    recorder_ = recorder;
  }
  pollfd ended{recorder_file_.get(), POLLIN, 0};
  return ::poll(&ended, 1, 0) > 0;
}

std::optional<CUresult> SharedEvent::Over(std::uint64_t number) {
  const std::uint64_t reached = page().reached.load();
  if (NumberIn(reached) >= number) return ResultIn(reached);
  const auto recorder = static_cast<pid_t>(page().recorder.load(std::memory_order_relaxed));
  if (!RecorderEnded(recorder)) return std::nullopt;
  LogError("process {} exited before an event that it recorded and shared was reached", recorder);
  Reached(number, CUDA_ERROR_UNKNOWN);
  return ResultIn(page().reached.load());
}

CUresult SharedEvent::Query() { return Over(recorded()).value_or(CUDA_ERROR_NOT_READY); }

CUresult SharedEvent::Synchronize() {
  const std::uint64_t last = recorded();
  // Ends when it is reached, when the recorder's device is lost, or with the recorder's process.
  for (;;) {
    const std::uint32_t change_count = page().change_count.load();
    if (const std::optional<CUresult> result = Over(last)) return *result;
    Pause(change_count);
  }
}

void SharedEvent::Pause(std::uint32_t change_count) {
  const timespec limit{0, kLongestPauseNs};
  ::syscall(SYS_futex, &page().change_count, FUTEX_WAIT, change_count, &limit, nullptr, 0);
}

// --- Events of this process

void SharedEvents::Add(std::uint64_t event, std::shared_ptr<SharedEvent> shared) {
  const WriterLock lock(mutex_);
  events_[event] = std::move(shared);
  count_.store(events_.size(), std::memory_order_release);
}

std::shared_ptr<SharedEvent> SharedEvents::Find(std::uint64_t event) const {
  if (count_.load(std::memory_order_acquire) == 0) return nullptr;
  const ReaderLock lock(mutex_);
  const auto found = events_.find(event);
  return found == events_.end() ? nullptr : found->second;
}

void SharedEvents::Remove(std::uint64_t event) {
  if (count_.load(std::memory_order_acquire) == 0) return;
  const WriterLock lock(mutex_);
  events_.erase(event);
  count_.store(events_.size(), std::memory_order_release);
}

CUresult SharedEvents::Hold(const std::shared_ptr<SharedEvent>& event,
                            const std::shared_ptr<ContextConnection>& connection,
                            std::uint64_t stream) {
  const std::uint64_t number = event->recorded();
  if (event->Over(number)) return CUDA_SUCCESS;
  {
    const MutexLock lock(held_mutex_);
    if (!watcher_.joinable())
      watcher_ = StartBackgroundThread("cuspan-events", [this] { Watch(); });
    if (!watcher_.joinable()) return CUDA_ERROR_OPERATING_SYSTEM;
  }
  StreamWaitSignal wait;
  wait.stream = stream;
  wait.signal = NextHandle();
  holds_.fetch_add(1);
  if (const CUresult result = connection->Post(wait); result != CUDA_SUCCESS) {
    holds_.fetch_sub(1);
    return result;
  }
  const MutexLock lock(held_mutex_);
  held_.push_back({event, number, connection, wait.signal});
  arrived_.notify_one();
  return CUDA_SUCCESS;
}

bool SharedEvents::SendIfOver(const Held& held) {
  const std::shared_ptr<ContextConnection> connection = held.connection.lock();
  if (connection == nullptr) return true;
  if (!held.event->Over(held.number)) return false;
  Signal signal;
  signal.signal = held.signal;
  static_cast<void>(connection->Post(signal));  // A lost device has no waiting streams.
  return true;
}

void SharedEvents::Watch() {
  for (;;) {
    std::vector<Held> held;
    {
      MutexLock lock(held_mutex_);
      // Idle, until the process ends.
      arrived_.wait(lock, [&]() CUSPAN_REQUIRES(held_mutex_) { return !held_.empty(); });
      held.swap(held_);
    }
    holds_.fetch_sub(std::erase_if(held, SendIfOver));
    if (held.empty()) continue;
    {
      const MutexLock lock(held_mutex_);
      held_.insert(held_.end(), held.begin(), held.end());
    }
    const timespec pause{0, kWatchPauseNs};
    ::nanosleep(&pause, nullptr);
  }
}

}  // namespace cuspan
