// cuspan-kernel-compiler: compiles one kernel for the software GPU starting it. The library beside
// this program has all the code.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>

int main(int argument_count, char** arguments) {
  std::error_code error;
  const auto library =
      std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / "libcuda.so.1";
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  using Main = int (*)(int, char**);
  const auto entry = handle == nullptr
                         ? nullptr
                         : reinterpret_cast<Main>(::dlsym(handle, "cuspan_soft_compiler_main"));
  if (entry == nullptr) {
    std::fprintf(stderr, "cuspan-kernel-compiler: %s\n", ::dlerror());
    return EXIT_FAILURE;
  }
  return entry(argument_count, arguments);
}
