// Ways to open a file by name, as in ops and in include/cuspan/file.h.
#pragma once

#include <fcntl.h>

#include <cstdint>
#include <optional>

namespace cuspan {

// Bits.
enum class FileAccess : std::uint32_t {
  kRead = 1,
  kWrite = 2,
  kCreate = 4,    // If there is none.
  kTruncate = 8,  // Empties it.
  kDirect = 16,   // Without the page cache.
};

constexpr bool Has(std::uint32_t access, FileAccess bit) {
  return (access & static_cast<std::uint32_t>(bit)) != 0;
}

// Flags of open(2). Nothing for unknown bits, and for files neither read nor written, or created or
// emptied without being written.
inline std::optional<int> OpenFlagsOf(std::uint32_t access) {
  const bool reads = Has(access, FileAccess::kRead);
  const bool writes = Has(access, FileAccess::kWrite);
  const bool changes = Has(access, FileAccess::kCreate) || Has(access, FileAccess::kTruncate);
  if (access > 31 || (!reads && !writes) || (changes && !writes)) return std::nullopt;
  int flags = !writes ? O_RDONLY : reads ? O_RDWR : O_WRONLY;
  if (Has(access, FileAccess::kCreate)) flags |= O_CREAT;
  if (Has(access, FileAccess::kTruncate)) flags |= O_TRUNC;
  if (Has(access, FileAccess::kDirect)) flags |= O_DIRECT;
  return flags;
}

}  // namespace cuspan
