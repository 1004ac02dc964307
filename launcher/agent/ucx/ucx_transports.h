// UCX's transports that an agent may use, in a run over UCX and in one over an MPI with UCX below.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cuspan {

// UCX_TLS without System V shared memory, for a user who has set `chosen`: UCX creates those
// segments with mode 0660, so members of the user's group could read and write an agent's messages.
// A list that names sysv itself is left as it is.
std::string UcxTransports(std::optional<std::string_view> chosen);

// Sets UCX_TLS so for this process. Before UCX or MPI is started, and before other threads are.
void ExcludeSharedSegments();

}  // namespace cuspan
