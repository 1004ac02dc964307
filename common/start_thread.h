// Starts threads on systems limiting their number, per user or per container.
#pragma once

#include <functional>
#include <string_view>
#include <thread>

#include "common/status.h"

namespace cuspan {

// Starts a thread called `name` in /proc (at most 15 characters). If the system allows no more
// threads, kExhausted; the message gives the next step. Threads: any.
Result<std::thread> StartThread(const char* name, std::function<void()> body);

// The same failure, after pthread_create returned `error`.
Status NoThread(std::string_view name, int error);

}  // namespace cuspan
