// Calls a CUDA runtime loaded at run time, by a path of its own and the loader's handle.
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char** arguments) {
  void* const library = count == 2 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  if (library == NULL) return 2;
  int (*const allocate)(void**, size_t) = (int (*)(void**, size_t))dlsym(library, "cudaMalloc");
  void* pointer = NULL;
  if (allocate == NULL || allocate(&pointer, 1234) != 0) return 1;
  printf("app: done\n");
  return 0;
}
