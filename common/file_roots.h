// Folders of the GPUs' nodes with files that programs may open by name: `cuspan run --file-root`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace cuspan {

struct FileRoot {
  std::string named;      // Folder as the program names it: absolute, without a slash at its end.
  std::string there;      // The same folder on the GPUs' nodes.
  bool writable = false;  // Files beneath it may also be written and created.

  // The other folder's name for `path`, which is beneath this one.
  std::string PathThere(std::string_view path) const {
    return there + std::string(path.substr(named.size()));
  }
};

// Parses "DIR[=THERE][:rw],…". kInvalid names the option and the wrong part.
Result<std::vector<FileRoot>> ParseFileRoots(std::string_view text);

// The path without "." and repeated slashes; ".." stays, since the part before it may be a link.
std::string PlainPath(std::string_view path);

// The longest root with `path`, a plain absolute one, beneath it; null if there is none. By ".." or
// links a path may lead out of its root.
const FileRoot* FindFileRoot(const std::vector<FileRoot>& roots, std::string_view path);

}  // namespace cuspan
