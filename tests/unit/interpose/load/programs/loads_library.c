/* Loads, uses and unloads a CUDA library as a plug-in, twice. */
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char** arguments) {
  if (count != 2) return 2;
  for (int round = 0; round < 2; ++round) {
    void* library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
      printf("app: %s\n", dlerror());
      return 3;
    }
    int (*run)(void) = (int (*)(void))dlsym(library, "RunLibrary");
    if (run == NULL || run() != 0) return 4;
    dlclose(library);
  }
  return 0;
}
