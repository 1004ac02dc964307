#include "store/engine/served_file.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "common/regular_file.h"

namespace cuspan::store {
namespace {

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
  // Reads go through the page cache: a read without blocking begins to read missing pages, and a
  // direct one would read them again.
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
  return std::unique_ptr<ServedFile>(new ServedFile(FileBytes(std::move(buffered.fd), access),
                                                    bytes, line, std::move(may_read), terms));
}

ServedFile::ServedFile(FileBytes file, std::uint64_t bytes, std::uint64_t line,
                       std::function<bool()> may_read, const ExtentTerms& terms)
    : file_(std::move(file)),
      bytes_(bytes),
      may_read_(std::move(may_read)),
      extents_(file_, bytes, line, terms,
               guarded() ? [this] { return MayRead(); } : std::function<bool()>()) {}

void ServedFile::Count(std::uint64_t bytes) {
  static std::atomic<unsigned> threads = 0;
  thread_local const unsigned kThread = threads++;
  CountsOfThreads& own = counts_[kThread % counts_.size()];
  own.reads.fetch_add(1, std::memory_order_relaxed);
  own.bytes.fetch_add(bytes, std::memory_order_relaxed);
}

ServedFile::Counts ServedFile::counts() const {
  Counts sum;
  for (const CountsOfThreads& part : counts_) {
    sum.reads += part.reads;
    sum.bytes += part.bytes;
  }
  return sum;
}

}  // namespace cuspan::store
