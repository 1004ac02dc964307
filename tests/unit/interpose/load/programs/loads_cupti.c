/* Loads CUPTI by its path, as profilers do, and prints its results. */
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char** arguments) {
  if (count != 2) return 2;
  void* library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    printf("app: %s\n", dlerror());
    return 3;
  }
  int (*version)(unsigned*) = (int (*)(unsigned*))dlsym(library, "cuptiGetVersion");
  int (*subscribe)(void**, void*, void*) =
      (int (*)(void**, void*, void*))dlsym(library, "cuptiSubscribe");
  int (*enable)(int) = (int (*)(int))dlsym(library, "cuptiActivityEnable");
  int (*text)(int, const char**) =
      (int (*)(int, const char**))dlsym(library, "cuptiGetResultString");
  if (version == NULL || subscribe == NULL || enable == NULL || text == NULL) return 4;
  unsigned number = 0;
  void* subscriber = NULL;
  const char* name = NULL;
  printf("app: version %d", version(&number));
  printf(" %u\n", number);
  const int refused = subscribe(&subscriber, NULL, NULL);
  printf("app: subscribe %d, enable %d\n", refused, enable(3));
  printf("app: text %d", text(refused, &name));
  printf(" %s\n", name);
  int (*other)(int*) = (int (*)(int*))dlsym(library, "InitializeInjection");
  int value = 2;
  if (other != NULL) printf("app: other %d\n", other(&value));
  return 0;
}
