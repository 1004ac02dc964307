// Times and limiting resources of a GPU's kernels, stored between runs.
//
// There is one file for each model of GPU, in a private folder of the user (CUSPAN_KERNEL_TIMES).
// Any number of processes may use it. To write, a process reads the file, adds its own results and
// replaces the file. For each kernel, the last record remains. No result depends on the file:
// damaged lines are skipped, and errors are logged once, at the info level.
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

// Hash identifying a module: of the image's length and first MiB. Takes 0.2 ms at most.
std::uint64_t ModuleHash(std::span<const std::byte> image);

// A kernel of a module.
struct KernelKey {
  std::uint64_t module = 0;  // See ModuleHash.
  std::string name;

  friend auto operator<=>(const KernelKey&, const KernelKey&) = default;
};

struct KernelRecord {
  KernelTimeSums sums;  // Without samples while unknown.
  scheduling::Bottleneck bottleneck = scheduling::Bottleneck::kUnknown;

  friend bool operator==(const KernelRecord&, const KernelRecord&) = default;
};

// Records of a file, ordered by time of writing.
class KernelRecords {
 public:
  // Limits of the file; the oldest records are removed.
  static constexpr std::size_t kMaxKernels = 10'000;
  static constexpr std::size_t kMaxBytes = 4 << 20;
  // Kernels with longer names are not stored.
  static constexpr std::size_t kMaxNameBytes = 4096;

  // Parses any text: skips invalid lines. Returns no records if the text is not a table.
  static KernelRecords Parse(std::string_view text);
  std::string Text() const;

  // Adds a record at the end, unless the name is not allowed.
  void Put(const KernelKey& key, const KernelRecord& record);
  const KernelRecord* Find(const KernelKey& key) const;
  std::size_t size() const { return records_.size(); }

 private:
  struct Placed {
    KernelRecord record;
    std::uint64_t position = 0;
  };
  std::map<KernelKey, Placed> records_;
  std::uint64_t last_position_ = 0;
};

// Table of one session. Threads: the worker, since it may wait for the file, unless noted
// otherwise.
class KernelTable {
 public:
  // Interval of writes, and time before the first one: at the end of a run there may be no time to
  // write.
  static constexpr std::chrono::seconds kBetweenWrites{10}, kBeforeFirst{1};

  // Opens the table for the model `gpu` in the configured folder. Null if disabled, or if the
  // folder cannot be used; the latter is logged.
  static std::unique_ptr<KernelTable> BySettings(std::string_view gpu);
  // Opens it in `folder`; creates the folder if missing.
  static Result<std::unique_ptr<KernelTable>> Open(const std::string& folder, std::string_view gpu);

  // Returns the time of a kernel, with results of earlier runs; always the same object.
  std::shared_ptr<KernelTime> TimeOf(const KernelKey& key);
  // Returns its limiting resource, or kUnknown.
  scheduling::Bottleneck BottleneckOf(const KernelKey& key);
  void SetBottleneck(const KernelKey& key, scheduling::Bottleneck bottleneck);

  // Errors of all kernels of this session. Threads: any.
  PredictionErrors Errors() const;

  // True if Write is due. Cheap. Threads: any.
  bool WantsWrite(std::chrono::steady_clock::time_point now) const {
    return now - written_at_.load(std::memory_order_relaxed) >= kBetweenWrites;
  }
  // Writes new results, if any. Does nothing while another process writes.
  void Write(std::chrono::steady_clock::time_point now);
  // The same at the end of the session; waits for other writers, for a second at most.
  void WriteLast();

 private:
  struct Known {
    std::shared_ptr<KernelTime> time;
    scheduling::Bottleneck bottleneck = scheduling::Bottleneck::kUnknown;
    KernelRecord written;  // Last read or written value.
  };

  using Updates = std::vector<std::pair<KernelKey, KernelRecord>>;

  KernelTable(UniqueFd folder, std::string path, std::string file)
      : folder_(std::move(folder)), path_(std::move(path)), file_(std::move(file)) {}

  Known* Get(const KernelKey& key);
  Updates FindUpdates() const;
  Result<std::string> Read() const;
  Result<UniqueFd> LockNew(bool wait) const;
  Status Replace(const UniqueFd& file, Updates* updates) const;
  Status WriteUpdates(bool wait);
  void Report(const Status& status);

  const UniqueFd folder_;
  const std::string path_;  // File's path, for messages.
  const std::string file_;  // File's name in the folder.
  bool reported_ = false;
  std::optional<KernelRecords> kept_;  // Content at the first call.
  std::atomic<std::chrono::steady_clock::time_point> written_at_{std::chrono::steady_clock::now() -
                                                                 kBetweenWrites + kBeforeFirst};

  mutable Mutex mutex_;
  // Modified by the worker only.
  std::map<KernelKey, Known> known_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan::proxy
