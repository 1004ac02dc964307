// Agreement with a proxy of another node that its file is the same as one of this process.
#pragma once

#include <cstdint>
#include <optional>

#include "common/same_file.h"
#include "interpose/client/context_connection.h"

namespace cuspan {

// Asks the proxy for a counterpart of its file `handle`, opened here as `file`, and proves that
// this process has its bytes. Returns the state of `file` in which the proxy may read the
// counterpart instead; nothing if it has none. Threads: any; waits for the proxy, and for pages of
// both files.
std::optional<FileState> AgreeOnFile(ContextConnection& connection, std::uint64_t handle,
                                     const FileBytes& file);

}  // namespace cuspan
