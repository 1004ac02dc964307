#include "protocol/sharing/share_file.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <climits>
#include <cstring>
#include <limits>
#include <new>
#include <numeric>

#include "common/host_clock.h"
#include "protocol/sharing/memory_room.h"

namespace cuspan::sharing {
namespace {

using scheduling::kMaxSharingRuns;

// Changes take microseconds. A process holding the lock for this long was stopped.
constexpr std::uint64_t kLongestChange = 200'000'000;
// Maximum time of busy waiting for the lock.
constexpr std::uint64_t kShortChange = 100'000;
// Minimum time between searches for dead processes.
constexpr std::uint64_t kBetweenDead = 20'000'000;
// Minimum swap time of a run with swapped-out memory, however little it is.
constexpr std::uint64_t kBriefSwap = 1'000;

bool SetLock(int fd, short kind, std::int64_t first, std::int64_t count) {
  struct flock lock {};
  lock.l_type = kind;
  lock.l_whence = SEEK_SET;
  lock.l_start = first;
  lock.l_len = count;
  return ::fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

Status Explain(const char* what, const std::string& path, int error) {
  if (error == ENOSPC || error == EDQUOT || error == EFBIG)
    return Status::Exhausted(
        "no space for the table of a shared GPU ({} {}: {}): free some space there, or set "
        "CUSPAN_SHARE_FOLDER to another directory",
        what, path, std::strerror(error));
  return Status::Unavailable("the table of a shared GPU: {} {}: {}; see CUSPAN_SHARE_FOLDER", what,
                             path, std::strerror(error));
}

}  // namespace

std::uint64_t ShareFile::Now() { return HostMonotonicNow(); }

bool ShareFile::HasLocks(int fd, std::int64_t first, std::int64_t count) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = first;
  lock.l_len = count;
  return ::fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

Result<std::unique_ptr<ShareFile>> ShareFile::Map(std::string path, UniqueFd fd) {
  void* const memory =
      ::mmap(nullptr, sizeof(Layout), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return Explain("mapping", path, errno);
  struct stat found {};
  const bool of_group = ::fstat(fd.get(), &found) != 0 || (found.st_mode & S_IWGRP) != 0;
  return std::unique_ptr<ShareFile>(
      new ShareFile(std::move(path), std::move(fd), static_cast<Layout*>(memory), of_group));
}

bool ShareFile::Sound() const {
  return layout_->magic == kMagic && layout_->bytes == sizeof(Layout);
}

Status ShareFile::OtherVersion() {
  return Status::Refused(
      "runs of another version of cuspan share this GPU: wait until they have ended");
}

Result<std::unique_ptr<ShareFile>> ShareFile::Open(UniqueFd fd) {
  struct stat found {};
  if (::fstat(fd.get(), &found) != 0) return Explain("checking", "that was passed", errno);
  if (!S_ISREG(found.st_mode) || static_cast<std::size_t>(found.st_size) < sizeof(Layout))
    return OtherVersion();
  CUSPAN_ASSIGN_OR_RETURN(std::unique_ptr<ShareFile> file, Map("its table", std::move(fd)));
  if (!file->Sound()) return OtherVersion();
  return file;
}

Result<UniqueFd> ShareFile::OpenFile(const Location& place) {
  const std::string& path = place.path;
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd.valid() && errno == ENOENT) return Status::NotFound("{} does not exist", path);
  struct stat found {};
  if (!fd.valid() || ::fstat(fd.get(), &found) != 0) return Explain("opening", path, errno);
  const bool right = place.group ? found.st_gid == *place.group && (found.st_mode & S_IRWXO) == 0
                                 : found.st_uid == ::geteuid();
  if (!S_ISREG(found.st_mode) || !right || found.st_nlink > 1)
    return Status::Refused(
        "{} is not a table of {}: have it removed, or set CUSPAN_SHARE_FOLDER to another directory",
        path, place.group ? "this directory's group" : "yours");
  return fd;
}

Result<std::unique_ptr<ShareFile>> ShareFile::Open(const Location& place) {
  const std::string& path = place.path;
  CUSPAN_ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(place));
  struct stat found {};
  if (::fstat(fd.get(), &found) != 0) return Explain("checking", path, errno);
  const bool used = HasLocks(fd.get(), kFirstRunByte, kEndByte - kFirstRunByte);
  const bool whole = static_cast<std::size_t>(found.st_size) >= sizeof(Layout);
  // An unused, short file counts as missing: OpenOrCreate initializes it.
  if (!whole && !used) return Status::NotFound("{} is empty", path);
  if (!whole) return OtherVersion();
  CUSPAN_ASSIGN_OR_RETURN(std::unique_ptr<ShareFile> file, Map(path, std::move(fd)));
  if (file->Sound()) return file;
  if (used) return OtherVersion();
  return Status::NotFound("{} is not a table", path);
}

Result<UniqueFd> ShareFile::CreateFile(const Location& place) {
  const std::string& path = place.path;
  if (!place.group) {
    UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!fd.valid()) return Explain("creating", path, errno);
    return fd;
  }
  // The file gets its name after its mode is set, independently of the umask. Otherwise, if its
  // creator were killed, an unusable file would block all users. The group is the directory's.
  const std::string folder = path.substr(0, path.rfind('/'));
  UniqueFd fd(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!fd.valid()) return Explain("creating a file in", folder, errno);
  if (::fchmod(fd.get(), 0660) != 0) return Explain("changing the mode of", path, errno);
  if (::linkat(AT_FDCWD, Format("/proc/self/fd/{}", fd.get()).c_str(), AT_FDCWD, path.c_str(),
               AT_SYMLINK_FOLLOW) != 0)
    return Explain("creating", path, errno);
  return fd;
}

Result<std::unique_ptr<ShareFile>> ShareFile::OpenOrCreate(const Location& place) {
  const std::string& path = place.path;
  Result<std::unique_ptr<ShareFile>> file = Open(place);
  if (file.ok() ? (*file)->Used() : file.status().code() != StatusCode::kNotFound) return file;
  Result<UniqueFd> fd = OpenFile(place);
  if (!fd.ok() && fd.status().code() == StatusCode::kNotFound) fd = CreateFile(place);
  if (!fd.ok()) return fd.status();
  // Allocates all pages: later accesses to the mapping can not fail.
  if (const int error = ::posix_fallocate(fd->get(), 0, sizeof(Layout)); error != 0) {
    ::unlink(path.c_str());
    return Explain("making", path, error);
  }
  file = Map(path, std::move(*fd));
  if (file.ok()) (*file)->MakeAnew();
  return file;
}

bool ShareFile::Used() const {
  return !own_.empty() || OthersHave(kFirstRunByte, kEndByte - kFirstRunByte);
}

bool ShareFile::HasRuns() const {
  const auto run = [](std::int64_t byte) { return byte < kFirstSessionByte; };
  return std::any_of(own_.begin(), own_.end(), run) || OthersHave(kFirstRunByte, kMaxSharingRuns);
}

ShareFile::~ShareFile() { ::munmap(layout_, sizeof(Layout)); }

void ShareFile::MakeAnew() {
  std::memset(static_cast<void*>(layout_), 0, sizeof(Layout));
  new (layout_) Layout{};
  layout_->bytes = sizeof(Layout);
  layout_->magic = kMagic;
}

ShareTerms ShareFile::TermsOf(std::uint32_t place) const {
  ShareTerms terms;
  if (place >= kMaxSharingRuns) return terms;
  const scheduling::SharingRun& run = layout_->turns.runs[place];
  terms.shared = true;
  terms.pair = layout_->turns.pairs != 0;
  terms.niceness = run.niceness;
  terms.process_niceness = run.process_niceness;
  terms.quota = run.quota;
  terms.limit = run.limit;
  terms.most_runs = layout_->most_runs[place];
  terms.memory = layout_->memory_caps[place];
  terms.swap = layout_->swaps[place] != 0;
  return terms;
}

std::string ShareFile::FindPath() const {
  char path[PATH_MAX] = {};
  const ssize_t bytes =
      ::readlink(Format("/proc/self/fd/{}", fd_.get()).c_str(), path, sizeof path - 1);
  // The kernel appends " (deleted)" to the name of a deleted file.
  if (bytes <= 0 || path[0] != '/' || ::access(path, F_OK) != 0) return {};
  return path;
}

Result<UniqueFd> ShareFile::OpenAgain() const {
  UniqueFd fd(::open(Format("/proc/self/fd/{}", fd_.get()).c_str(), O_RDWR | O_CLOEXEC));
  if (!fd.valid()) return Explain("opening", path_, errno);
  return fd;
}

Result<ShareFile::Changing> ShareFile::Change() {
  std::uint64_t since = 0;
  while (!SetLock(fd_.get(), F_WRLCK, kTableByte, 1)) {
    if (errno != EAGAIN && errno != EACCES && errno != EINTR)
      return Explain("locking", path_, errno);
    const std::uint64_t now = Now();
    if (since == 0) since = now;
    if (now - since > kLongestChange)
      return Status::Unavailable("the table of a shared GPU is locked by a stopped process");
    if (now - since < kShortChange)
      ::sched_yield();
    else
      ::usleep(100);
  }
  if (layout_->changing.exchange(1, std::memory_order_acquire) != 0) {
    // The last process died during a change. The state is decided anew from the current processes.
    layout_->turns.holder = scheduling::kNobody;
    ForgetDead();
  }
  return Changing(this);
}

void ShareFile::EndChange() {
  layout_->changing.store(0, std::memory_order_release);
  SetLock(fd_.get(), F_UNLCK, kTableByte, 1);
  // After unlocking: a woken process needs the lock.
  for (std::uint64_t left = std::exchange(to_wake_, 0); left != 0; left &= left - 1)
    Wake(layout_->sessions[std::countr_zero(left)]);
}

bool ShareFile::AcquireSlot(std::int64_t byte) {
  if (Mine(byte) || !SetLock(fd_.get(), F_WRLCK, byte, 1)) return false;
  own_.push_back(byte);
  return true;
}

void ShareFile::ReleaseSlot(std::int64_t byte) {
  SetLock(fd_.get(), F_UNLCK, byte, 1);
  std::erase(own_, byte);
}

bool ShareFile::Mine(std::int64_t byte) const {
  return std::find(own_.begin(), own_.end(), byte) != own_.end();
}

void ShareFile::ForgetDead() {
  layout_->dead_sought = Now();
  // F_OFD_GETLK does not report this process's own locks.
  for (std::uint32_t i = 0; i < kMaxSharingRuns; ++i) {
    scheduling::SharingRun& run = layout_->turns.runs[i];
    if (run.present && !Mine(kFirstRunByte + i) && !OthersHave(kFirstRunByte + i, 1))
      run.present = false;
  }
  for (std::uint32_t i = 0; i < kMaxSharingSessions; ++i) {
    SessionSlot& session = layout_->sessions[i];
    if (session.taken != 0 && !Mine(kFirstSessionByte + i) && !OthersHave(kFirstSessionByte + i, 1))
      session.taken = 0;
  }
  // Withdraws evictions requested for a dead run.
  if (SwapNeedOf(*layout_, kMaxSharingRuns, false).lacks == 0) AskForRoom(kMaxSharingRuns);
}

void ShareFile::Wake(SessionSlot& session) {
  session.rung.fetch_add(1, std::memory_order_release);
  // Not FUTEX_PRIVATE: several processes use the word.
  ::syscall(SYS_futex, &session.rung, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

std::span<SessionSlot> ShareFile::sessions() {
  const std::uint32_t used = Once(layout_->sessions_used);
  return std::span(layout_->sessions).first(std::min(used, kMaxSharingSessions));
}

void ShareFile::RingAll() {
  for (SessionSlot& session : sessions())
    if (session.taken != 0) to_wake_ |= std::uint64_t{1} << (&session - layout_->sessions);
}

bool ShareFile::AskForRoom(std::uint32_t run) {
  std::uint64_t lacks = SwapNeedOf(*layout_, run, false).lacks;
  if (lacks == 0) {
    for (SessionSlot& session : sessions()) session.evict.store(0);
    return false;
  }
  // The least recently used runs are evicted first.
  std::array<std::uint32_t, kMaxSharingRuns> order;
  std::iota(order.begin(), order.end(), 0);
  const auto& runs = layout_->turns.runs;
  std::array<std::uint64_t, kMaxSharingRuns> used_at;
  for (std::uint32_t i = 0; i < kMaxSharingRuns; ++i) used_at[i] = runs[i].used_at;
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return used_at[a] < used_at[b]; });
  bool any = false;
  for (const std::uint32_t other : order) {
    if (!runs[other].present || layout_->swaps[other] == 0 || other == run) continue;
    for (SessionSlot& session : sessions()) {
      if (RunOf(*layout_, session) != other) continue;
      const std::uint64_t bytes = session.memory.load();
      const std::uint64_t stays =
          std::min(bytes, std::max(session.fixed.load(), session.stuck.load()));
      const std::uint64_t evict =
          std::min(lacks, bytes - std::min(bytes, session.out.load() + stays));
      lacks -= evict;
      any = any || evict != 0;
      if (session.evict.exchange(evict) != evict && evict != 0)
        to_wake_ |= std::uint64_t{1} << (&session - layout_->sessions);
    }
  }
  return any;
}

void ShareFile::DecideNow(const SessionSlot* self) {
  const std::uint64_t now = Now();
  if (now - layout_->dead_sought >= kBetweenDead) ForgetDead();
  if (copy_ != nullptr) *copy_ = layout_->turns;
  scheduling::TimeSlices& turns = copy_ != nullptr ? *copy_ : layout_->turns;
  std::uint32_t present = 0;
  std::int64_t most_important = std::numeric_limits<std::int64_t>::max();
  for (scheduling::SharingRun& run : turns.runs) {
    run.wants = run.on_gpu = false;
    run.known = true;
    run.done_by = run.idle_since = run.done = 0;
    run.asked = 0;
    const auto place = static_cast<std::uint32_t>(&run - turns.runs.data());
    run.busy = layout_->busy_before[place];
    run.swap = 0;
    if (!run.present) continue;
    if (layout_->swaps[place] != 0) {
      // Memory evicted for this run has to be moved as well.
      const SwapNeed need = SwapNeedOf(*layout_, place, true);
      if (need.out != 0)
        run.swap = std::max(TimeToSwap(*layout_, need.out + need.lacks), kBriefSwap);
    }
    ++present;
    most_important = std::min(most_important, scheduling::NicenessOf(run));
  }
  const auto run_of = [&](const SessionSlot& session) -> scheduling::SharingRun* {
    const std::uint32_t run = RunOf(*layout_, session);
    return run == scheduling::kNobody ? nullptr : &turns.runs[run];
  };
  for (const SessionSlot& session : sessions()) {
    scheduling::SharingRun* const run = run_of(session);
    if (run == nullptr) continue;
    // If a session starts after this load, it sees this decision's results.
    run->wants = session.wants.load() != 0 || run->wants;
    run->known = run->known && (session.wants.load() == 0 || session.known.load() != 0);
    // The run's own option applies until the bottleneck is measured.
    const std::uint32_t bottleneck = session.bottleneck.load(std::memory_order_relaxed);
    if (bottleneck != 0)
      run->bottleneck = scheduling::BottleneckOf(static_cast<std::uint8_t>(bottleneck));
    run->done += session.done.load(std::memory_order_relaxed);
    const std::uint64_t since = session.on_gpu_since.load();
    run->on_gpu = since != 0 || run->on_gpu;
    run->asked += session.asked.load(std::memory_order_relaxed);
    run->busy += session.busy.load(std::memory_order_relaxed);
    if (since != 0 && since < now) run->busy += now - since;
    run->done_by = std::max(run->done_by, session.done_by.load(std::memory_order_relaxed));
    run->idle_since = std::max(run->idle_since, session.idle_since.load(std::memory_order_relaxed));
  }
  const std::uint64_t next = scheduling::Decide(turns, now);
  const bool sooner = next < layout_->next_decision.exchange(next, std::memory_order_relaxed);
  layout_->waiting.store(turns.waiting, std::memory_order_relaxed);
  for (SessionSlot& session : sessions()) {
    if (session.taken == 0) continue;
    const scheduling::SharingRun* const run = run_of(session);
    const std::uint32_t open = run != nullptr && run->open ? 1 : 0;
    // A run is not more important than itself, so it is never preempted by itself.
    const bool limited = run != nullptr && run->limit < scheduling::kWhole;
    const bool preemptible = run != nullptr && most_important < scheduling::NicenessOf(*run) &&
                             !(turns.pairs && limited);
    session.preemptible.store(preemptible ? 1 : 0, std::memory_order_relaxed);
    const bool gated = run != nullptr && (present > 1 || (limited && !turns.pairs));
    session.gated.store(gated ? 1 : 0, std::memory_order_relaxed);
    const bool paired = turns.partner != scheduling::kNobody && open != 0;
    if (paired && session.paired.load(std::memory_order_relaxed) == 0)
      session.pairings.fetch_add(1, std::memory_order_relaxed);
    session.paired.store(paired ? 1 : 0, std::memory_order_relaxed);
    const bool changed = session.open.load(std::memory_order_relaxed) != open;
    if (changed) session.open.store(open);
    const bool opened = changed && open != 0;
    // If the run has just lost its time slice, others may need its memory. Its sessions must be
    // notified.
    const bool closed =
        changed && open == 0 && run != nullptr && layout_->swaps[run - turns.runs.data()] != 0;
    // Waiting sessions check the time themselves. A session no longer allowed to submit notices it
    // at its next submission.
    const bool waits = open == 0 && session.wants.load(std::memory_order_relaxed) != 0;
    if (&session != self && (opened || closed || (sooner && waits)))
      to_wake_ |= std::uint64_t{1} << (&session - layout_->sessions);
  }
  if (copy_ != nullptr) layout_->turns = *copy_;
}

}  // namespace cuspan::sharing
