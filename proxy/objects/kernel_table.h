// What is known of a GPU's kernels, kept between runs: how long they take, and what limits them.
//
// It is a file for each model of GPU, in a folder of the user's own (CUSPAN_KERNEL_TIMES); any
// number of processes use it at a time. Whoever writes reads what is there, adds what it has learnt
// itself, and puts the whole in the file's place; of the same kernel what is written last stays. No
// result depends on it: what is damaged is left out, and what cannot be read or written is told
// once, at the level of info.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "common/scheduling/pairs.h"
#include "common/status.h"
#include "common/unique_fd.h"
#include "proxy/objects/kernel_time.h"

namespace cuspan::proxy {

// Tells modules apart, by the length of the image and its first MiB: 0.2 ms at most.
std::uint64_t ModuleHash(std::span<const std::byte> image);

// A kernel of a module.
struct KernelKey {
  std::uint64_t module = 0;  // ModuleHash
  std::string name;

  friend auto operator<=>(const KernelKey&, const KernelKey&) = default;
};

struct KernelRecord {
  KernelTimeSums sums;  // Of no samples as long as none is known.
  scheduling::Limits limits = scheduling::Limits::kUnknown;

  friend bool operator==(const KernelRecord&, const KernelRecord&) = default;
};

// The records of a file, the one that was written last at the end.
class KernelRecords {
 public:
  // More kernels, and longer text, are not kept: the oldest go.
  static constexpr std::size_t kMaxKernels = 10'000;
  static constexpr std::size_t kMaxBytes = 4 << 20;
  // A kernel with a longer name is not kept.
  static constexpr std::size_t kMaxNameBytes = 4096;

  // Of any text: lines that are not sound are left out, and of what is no table nothing is taken.
  static KernelRecords Parse(std::string_view text);
  std::string Text() const;

  // Puts it at the end. Nothing of a kernel whose name cannot be kept.
  void Put(const KernelKey& key, const KernelRecord& record);
  const KernelRecord* Find(const KernelKey& key) const;
  std::size_t size() const { return records_.size(); }

 private:
  struct Placed {
    KernelRecord record;
    std::uint64_t place = 0;
  };
  std::map<KernelKey, Placed> records_;
  std::uint64_t last_place_ = 0;
};

// Of one session. Threads: one, the worker, which may wait for the file; any, of what says so.
class KernelTable {
 public:
  // From one write to the next, and until the first: a run's end leaves no time for the last one.
  static constexpr std::chrono::seconds kBetweenWrites{10}, kBeforeFirst{1};

  // In the folder of the settings, for GPUs of that name; null if they say off, or, told, if the
  // folder cannot be used.
  static std::unique_ptr<KernelTable> BySettings(std::string_view gpu);
  // In `folder`, which is made if it is not there.
  static Result<std::unique_ptr<KernelTable>> Open(const std::string& folder, std::string_view gpu);

  // The one of that kernel, with what earlier runs have learnt of it; the same for each call.
  std::shared_ptr<KernelTime> TimeOf(const KernelKey& key);
  // What limits it, if that was found out.
  scheduling::Limits LimitsOf(const KernelKey& key);
  void SetLimits(const KernelKey& key, scheduling::Limits limits);

  // Of all kernels of this session. Threads: any.
  PredictionErrors Errors() const;

  // Whether it is time for Write. Cheap. Threads: any.
  bool WantsWrite(std::chrono::steady_clock::time_point now) const {
    return now - written_at_.load(std::memory_order_relaxed) >= kBetweenWrites;
  }
  // Writes what was learnt since the last one, if there is something. While another process writes
  // nothing is done.
  void Write(std::chrono::steady_clock::time_point now);
  // The same at the end of the session, when other processes are waited for, for a second at most.
  void WriteLast();

 private:
  struct Known {
    std::shared_ptr<KernelTime> time;
    scheduling::Limits limits = scheduling::Limits::kUnknown;
    KernelRecord written;  // As read or written last.
  };

  using News = std::vector<std::pair<KernelKey, KernelRecord>>;

  KernelTable(UniqueFd folder, std::string path, std::string file)
      : folder_(std::move(folder)), path_(std::move(path)), file_(std::move(file)) {}

  Known* Get(const KernelKey& key);
  News FindUpdates() const;
  Result<std::string> Read() const;
  Result<UniqueFd> LockNew(bool wait) const;
  Status Replace(const UniqueFd& file, News* news) const;
  Status WriteUpdates(bool wait);
  void Tell(const Status& status);

  const UniqueFd folder_;
  const std::string path_;  // Of the file, for messages.
  const std::string file_;  // Its name in the folder.
  bool told_ = false;
  std::optional<KernelRecords> kept_;  // As they were at the first call.
  std::atomic<std::chrono::steady_clock::time_point> written_at_{std::chrono::steady_clock::now() -
                                                                 kBetweenWrites + kBeforeFirst};

  mutable Mutex mutex_;
  // Changed by the worker alone.
  std::map<KernelKey, Known> known_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan::proxy
