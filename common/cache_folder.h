// The user's cache folders, kept between runs.
#pragma once

#include <sys/stat.h>

#include <string>

#include "common/settings.h"
#include "common/status.h"
#include "common/unique_fd.h"

namespace cuspan {

// The folder named by a setting. Its default is below ~/.cache, or below XDG_CACHE_HOME if set.
// Empty if the setting is "off", or if there is no home.
std::string CacheFolder(const Setting& setting);

// Opens the folder. Creates missing parts of the path with mode 0700. kInvalid if the path is not
// absolute, kUnavailable if it cannot be created or opened, kRefused if others may write to it.
Result<UniqueFd> OpenCacheFolder(const std::string& folder, const Setting& setting);

// True if only this user may write to a file with this stat().
bool IsPrivate(const struct stat& status);

}  // namespace cuspan
