// Agreement with a proxy of another node: its file is the same as one of this process.
#pragma once

#include <cstdint>
#include <optional>

#include "common/same_file.h"
#include "interpose/client/context_connection.h"

namespace cuspan {

// Asks the proxy for a counterpart of the file `handle`, opened here as `file`, and proves this
// process's knowledge of the bytes. While `file` has the returned state, the proxy may read the
// counterpart instead; nothing: there is none. Threads: any; waits for the proxy, and for pages of
// both files.
std::optional<FileState> AgreeOnFile(ContextConnection& connection, std::uint64_t handle,
                                     const FileBytes& file);

}  // namespace cuspan
