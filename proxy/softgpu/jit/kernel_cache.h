// Compiled kernels on disk: small files in a private folder, each named by its
// key. Several processes may use one folder at once; what is damaged, or might
// be another user's, is not used. Nothing here knows what the files mean.
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

// Any thread calls.
class KernelCache {
 public:
  // The one that the settings name; null when they say off, or, logged, when the
  // folder can not be used. The same for each call.
  static KernelCache* OfProcess();

  // Uses `folder`, an absolute path, which is made if it is not there. Fails when it
  // is not a folder of this user alone. Holds at most about `most_bytes`.
  static Result<std::unique_ptr<KernelCache>> Open(const std::string& folder,
                                                   std::uint64_t most_bytes);

  // What was stored under `key`; nullopt when there is nothing, or nothing sound.
  std::optional<std::string> Load(const CacheKey& key);
  // Stores `content`, whole or not at all. The first failure is logged: kernels are compiled anew
  // by each process then, and nothing else happens.
  // When the folder has become too large, what was used least lately goes.
  void Store(const CacheKey& key, std::string_view content);
  // How often Load found something.
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
  std::atomic<bool> failure_told_{false};
  std::mutex trim_mutex_;
  std::uint64_t until_trim_ = 0;  // Bytes that may be stored before the folder is looked at.
};

}  // namespace cuspan::softgpu
