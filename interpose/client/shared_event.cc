#include "interpose/client/shared_event.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <ctime>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/log.h"
#include "interpose/client/background_thread.h"
#include "interpose/client/handles.h"

namespace cuspan {

// A stream of this process that stands still until a record is reached.
struct HeldStream {
  std::shared_ptr<SharedEvent> event;
  std::uint64_t number;
  std::weak_ptr<Link> link;
  std::uint64_t signal;
};

namespace {

constexpr std::uint64_t kMagic = 0x7473'6576'656e'7531;
// Where programs do not look for descriptors of theirs.
constexpr int kFirstDescriptor = 500;
// How long a waiter sleeps at most before it looks whether the recording process lives.
constexpr long kLongestPauseNs = 50'000'000;
// And one that watches several events, each of which may change.
constexpr long kWatchPauseNs = 200'000;

// A number of a record and a CUresult in one word.
constexpr unsigned kResultBits = 16;
std::uint64_t PackReached(std::uint64_t number, CUresult result) {
  return number << kResultBits | static_cast<std::uint64_t>(result);
}
std::uint64_t NumberIn(std::uint64_t reached) { return reached >> kResultBits; }
CUresult ResultIn(std::uint64_t reached) {
  return static_cast<CUresult>(reached & ((std::uint64_t{1} << kResultBits) - 1));
}

// Never destroyed, as the session.
struct Table {
  std::atomic<std::size_t> count{0};
  std::shared_mutex mutex;
  std::unordered_map<std::uint64_t, std::shared_ptr<SharedEvent>> events;
};
Table& Events() {
  static auto* const table = new Table;
  return *table;
}

struct Watcher {
  std::mutex mutex;
  std::condition_variable arrived;
  std::vector<HeldStream> held;
  std::thread thread;
};
Watcher& TheWatcher() {
  static auto* const watcher = new Watcher;
  return *watcher;
}

}  // namespace

std::shared_ptr<SharedEvent> SharedEvent::Create() {
  Result<UniqueFd> file = CreateSharedMemory("cuspan-event", sizeof(Page));
  if (!file.ok()) return nullptr;
  UniqueFd high(::fcntl(file->get(), F_DUPFD_CLOEXEC, kFirstDescriptor));
  Result<Mapping> mapping = Mapping::Map(file->get(), 0, sizeof(Page));
  if (!high.valid() || !mapping.ok()) return nullptr;
  Page* const page = new (mapping->data()) Page{};
  if (::getrandom(page->token.data(), sizeof page->token, 0) != sizeof page->token) return nullptr;
  return std::shared_ptr<SharedEvent>(new SharedEvent(std::move(*mapping), std::move(high)));
}

std::shared_ptr<SharedEvent> SharedEvent::Open(const SharedEventHandle& handle) {
  if (handle.magic != kMagic) return nullptr;
  const std::string path =
      "/proc/" + std::to_string(handle.process) + "/fd/" + std::to_string(handle.file);
  const UniqueFd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file.valid()) return nullptr;
  Result<Mapping> mapping = Mapping::Map(file.get(), 0, sizeof(Page));
  if (!mapping.ok()) return nullptr;
  std::shared_ptr<SharedEvent> event(new SharedEvent(std::move(*mapping), UniqueFd()));
  return event->page().token == handle.token ? event : nullptr;
}

void SharedEvent::Add(std::uint64_t event, std::shared_ptr<SharedEvent> shared) {
  std::lock_guard lock(Events().mutex);
  Events().events[event] = std::move(shared);
  Events().count.store(Events().events.size(), std::memory_order_release);
}

std::shared_ptr<SharedEvent> SharedEvent::Find(std::uint64_t event) {
  if (Events().count.load(std::memory_order_acquire) == 0) return nullptr;
  std::shared_lock lock(Events().mutex);
  const auto found = Events().events.find(event);
  return found == Events().events.end() ? nullptr : found->second;
}

void SharedEvent::Remove(std::uint64_t event) {
  if (Events().count.load(std::memory_order_acquire) == 0) return;
  std::lock_guard lock(Events().mutex);
  Events().events.erase(event);
  Events().count.store(Events().events.size(), std::memory_order_release);
}

bool SharedEvent::GetHandle(SharedEventHandle* handle) const {
  if (!file_.valid()) return false;
  *handle = {};
  handle->magic = kMagic;
  handle->process = static_cast<std::uint32_t>(::getpid());
  handle->file = file_.get();
  handle->token = page().token;
  return true;
}

CUresult SharedEvent::Record(const std::shared_ptr<SharedEvent>& event, Session& session,
                             const StreamTarget& target) {
  event->page().recorder.store(static_cast<std::uint32_t>(::getpid()), std::memory_order_relaxed);
  const std::uint64_t number = event->page().recorded.fetch_add(1) + 1;
  const CUresult result = session.WhenReached(
      target, [event, number](CUresult reached) { event->Reached(number, reached); });
  if (result != CUDA_SUCCESS) event->Reached(number, result);
  return result;
}

void SharedEvent::Reached(std::uint64_t number, CUresult result) {
  Page& state = page();
  std::uint64_t known = state.reached.load();
  while (NumberIn(known) < number &&
         !state.reached.compare_exchange_weak(known, PackReached(number, result))) {
  }
  state.news.fetch_add(1);
  ::syscall(SYS_futex, &state.news, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

// By a descriptor of the process: one that has ended and that nobody has waited for is still there
// by its number.
bool SharedEvent::RecorderEnded(pid_t recorder) {
  std::lock_guard lock(recorder_mutex_);
  if (recorder_ != recorder) {
    UniqueFd opened(static_cast<int>(::syscall(SYS_pidfd_open, recorder, 0U)));
    // Kernels before 5.3 have no such descriptors.
    if (!opened.valid()) return ::kill(recorder, 0) != 0 && errno == ESRCH;
    recorder_file_.Reset(::fcntl(opened.get(), F_DUPFD_CLOEXEC, kFirstDescriptor));
    recorder_ = recorder_file_.valid() ? recorder : 0;
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

CUresult SharedEvent::Query() {
  return Over(page().recorded.load()).value_or(CUDA_ERROR_NOT_READY);
}

CUresult SharedEvent::Synchronize() {
  const std::uint64_t recorded = page().recorded.load();
  for (;;) {
    const std::uint32_t news = page().news.load();
    if (const std::optional<CUresult> result = Over(recorded)) return *result;
    Pause(news);
  }
}

void SharedEvent::Pause(std::uint32_t news) {
  const timespec limit{0, kLongestPauseNs};
  ::syscall(SYS_futex, &page().news, FUTEX_WAIT, news, &limit, nullptr, 0);
}

CUresult SharedEvent::Wait(const std::shared_ptr<SharedEvent>& event, const StreamTarget& target) {
  const std::uint64_t number = event->page().recorded.load();
  if (event->Over(number)) return CUDA_SUCCESS;
  StreamWaitSignal wait;
  wait.stream = target.stream;
  wait.signal = NextHandle();
  if (const CUresult result = target.link->Post(wait); result != CUDA_SUCCESS) return result;
  Watcher& watcher = TheWatcher();
  std::lock_guard lock(watcher.mutex);
  watcher.held.push_back({event, number, target.link, wait.signal});
  watcher.arrived.notify_one();
  if (!watcher.thread.joinable()) watcher.thread = StartBackgroundThread("cuspan-events", &Watch);
  return CUDA_SUCCESS;
}

bool SharedEvent::SendIfOver(HeldStream& held) {
  const std::shared_ptr<Link> link = held.link.lock();
  if (link == nullptr) return true;
  if (!held.event->Over(held.number)) return false;
  Signal signal;
  signal.signal = held.signal;
  static_cast<void>(link->Post(signal));  // A lost device has nothing that waits.
  return true;
}

void SharedEvent::Watch() {
  Watcher& watcher = TheWatcher();
  for (;;) {
    std::vector<HeldStream> held;
    {
      std::unique_lock lock(watcher.mutex);
      watcher.arrived.wait(lock, [&] { return !watcher.held.empty(); });
      held.swap(watcher.held);
    }
    std::erase_if(held, SendIfOver);
    if (held.empty()) continue;
    {
      std::lock_guard lock(watcher.mutex);
      watcher.held.insert(watcher.held.end(), held.begin(), held.end());
    }
    const timespec pause{0, kWatchPauseNs};
    ::nanosleep(&pause, nullptr);
  }
}

}  // namespace cuspan
