// Folders of the user's own, in which something is kept between runs.
#pragma once

#include <sys/stat.h>

#include <string>

#include "common/settings.h"
#include "common/status.h"
#include "common/unique_fd.h"

namespace cuspan {

// The folder that a setting names: one whose default is below ~/.cache, which XDG_CACHE_HOME
// replaces, and that may be "off". Empty if it is, or if there is no home.
std::string CacheFolder(const Setting& setting);

// Opens it. What of the path is missing is made, for this user alone. kInvalid if it is no absolute
// path, kUnavailable if it cannot be made or opened, kRefused if others may write to it.
Result<UniqueFd> OpenCacheFolder(const std::string& folder, const Setting& setting);

// Whether only this user could have written what has that status.
bool IsPrivate(const struct stat& status);

}  // namespace cuspan
