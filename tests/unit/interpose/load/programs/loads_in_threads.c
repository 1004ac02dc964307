/* Loads, uses and unloads CUDA libraries in several threads at once, one library per thread. At
 * last it loads one of them in a separate linker namespace. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static void Use(void* library) {
  if (library == NULL) {
    printf("app: %s\n", dlerror());
    exit(3);
  }
  int (*run)(void) = (int (*)(void))dlsym(library, "RunLibrary");
  if (run == NULL || run() != 0) exit(4);
}

static void* Work(void* path) {
  for (int round = 0; round < 20; ++round) {
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    Use(library);
    dlclose(library);
    if (dlopen("/no/such/library.so", RTLD_NOW) != NULL) exit(5);
  }
  return NULL;
}

int main(int count, char** arguments) {
  pthread_t threads[8];
  if (count < 2 || count > 9) return 2;
  for (int i = 1; i < count; ++i) {
    if (pthread_create(&threads[i - 1], NULL, Work, arguments[i]) != 0) return 6;
  }
  for (int i = 1; i < count; ++i) pthread_join(threads[i - 1], NULL);
  Use(dlmopen(LM_ID_NEWLM, arguments[1], RTLD_NOW));
  return 0;
}
