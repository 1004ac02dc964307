// Libraries loaded by the proxy at run time.
#pragma once

#include <string>

namespace cuspan::proxy {

// Returns the file of a library loaded by dlopen as `name`. `function` is one of its exports.
// Returns `name` if the dynamic linker does not report the file. Threads: any.
std::string PathOfLibrary(void* library, const char* function, const std::string& name);

}  // namespace cuspan::proxy
