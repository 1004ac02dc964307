#include "store/engine/line_server.h"

#include <immintrin.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <string_view>
#include <utility>

#include "common/cores.h"
#include "common/log.h"
#include "common/settings.h"
#include "common/start_thread.h"

namespace cuspan::store {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// A thread without requests spins, then pauses for kPause again and again, then sleeps.
constexpr std::chrono::nanoseconds kSpin = 50us;
constexpr std::chrono::nanoseconds kPause = 20us;
constexpr std::chrono::nanoseconds kAwake = 2ms;
// The first thread's naps: this part of the silence before, at least kShortestNap.
constexpr int kNapsInSilence = 16;
constexpr std::chrono::nanoseconds kShortestNap = 50us;
// A nap that KernelsMayAsk ends.
constexpr std::chrono::nanoseconds kLongNap = 500us;

// Requests of a queue in one pass: others have their turn.
constexpr int kAtOnce = 16;

// Queues of a thread whose words are fetched ahead.
constexpr std::uint32_t kAhead = 2;

// Reads at a time without io_uring. A thread waits for each.
constexpr unsigned kReaders = 32;

}  // namespace

unsigned ServingThreadCount() {
  constexpr int kMost = 8;
  constexpr std::uint64_t kLimit = 64;
  const auto automatic = static_cast<unsigned>(std::clamp(AvailableCores() / 2, 1, kMost));
  if (std::string_view(SettingText(settings::kStoreThreads)) == "auto") return automatic;
  const Result<std::uint64_t> wanted = SettingNumber(settings::kStoreThreads, 1, kLimit);
  if (wanted.ok()) return static_cast<unsigned>(*wanted);
  LogWarn("{}: {} threads serve kernels", wanted.status().message(), automatic);
  return automatic;
}

LineServer::LineServer(unsigned threads, std::chrono::microseconds longest_nap)
    : count_(threads), longest_nap_(longest_nap), readers_(kReaders) {}

LineServer::~LineServer() {
  std::vector<std::thread> threads;
  {
    const MutexLock lock(mutex_);
    ending_ = true;
    threads.swap(threads_);
  }
  changed_.notify_all();
  nap_ended_.notify_all();
  for (std::thread& thread : threads) thread.join();
  readers_.End();
}

Status LineServer::Start() {
  // Fewer threads than wanted have more queues each. Their number is known before they see a table.
  while (threads_.size() < count_) {
    const auto index = static_cast<unsigned>(threads_.size());
    Result<std::thread> thread = StartThread("cuspan-serve", [this, index] { Loop(index); });
    if (!thread.ok() && threads_.empty()) return thread.status();
    if (!thread.ok()) break;
    threads_.push_back(std::move(*thread));
    versions_.push_back(0);
  }
  running_ = static_cast<unsigned>(threads_.size());
  return Status::Ok();
}

Status LineServer::Add(Mailbox& mailbox, std::uint16_t array, ServedFile& file) {
  if (array >= CUSPAN_ASK_ARRAYS) return Status::Invalid("{} is no number of an array", array);
  MutexLock lock(mutex_);
  if (threads_.empty()) CUSPAN_RETURN_IF_ERROR(Start());
  auto served = std::find_if(table_.begin(), table_.end(),
                             [&](const Served& entry) { return entry.mailbox == &mailbox; });
  if (served != table_.end() && array < served->files.size() && served->files[array] != nullptr)
    return Status::Invalid("array {} is served already", array);
  CUSPAN_RETURN_IF_ERROR(extents_.Add(file.extents()));
  if (served == table_.end()) served = table_.insert(table_.end(), {&mailbox, {}});
  if (served->files.size() <= array) served->files.resize(std::size_t{array} + 1);
  served->files[array] = &file;
  serves_ = true;
  Publish(lock);
  return Status::Ok();
}

void LineServer::Remove(Mailbox& mailbox, std::uint16_t array) {
  MutexLock lock(mutex_);
  const auto served = std::find_if(table_.begin(), table_.end(),
                                   [&](const Served& entry) { return entry.mailbox == &mailbox; });
  if (served == table_.end() || array >= served->files.size() || served->files[array] == nullptr)
    return;
  ServedFile& file = *std::exchange(served->files[array], nullptr);
  if (std::all_of(served->files.begin(), served->files.end(),
                  [](const ServedFile* other) { return other == nullptr; }))
    table_.erase(served);
  serves_ = !table_.empty();
  Publish(lock);
  // Locking an extent reads a file: the others are served meanwhile.
  lock.unlock();
  extents_.Remove(file.extents());
}

void LineServer::Publish(MutexLock& lock) {
  const std::uint64_t version = version_.fetch_add(1) + 1;
  changed_.notify_all();
  nap_ended_.notify_all();
  // Ends: threads look for a new table after each pass over their queues, and wait for reads of
  // removed files only.
  seen_.wait(lock, [&]() CUSPAN_REQUIRES(mutex_) {
    return std::all_of(versions_.begin(), versions_.end(),
                       [&](std::uint64_t seen) { return seen >= version; });
  });
}

std::uint64_t LineServer::TakeTable(unsigned index, LineReads& reads, Table* table) {
  std::uint64_t version = 0;
  {
    const MutexLock lock(mutex_);
    *table = table_;
    version = version_;
  }
  reads.SetFiles(FilesIn(*table));
  const MutexLock lock(mutex_);
  versions_[index] = version;
  seen_.notify_all();
  return version;
}

std::vector<ServedFile*> LineServer::FilesIn(const Table& table) {
  std::vector<ServedFile*> files;
  for (const Served& served : table)
    std::copy_if(served.files.begin(), served.files.end(), std::back_inserter(files),
                 [](const ServedFile* file) { return file != nullptr; });
  return files;
}

std::unique_ptr<LineReads> LineServer::MakeReads() {
  const ExtentWanted wanted = [this] { extents_.Want(); };
  const std::string_view way = SettingText(settings::kFileIo);
  if (way != "auto" && way != "uring" && way != "pread")
    LogWarn("{}={} is not auto, uring or pread: auto is taken", settings::kFileIo.name, way);
  if (way != "pread") {
    Result<std::unique_ptr<LineReads>> ring = MakeRingReads(wanted);
    if (ring.ok()) return std::move(*ring);
    if (way == "uring")
      LogWarn("{}: files are read by threads", ring.status().message());
    else
      LogInfo("files are read by threads: {}", ring.status().message());
  }
  const MutexLock lock(mutex_);
  if (const Status started = readers_.Start(); !started.ok())
    LogWarn("lines of files are read one after the other: {}", started.message());
  return MakeThreadReads(readers_, wanted);
}

void LineServer::Loop(unsigned index) {
  // Pauses as short as wanted. The default adds 50 us.
  ::prctl(PR_SET_TIMERSLACK, 1000);
  const std::unique_ptr<LineReads> reads = MakeReads();
  Table table;
  std::uint64_t version = 0;
  Clock::time_point last = Clock::now();
  for (unsigned pass = 0; !ending_; ++pass) {
    const std::uint64_t woken = woken_;
    if (version_ != version) {
      version = TakeTable(index, *reads, &table);
      last = Clock::now();
    }
    const bool asked = ServeQueues(index, table, *reads);
    const bool finished = reads->Finish();
    if (index == 0 && sleepers_ != 0 && (!asked || pass % 8 == 0) && OthersAreAsked(table))
      WakeOthers();
    const Clock::time_point now = Clock::now();
    if (asked || finished) {
      last = now;
      continue;
    }
    const auto silence = now - last;
    if (silence < kSpin) {
      _mm_pause();
    } else if (silence < kAwake || reads->pending()) {
      std::this_thread::sleep_for(kPause);
    } else if (index != 0) {
      Sleep(version, woken);
      last = Clock::now();
    } else if (called_.exchange(false)) {
      last = now;
    } else {
      Nap(std::min<std::chrono::nanoseconds>(
              std::max<std::chrono::nanoseconds>(silence / kNapsInSilence, kShortestNap),
              longest_nap_),
          version);
    }
  }
}

bool LineServer::ServeQueues(unsigned index, const Table& table, LineReads& reads) {
  bool asked = false;
  const std::uint32_t step = running_;
  for (const Served& served : table) {
    const std::uint32_t queues = served.mailbox->shape().queues;
    for (std::uint32_t queue = index; queue < queues; queue += step) {
      if (queue + kAhead * step < queues) served.mailbox->Prefetch(queue + kAhead * step);
      for (int i = 0; i < kAtOnce; ++i) {
        const std::optional<Mailbox::Request> request = served.mailbox->Next(queue);
        if (!request) break;
        asked = true;
        Serve(served, *request, reads);
      }
    }
  }
  return asked;
}

void LineServer::Serve(const Served& served, const Mailbox::Request& request, LineReads& reads) {
  Mailbox& mailbox = *served.mailbox;
  ServedFile* const file =
      request.asked.array < served.files.size() ? served.files[request.asked.array] : nullptr;
  const std::uint64_t offset = request.asked.line << mailbox.shape().line_shift;
  // Kernels may write anything.
  if (file == nullptr || request.asked.kind != CUSPAN_ASK_READ || offset >= file->bytes())
    return mailbox.Answer(request, CUSPAN_ANSWER_FAILED, EINVAL);
  if (const std::uint64_t address = file->extents().AddressOf(offset >> CUSPAN_EXTENT_SHIFT);
      address != 0 && file->MayRead())
    return mailbox.Answer(request, CUSPAN_ANSWER_RESIDENT, address >> 12);
  const auto bytes =
      static_cast<std::uint32_t>(std::min(mailbox.shape().line(), file->bytes() - offset));
  reads.Begin({&mailbox, file, request, offset, bytes});
}

bool LineServer::OthersAreAsked(const Table& table) const {
  for (const Served& served : table)
    for (std::uint32_t queue = 0; queue < served.mailbox->shape().queues; ++queue)
      if (!Owns(0, queue) && served.mailbox->HasNext(queue)) return true;
  return false;
}

void LineServer::WakeOthers() {
  {
    const MutexLock lock(mutex_);
    ++woken_;
  }
  changed_.notify_all();
}

void LineServer::Sleep(std::uint64_t version, std::uint64_t woken) {
  MutexLock lock(mutex_);
  ++sleepers_;
  // Idle: ends with a request found by the first thread, or with the server.
  changed_.wait(lock, [&] { return ending_ || version_ != version || woken_ != woken; });
  --sleepers_;
}

void LineServer::Nap(std::chrono::nanoseconds time, std::uint64_t version) {
  if (time < kLongNap) {
    std::this_thread::sleep_for(time);
    return;
  }
  MutexLock lock(mutex_);
  naps_ = true;
  nap_ended_.wait_for(lock, time, [&] { return ending_ || version_ != version || called_; });
  naps_ = false;
}

void LineServer::EndNap() {
  // Behind the nap's last look at called_.
  { const MutexLock lock(mutex_); }
  nap_ended_.notify_all();
}

}  // namespace cuspan::store
