#include "common/cache_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace cuspan {

std::string CacheFolder(const Setting& setting) {
  const std::string_view text = SettingText(setting);
  if (text == "off") return {};
  if (text != setting.default_value) return std::string(text);
  constexpr std::string_view kBase = "~/.cache";
  const std::string below(text.substr(kBase.size()));
  if (const char* base = std::getenv("XDG_CACHE_HOME"); base != nullptr && *base == '/')
    return base + below;
  if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/')
    return std::string(home) + "/.cache" + below;
  return {};
}

Result<UniqueFd> OpenCacheFolder(const std::string& folder, const Setting& setting) {
  if (!folder.starts_with('/'))
    return Status::Invalid("'{}' is not an absolute path; {} must name a directory, or be off",
                           folder, setting.name);
  for (std::size_t end = folder.find('/', 1);; end = folder.find('/', end + 1)) {
    const std::string part = folder.substr(0, end);
    if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST && end == std::string::npos)
      return Status::Unavailable("cannot create the directory {}: {}", folder,
                                 std::strerror(errno));
    if (end == std::string::npos) break;
  }
  UniqueFd file(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat status {};
  if (!file.valid() || ::fstat(file.get(), &status) != 0)
    return Status::Unavailable("cannot open the directory {}: {}", folder, std::strerror(errno));
  if (!IsPrivate(status))
    return Status::Refused(
        "other users may write to the directory {}; make it accessible to this user alone", folder);
  return file;
}

bool IsPrivate(const struct stat& status) {
  return status.st_uid == ::geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

}  // namespace cuspan
