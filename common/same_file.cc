#include "common/same_file.h"

#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

// No library: the client has none but that of C.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace cuspan {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr unsigned kChosenPages = 64;
constexpr std::uint64_t kWholePages = 256;  // Files up to this size are summed as a whole.
// Longer than any granularity of a file system's times.
constexpr std::chrono::seconds kSettled{1};

std::chrono::nanoseconds TimeOf(const timespec& time) {
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

std::optional<FileState> FileState::Of(int fd) {
  struct stat facts {};
  // Nanoseconds in 64 bits end in 2262.
  constexpr std::int64_t kLastSecond = 9'000'000'000;
  if (::fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_nlink == 0 ||
      std::abs(facts.st_mtim.tv_sec) > kLastSecond || std::abs(facts.st_ctim.tv_sec) > kLastSecond)
    return std::nullopt;
  return FileState{static_cast<std::uint64_t>(facts.st_size), TimeOf(facts.st_mtim),
                   TimeOf(facts.st_ctim)};
}

bool FileState::settled() const {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return TimeOf(now) - changed >= kSettled;
}

std::optional<std::uint64_t> SumOfPages(const FileBytes& file, std::uint64_t bytes,
                                        std::uint64_t seed) {
  if (bytes == 0) return std::nullopt;
  const std::uint64_t count = (bytes + kPageBytes - 1) / kPageBytes;
  std::vector<std::byte> pages;
  if (count <= kWholePages) {
    pages.resize(bytes);
    if (file.Read(pages, 0).bytes != bytes) return std::nullopt;
    return XXH3_64bits(pages.data(), pages.size());
  }
  std::vector<std::uint64_t> offsets = {0, bytes - kPageBytes};
  for (unsigned i = 0; i < kChosenPages; ++i)
    offsets.push_back(XXH3_64bits_withSeed(&i, sizeof i, seed) % count * kPageBytes);
  pages.resize(offsets.size() * kPageBytes);
  std::size_t filled = 0;
  for (const std::uint64_t offset : offsets) {
    const std::uint64_t wanted = std::min(kPageBytes, bytes - offset);
    if (file.Read({pages.data() + filled, wanted}, offset).bytes != wanted) return std::nullopt;
    filled += wanted;
  }
  return XXH3_64bits(pages.data(), filled);
}

}  // namespace cuspan
