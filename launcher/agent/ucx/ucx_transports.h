// UCX transports allowed in an agent, in a run over UCX or over an MPI based on UCX.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cuspan {

// Returns UCX_TLS without System V shared memory, based on the user's value `chosen`. UCX creates
// those segments with mode 0660, so members of the user's group could read and write an agent's
// messages. A list naming sysv itself is returned unchanged.
std::string UcxTransports(std::optional<std::string_view> chosen);

// Sets UCX_TLS for this process accordingly. Called before UCX, MPI or any other thread starts.
void ExcludeSharedSegments();

}  // namespace cuspan
