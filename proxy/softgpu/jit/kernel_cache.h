// Compiled kernels on disk: small files in a private folder, each named by its key. Several
// processes may use one folder at once. Damaged files, and files possibly of another user, are
// ignored. The cache does not interpret the contents.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "common/status.h"
#include "common/unique_fd.h"

namespace cuspan::softgpu {

struct CacheKey {
  std::uint64_t low = 0, high = 0;
  friend bool operator==(const CacheKey&, const CacheKey&) = default;
};

// Threads: any.
class KernelCache {
 public:
  // Returns the process's only cache, according to the settings. Returns null if it is off, or if
  // the folder cannot be used (logged).
  static KernelCache* OfProcess();

  // Opens `folder`, an absolute path, and creates it if needed. Fails if it is not a private folder
  // of this user. Keeps at most about `most_bytes`.
  static Result<std::unique_ptr<KernelCache>> Open(const std::string& folder,
                                                   std::uint64_t most_bytes);

  // Returns the content stored under `key`; nullopt if it is missing or damaged.
  std::optional<std::string> Load(const CacheKey& key);
  // Stores `content` atomically. The first failure is logged. After a failure, each process
  // compiles kernels anew. If the folder has become too large, removes the least recently used
  // files.
  void Store(const CacheKey& key, std::string_view content);
  // Number of successful loads.
  std::uint64_t hits() const { return hits_.load(std::memory_order_relaxed); }

 private:
  KernelCache(std::string path, UniqueFd folder, std::uint64_t most_bytes)
      : path_(std::move(path)), folder_(std::move(folder)), most_bytes_(most_bytes) {}

  Status Write(const std::string& name, const CacheKey& key, std::string_view content);
  void Trim();

  const std::string path_;
  const UniqueFd folder_;
  const std::uint64_t most_bytes_;
  std::atomic<std::uint64_t> next_temporary_{0};
  std::atomic<std::uint64_t> hits_{0};
  std::atomic<bool> failure_reported_{false};
  std::mutex trim_mutex_;
  std::uint64_t until_trim_ = 0;  // Bytes to be stored before the next trim.
};

}  // namespace cuspan::softgpu
