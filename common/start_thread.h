// Threads where the system may allow no further one: limits of a user or of a container.
#pragma once

#include <functional>
#include <string_view>
#include <thread>

#include "common/status.h"

namespace cuspan {

// A thread that is called `name` (at most 15 characters) in /proc. kExhausted, with the next step,
// if the system allows none. Any thread.
Result<std::thread> StartThread(const char* name, std::function<void()> body);

// That failure, for a thread that pthread_create has refused with `error`.
Status NoThread(std::string_view name, int error);

}  // namespace cuspan
