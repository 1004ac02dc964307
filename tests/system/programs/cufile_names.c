// Prints the version of the libcufile.so.0 that this program is linked with, and the names of the
// arguments that the program has not.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

struct Error {
  int error;
  int cuda;
};
struct Error cuFileGetVersion(int* version);

int main(int argc, char** argv) {
  int version = 0;
  const struct Error error = cuFileGetVersion(&version);
  printf("%d, version %d\n", error.error, version);
  for (int i = 1; i < argc; ++i)
    if (dlsym(RTLD_DEFAULT, argv[i]) == NULL) printf("no %s\n", argv[i]);
  return 0;
}
