#include "proxy/gpu/loaded_library.h"

#include <dlfcn.h>

namespace cuspan::proxy {

std::string PathOfLibrary(void* library, const char* function, const std::string& name) {
  Dl_info information{};
  void* const symbol = ::dlsym(library, function);
  if (symbol == nullptr || ::dladdr(symbol, &information) == 0 || information.dli_fname == nullptr)
    return name;
  return information.dli_fname;
}

}  // namespace cuspan::proxy
