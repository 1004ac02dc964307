#include "proxy/softgpu/jit/kernel_cache.h"

#define XXH_INLINE_ALL
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <vector>

#include "common/cache_folder.h"
#include "common/log.h"
#include "common/private_file.h"
#include "common/settings.h"

namespace cuspan::softgpu {
namespace {

// A file consists of this header and the content. Only this machine reads it, so it has native byte
// order.
struct Header {
  char magic[8];
  CacheKey key;
  std::uint64_t bytes;
  XXH128_hash_t checksum;  // Checksum of the content, seeded with `bytes`.
};
constexpr char kMagic[8] = {'c', 'u', 's', 'p', 'a', 'n', 'K', '1'};
constexpr std::string_view kSuffix = ".kernel";
constexpr std::string_view kTemporaryPrefix = "new-";

// Upper limit of a kernel's code. Larger files are not ours.
constexpr std::uint64_t kMaxContentBytes = std::uint64_t{1} << 30;
// Minimum interval between updates of a used file's modification time.
constexpr std::time_t kMarkSeconds = 3600;
// Age from which temporary files are leftovers of dead processes.
constexpr std::time_t kTemporarySeconds = 3600;

XXH128_hash_t Checksum(std::string_view content) {
  return XXH3_128bits_withSeed(content.data(), content.size(), content.size());
}

std::string FileName(const CacheKey& key) {
  return Format("{:016x}{:016x}{}", key.high, key.low, kSuffix);
}

KernelCache* OpenBySettings() {
  const std::string folder = CacheFolder(settings::kSoftCache);
  if (folder.empty()) return nullptr;
  const Result<std::uint64_t> bytes =
      SettingBytes(settings::kSoftCacheBytes, std::uint64_t{1} << 20, std::uint64_t{1} << 40);
  Result<std::unique_ptr<KernelCache>> cache =
      bytes.ok() ? KernelCache::Open(folder, *bytes) : bytes.status();
  if (cache.ok()) return cache->release();
  // A home directory without write access is common, so this is not a warning. A folder set
  // explicitly must be writable.
  const bool asked_for = std::getenv(settings::kSoftCache.name) != nullptr || !bytes.ok();
  const std::string message =
      Format("software GPU: compiled kernels are not kept: {}", cache.status().message());
  if (asked_for) {
    LogWarn("{}", message);
  } else {
    LogInfo("{}", message);
  }
  return nullptr;
}

}  // namespace

KernelCache* KernelCache::OfProcess() {
  static KernelCache* const cache = OpenBySettings();  // Never destroyed: threads may still use it.
  return cache;
}

Result<std::unique_ptr<KernelCache>> KernelCache::Open(const std::string& folder,
                                                       std::uint64_t most_bytes) {
  CUSPAN_ASSIGN_OR_RETURN(UniqueFd file, OpenCacheFolder(folder, settings::kSoftCache));
  return std::unique_ptr<KernelCache>(new KernelCache(folder, std::move(file), most_bytes));
}

std::optional<std::string> KernelCache::Load(const CacheKey& key) {
  const std::string name = FileName(key);
  const auto file = OpenPrivateFile(folder_.get(), name, sizeof(Header) + kMaxContentBytes);
  Header header{};
  if (!file || !ReadAll(file->file.get(), &header, sizeof header) ||
      std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.key != key ||
      header.bytes > kMaxContentBytes || file->bytes != sizeof header + header.bytes) {
    return std::nullopt;
  }
  std::string content(header.bytes, '\0');
  if (!ReadAll(file->file.get(), content.data(), content.size())) return std::nullopt;
  const XXH128_hash_t checksum = Checksum(content);
  if (!XXH128_isEqual(checksum, header.checksum)) return std::nullopt;
  if (std::time(nullptr) - file->modified > kMarkSeconds) ::futimens(file->file.get(), nullptr);
  hits_.fetch_add(1, std::memory_order_relaxed);
  return content;
}

void KernelCache::Store(const CacheKey& key, std::string_view content) {
  const std::string name = FileName(key);
  if (const Status status = Write(name, key, content); !status.ok()) {
    if (!failure_reported_.exchange(true)) {
      LogWarn("software GPU: {}; free some space, or set {} to another directory", status.message(),
              settings::kSoftCache.name);
    }
    return;
  }
  std::lock_guard lock(trim_mutex_);
  if (content.size() < until_trim_) {
    until_trim_ -= content.size();
    return;
  }
  Trim();
  until_trim_ = most_bytes_ / 16;
}

Status KernelCache::Write(const std::string& name, const CacheKey& key, std::string_view content) {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.key = key;
  header.bytes = content.size();
  header.checksum = Checksum(content);
  const std::string temporary =
      Format("{}{}-{}", kTemporaryPrefix, ::getpid(), next_temporary_.fetch_add(1));
  Status written = ReplaceFile(folder_.get(), temporary, name,
                               {{reinterpret_cast<const char*>(&header), sizeof header}, content});
  if (written.ok()) return written;
  return Status::Unavailable("cannot store compiled kernels in {}: {}", path_, written.message());
}

// Other processes may trim at the same time, so missing files are ignored.
void KernelCache::Trim() {
  const int copy = ::openat(folder_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const folder = copy < 0 ? nullptr : ::fdopendir(copy);
  if (folder == nullptr) {
    if (copy >= 0) ::close(copy);
    return;
  }
  struct File {
    std::time_t used;
    std::uint64_t bytes;
    std::string name;
  };
  std::vector<File> files;
  std::uint64_t total = 0;
  const std::time_t now = std::time(nullptr);
  while (const dirent* entry = ::readdir(folder)) {
    const std::string_view name = entry->d_name;
    const bool temporary = name.starts_with(kTemporaryPrefix);
    if (!temporary && !name.ends_with(kSuffix)) continue;
    struct stat status {};
    if (::fstatat(folder_.get(), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (temporary) {
      if (now - status.st_mtim.tv_sec > kTemporarySeconds)
        ::unlinkat(folder_.get(), entry->d_name, 0);
      continue;
    }
    const auto bytes = static_cast<std::uint64_t>(status.st_size);
    files.push_back({status.st_mtim.tv_sec, bytes, std::string(name)});
    total += bytes;
  }
  ::closedir(folder);
  if (total <= most_bytes_) return;
  std::sort(files.begin(), files.end(),
            [](const File& a, const File& b) { return a.used < b.used; });
  // Removes slightly more than needed, to save trimming at the next store.
  const std::uint64_t wanted = most_bytes_ - most_bytes_ / 8;
  for (const File& file : files) {
    if (total <= wanted) break;
    ::unlinkat(folder_.get(), file.name.c_str(), 0);
    total -= file.bytes;
  }
}

}  // namespace cuspan::softgpu
