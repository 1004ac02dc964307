// Background threads of the client inside the user's program.
#pragma once

#include <functional>
#include <thread>

namespace cuspan {

// Starts a thread named `name` in /proc (at most 15 characters). It takes no signals of the
// program: handlers run on the program's own threads. If the system allows no further thread, the
// result is not joinable, and one line is logged per process.
std::thread StartBackgroundThread(const char* name, std::function<void()> body);

// Starts a detached thread of the same kind, without C++ frames of the client below `body`: an
// unwinder may pass `body`. False if the system allows no further thread.
bool StartPlainThread(const char* name, void* (*body)(void*), void* argument);

}  // namespace cuspan
