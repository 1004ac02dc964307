// Files that a program opens by name on this node, beneath a root of the run.
#pragma once

#include <string>

#include "common/file_roots.h"
#include "common/regular_file.h"
#include "protocol/api/file_status.h"

namespace cuspan::proxy {

// Opens a regular file beneath `root` by its name in the program, with these flags of open(2).
// Links are followed inside of the root only, also if somebody changes them meanwhile: EXDEV. May
// block for long. Threads: any.
OpenedFile OpenBeneath(const FileRoot& root, const std::string& path, int flags);

}  // namespace cuspan::proxy
