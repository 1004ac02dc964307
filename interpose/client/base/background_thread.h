// Our own threads inside the user's program.
#pragma once

#include <functional>
#include <thread>

namespace cuspan {

// Starts a thread that takes none of the program's signals (its handlers run
// on its own threads) and is called `name` (at most 15 characters) in /proc.
// If the system allows no further thread, the result is not joinable. That is
// logged once for a process.
std::thread StartBackgroundThread(const char* name, std::function<void()> body);

// The same, detached, and with no frame of ours below `body`, which may let an unwinder pass.
// False if the system allows no further thread.
bool StartPlainThread(const char* name, void* (*body)(void*), void* argument);

}  // namespace cuspan
