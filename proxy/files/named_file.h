// Files that a program opens by name on this node, beneath a root of the run.
#pragma once

#include <string>
#include <vector>

#include "common/file_roots.h"
#include "common/regular_file.h"
#include "protocol/api/file_status.h"

namespace cuspan::proxy {

// OpenedFile::error of a file to be written beneath a root for reading.
inline constexpr int kRootNotWritable = -2;

// Opens a regular file by its plain name in the program, with these flags of open(2), beneath the
// longest root of the name. Links are followed inside of the root only, also if somebody changes
// them meanwhile: EXDEV. Writing needs a writable root, the longest one of the path without links.
// May block for long. Threads: any.
OpenedFile OpenBeneath(const std::vector<FileRoot>& roots, const std::string& path, int flags);

}  // namespace cuspan::proxy
