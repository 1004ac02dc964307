// The functions of libcufile.so.0, found by their names, for programs of this folder.
#pragma once

#include <cuda.h>
#include <cufile.h>
// The header gives the first version's name to the second one.
#undef cuFileDriverClose
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

// Ends the program if the library has no such function.
inline void* CufileFunction(void* library, const char* name) {
  void* const function = library != nullptr ? dlsym(library, name) : nullptr;
  if (function == nullptr) {
    std::fprintf(stderr, "no %s: %s\n", name, dlerror());
    std::exit(EXIT_FAILURE);
  }
  return function;
}

// Those used by the programs, each with its type in cufile.h.
struct Cufile {
  explicit Cufile(const char* path) : library(dlopen(path, RTLD_NOW)) {}

  void* library;
#define CUFILE_MEMBER(name) \
  decltype(&::name) name = reinterpret_cast<decltype(&::name)>(CufileFunction(library, #name))
  CUFILE_MEMBER(cuFileBatchIOCancel);
  CUFILE_MEMBER(cuFileBatchIODestroy);
  CUFILE_MEMBER(cuFileBatchIOGetStatus);
  CUFILE_MEMBER(cuFileBatchIOSetUp);
  CUFILE_MEMBER(cuFileBatchIOSubmit);
  CUFILE_MEMBER(cuFileBufDeregister);
  CUFILE_MEMBER(cuFileBufRegister);
  CUFILE_MEMBER(cuFileDriverOpen);
  CUFILE_MEMBER(cuFileGetStatsL1);
  CUFILE_MEMBER(cuFileGetVersion);
  CUFILE_MEMBER(cuFileHandleDeregister);
  CUFILE_MEMBER(cuFileHandleRegister);
  CUFILE_MEMBER(cuFileRead);
  CUFILE_MEMBER(cuFileReadAsync);
  CUFILE_MEMBER(cuFileSetStatsLevel);
  CUFILE_MEMBER(cuFileStatsStart);
  CUFILE_MEMBER(cuFileStreamDeregister);
  CUFILE_MEMBER(cuFileStreamRegister);
  CUFILE_MEMBER(cuFileWrite);
  CUFILE_MEMBER(cuFileWriteAsync);
#undef CUFILE_MEMBER
  // Absent in release 1.15.
  decltype(&::cuFileReadv) cuFileReadv =
      reinterpret_cast<decltype(&::cuFileReadv)>(dlsym(library, "cuFileReadv"));
  decltype(&::cuFileWritev) cuFileWritev =
      reinterpret_cast<decltype(&::cuFileWritev)>(dlsym(library, "cuFileWritev"));
};

#define CUFILE_CHECK(call)                                                             \
  do {                                                                                 \
    const CUfileError_t cufile_error = (call);                                         \
    if (cufile_error.err != CU_FILE_SUCCESS) {                                         \
      std::fprintf(stderr, "%s:%d: %s: %d (%s), cuda %d\n", __FILE__, __LINE__, #call, \
                   cufile_error.err, cufileop_status_error(cufile_error.err),          \
                   cufile_error.cu_err);                                               \
      std::exit(EXIT_FAILURE);                                                         \
    }                                                                                  \
  } while (false)
