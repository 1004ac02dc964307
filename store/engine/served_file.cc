#include "store/engine/served_file.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "common/regular_file.h"

namespace cuspan::store {
namespace {

// Drives read parts of 512 bytes or 4 KiB. Smaller ones than these come from the page cache.
constexpr std::uint64_t kMinDirect = 4096;

UniqueFd Again(const FileBytes& file) { return UniqueFd(::fcntl(file.fd(), F_DUPFD_CLOEXEC, 0)); }

}  // namespace

Result<std::unique_ptr<ServedFile>> ServedFile::Open(const FileBytes& file, std::uint64_t bytes,
                                                     std::uint64_t line,
                                                     std::function<bool()> may_read,
                                                     const ExtentTerms& terms) {
  const UniqueFd own = Again(file);
  if (!own.valid())
    return Status::Internal("the file can not be opened again: {}", std::strerror(errno));
  // A descriptor of its own: flags and advice belong to the open file, which others may share.
  OpenedFile buffered = ReopenRegular(own, O_RDONLY);
  FileBytes::Access access{true, false, false, false};
  if (!buffered.fd.valid()) {
    // Its permissions were taken away since it was opened.
    buffered.fd = Again(file);
    access.direct = file.access().direct;
    if (!buffered.fd.valid())
      return Status::Internal("the file can not be opened again: {}", std::strerror(errno));
  } else {
    ::posix_fadvise(buffered.fd.get(), 0, 0, POSIX_FADV_RANDOM);
  }
  UniqueFd direct;
  if (line >= kMinDirect) direct = std::move(ReopenRegular(own, O_RDONLY | O_DIRECT).fd);
  return std::unique_ptr<ServedFile>(new ServedFile(FileBytes(std::move(buffered.fd), access),
                                                    std::move(direct), bytes, line,
                                                    std::move(may_read), terms));
}

ServedFile::ServedFile(FileBytes file, UniqueFd direct, std::uint64_t bytes, std::uint64_t line,
                       std::function<bool()> may_read, const ExtentTerms& terms)
    : file_(std::move(file)),
      direct_(std::move(direct)),
      bytes_(bytes),
      line_(line),
      may_read_(std::move(may_read)),
      extents_(file_, bytes, line, terms),
      direct_works_(direct_.valid()) {}

}  // namespace cuspan::store
