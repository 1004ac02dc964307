#include "common/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "common/format.h"

namespace cuspan {
namespace {

// A file may appear or disappear between two calls.
constexpr int kTries = 3;
constexpr mode_t kMode = 0666;  // Less the process's umask.

}  // namespace

OpenedFile ReopenRegular(const UniqueFd& file, int flags) {
  struct stat facts {};
  if (::fstat(file.get(), &facts) != 0) return {UniqueFd(), errno};
  if (!S_ISREG(facts.st_mode)) return {UniqueFd(), OpenedFile::kNotRegular};
  UniqueFd opened(::open(Format("/proc/self/fd/{}", file.get()).c_str(),
                         (flags & ~O_CREAT) | O_CLOEXEC | O_NOCTTY));
  if (!opened.valid()) return {UniqueFd(), errno};
  return {std::move(opened), 0};
}

OpenedFile CreateRegular(int folder, const std::string& name, int flags) {
  UniqueFd made(
      ::openat(folder, name.c_str(), flags | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kMode));
  if (!made.valid()) return {UniqueFd(), errno};
  return {std::move(made), 0};
}

OpenedFile OpenRegular(const std::string& path, int flags) {
  OpenedFile opened;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    const UniqueFd found(::open(path.c_str(), O_PATH | O_CLOEXEC));
    if (found.valid()) return ReopenRegular(found, flags);
    opened.error = errno;
    if (opened.error != ENOENT || (flags & O_CREAT) == 0) return opened;
    opened = CreateRegular(AT_FDCWD, path, flags);
    if (opened.error != EEXIST) return opened;
  }
  return opened;
}

}  // namespace cuspan
