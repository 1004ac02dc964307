// Opening regular files, and nothing else: opening a FIFO or a device can block, or have effects.
#pragma once

#include <string>

#include "common/unique_fd.h"

namespace cuspan {

struct OpenedFile {
  static constexpr int kNotRegular = -1;

  UniqueFd fd;    // Invalid after a failure.
  int error = 0;  // An errno, or kNotRegular.
};

// Opens the regular file at `path` with these flags of open(2). O_CREAT creates it if there is no
// file; O_TRUNC empties it.
OpenedFile OpenRegular(const std::string& path, int flags);

// Opens the file of a descriptor again, perhaps one with O_PATH.
OpenedFile ReopenRegular(const UniqueFd& file, int flags);

// Creates a file in a folder, if the name is free there.
OpenedFile CreateRegular(int folder, const std::string& name, int flags);

}  // namespace cuspan
