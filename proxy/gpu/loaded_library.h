// Libraries that the proxy loads while it runs.
#pragma once

#include <string>

namespace cuspan::proxy {

// The file of a library that dlopen has loaded as `name`, by a function that it exports; `name`
// when the dynamic linker does not say. Any thread.
std::string PathOfLibrary(void* library, const char* function, const std::string& name);

}  // namespace cuspan::proxy
