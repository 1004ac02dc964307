#include "interpose/client/python_waits.h"

#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "common/settings.h"
#include "interpose/client/base/background_thread.h"
#include "interpose/client/base/thread_state.h"
#include "interpose/client/python.h"

namespace cuspan {
namespace {

using std::chrono::nanoseconds;
using std::chrono::steady_clock;

constexpr nanoseconds kPollInterval{1'000'000};
// Maximum time of a sample: a check may be delayed by Python's lock.
constexpr nanoseconds kMaxOfSample{20'000'000};
// Minimum wait worth asking for, by a thread keeping Python's lock.
constexpr nanoseconds kWorthAsking{20'000};

}  // namespace

PythonWaits* PythonWaits::Start() {
  if (SettingText(settings::kStats) != std::string_view("on")) return nullptr;
  const Python* const python = Python::Find();
  if (python == nullptr) return nullptr;
  auto* const waits = new PythonWaits(python);  // Used by its thread until the process ends.
  if (StartPlainThread("cuspan-python", Run, waits)) return waits;
  delete waits;
  return nullptr;
}

// Owns nothing with a destructor: see Python::AcquireLock.
void* PythonWaits::Run(void* self) {
  auto* const waits = static_cast<PythonWaits*>(self);
  const timespec pause{0, kPollInterval.count()};
  const Python& python = waits->python_;
  for (;;) {
    ::nanosleep(&pause, nullptr);
    if (!waits->Sample()) continue;
    if (!python.StartAsking()) return nullptr;
    const int lock = python.AcquireLock();
    waits->Note();
    python.ReturnLock(lock);
    python.StopAsking();
  }
}

bool PythonWaits::Sample() {
  const steady_clock::time_point now = steady_clock::now();
  since_ = std::min<nanoseconds>(now - last_sample_, kMaxOfSample);
  last_sample_ = now;
  waiting_.clear();
  const MutexLock lock(mutex_);
  std::erase_if(waiters_, [](const auto& waiter) { return waiter.expired(); });
  for (const auto& weak : waiters_) {
    const std::shared_ptr<PythonWaiter> waiter = weak.lock();
    if (waiter == nullptr) continue;
    const MutexLock of_waiter(waiter->mutex);
    if (waiter->statistics != nullptr) waiting_.push_back({waiter, waiter->waits});
  }
  return !waiting_.empty();
}

void PythonWaits::Note() {
  std::set<std::uint64_t> threads;
  for (const Waiting& one : waiting_) threads.insert(one.waiter->thread);
  const std::map<std::uint64_t, std::string> locations = python_.LocationsOf(threads);
  // If a thread has returned meanwhile, its line is unknown.
  for (const Waiting& one : waiting_) {
    const auto location = locations.find(one.waiter->thread);
    if (location == locations.end()) continue;
    const MutexLock lock(one.waiter->mutex);
    if (one.waiter->statistics != nullptr && one.waiter->waits == one.waits)
      Add(*one.waiter->statistics, location->second, since_);
  }
}

std::shared_ptr<PythonWaiter> PythonWaits::WaiterOfThisThread() {
  std::shared_ptr<PythonWaiter>& waiter = ThisThread().python_waiter;
  if (waiter == nullptr || waiter->owner != this) {
    waiter = std::make_shared<PythonWaiter>(this, static_cast<std::uint64_t>(::pthread_self()));
    const MutexLock lock(mutex_);
    waiters_.push_back(waiter);
  }
  return waiter;
}

bool PythonWaits::Begin(ChannelStatistics& statistics) {
  const std::shared_ptr<PythonWaiter> waiter = WaiterOfThisThread();
  const MutexLock lock(waiter->mutex);
  if (waiter->statistics != nullptr) return false;
  waiter->statistics = &statistics;
  ++waiter->waits;
  waiter->start = steady_clock::now();
  return true;
}

void PythonWaits::End() {
  const std::shared_ptr<PythonWaiter> waiter = WaiterOfThisThread();
  ChannelStatistics* statistics = nullptr;
  steady_clock::time_point start;
  {
    const MutexLock lock(waiter->mutex);
    std::swap(statistics, waiter->statistics);
    start = waiter->start;
  }
  const nanoseconds waited = steady_clock::now() - start;
  if (waited >= kWorthAsking && python_.ThisThreadHoldsLock())
    Add(*statistics, python_.LocationHere(), waited);
}

// Other processes may write to the table: lengths are not trusted.
void PythonWaits::Add(ChannelStatistics& statistics, std::string_view location,
                      nanoseconds waited) {
  if (location.empty()) return;
  const auto added = static_cast<std::uint64_t>(waited.count());
  const MutexLock lock(adding_);
  const std::span<WaitLocation> locations = statistics.wait_places;
  const std::span<WaitLocation> lines = locations.first(locations.size() - 1);
  const auto set = [](WaitLocation& entry, std::string_view text, std::uint64_t time) {
    entry.text_bytes.store(0, std::memory_order_release);
    text.copy(entry.text, text.size());
    entry.nanoseconds.store(time, std::memory_order_relaxed);
    entry.text_bytes.store(static_cast<std::uint32_t>(text.size()), std::memory_order_release);
  };
  const auto text_of = [](const WaitLocation& entry) {
    return std::string_view(entry.text,
                            std::min<std::size_t>(entry.text_bytes.load(), sizeof entry.text));
  };
  location = location.substr(0, sizeof WaitLocation::text);
  for (WaitLocation& entry : lines) {
    const std::string_view text = text_of(entry);
    if (text.empty()) return set(entry, location, added);
    if (text != location) continue;
    entry.nanoseconds.fetch_add(added, std::memory_order_relaxed);
    return;
  }
  // Replaces the line with the least waiting time: relevant lines recur.
  WaitLocation& least = *std::min_element(
      lines.begin(), lines.end(),
      [](const WaitLocation& a, const WaitLocation& b) { return a.nanoseconds < b.nanoseconds; });
  set(locations.back(), "other lines", locations.back().nanoseconds + least.nanoseconds);
  set(least, location, added);
}

}  // namespace cuspan
