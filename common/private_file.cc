#include "common/private_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "common/cache_folder.h"

namespace cuspan {
namespace {

bool WriteAll(int file, std::string_view content) {
  while (!content.empty()) {
    const ssize_t put = ::write(file, content.data(), content.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    content.remove_prefix(static_cast<std::size_t>(put));
  }
  return true;
}

}  // namespace

std::optional<PrivateFile> OpenPrivateFile(int folder, const std::string& name,
                                           std::uint64_t most_bytes) {
  UniqueFd file(::openat(folder, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status {};
  if (!file.valid() || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      !IsPrivate(status) || static_cast<std::uint64_t>(status.st_size) > most_bytes)
    return std::nullopt;
  return PrivateFile{std::move(file), static_cast<std::uint64_t>(status.st_size),
                     status.st_mtim.tv_sec};
}

bool ReadAll(int file, void* data, std::size_t bytes) {
  auto* at = static_cast<char*>(data);
  while (bytes != 0) {
    const ssize_t got = ::read(file, at, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

Status ReplaceFile(int folder, const std::string& fresh, const std::string& name,
                   std::initializer_list<std::string_view> parts) {
  const auto create = [&] {
    return UniqueFd(::openat(folder, fresh.c_str(),
                             O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  };
  UniqueFd file = create();
  if (!file.valid() && errno == EEXIST) {
    ::unlinkat(folder, fresh.c_str(), 0);
    file = create();
  }
  if (!file.valid()) return Status::Unavailable("{}", std::strerror(errno));
  bool written = true;
  for (const std::string_view part : parts) written = written && WriteAll(file.get(), part);
  if (written && ::renameat(folder, fresh.c_str(), folder, name.c_str()) == 0) return Status::Ok();
  const int reason = errno;
  ::unlinkat(folder, fresh.c_str(), 0);
  return Status::Unavailable("{}", std::strerror(reason));
}

}  // namespace cuspan
