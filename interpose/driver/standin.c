/* A libcuda.so.1 that refuses clearly. It stands where programs run by cuspan look
   for the driver, so that one that uses the driver API starts on a node without
   a driver, and never reaches a local GPU by accident. Every function of the
   driver is here (generated from driver_exports.txt), names itself once on
   standard error and returns CUDA_ERROR_NOT_SUPPORTED. Needs nothing but the C
   library. Any thread. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* In a library of its own before glibc 2.34, which a program need not have. */
extern void* dlsym(void* handle, const char* name) __attribute__((weak));

enum { kSuccess = 0, kInvalidValue = 1, kNotSupported = 801 };

/* One line, in one write, so that lines of several threads never mix. */
static void WriteLine(const char* format, const char* name) {
  char line[1280];
  const int wanted = snprintf(line, sizeof(line), format, name);
  if (wanted < 0) return;
  const size_t size = (size_t)wanted < sizeof(line) ? (size_t)wanted : sizeof(line) - 1;
  line[size - 1] = '\n';
  const ssize_t written = write(STDERR_FILENO, line, size);
  (void)written; /* Standard error may be closed; there is nobody else to tell. */
}

/* The addresses of the names that were written, in an open hash table: each call
   site has one string of its own. Full: every call is written. */
static int FirstTime(const char* name) {
  enum { kSlots = 2048 };
  static _Atomic(const char*) slots[kSlots];
  const size_t start = ((uintptr_t)name >> 2) * 2654435761u % kSlots;
  for (size_t i = 0; i < kSlots; ++i) {
    const char* found = NULL;
    if (atomic_compare_exchange_strong(&slots[(start + i) % kSlots], &found, name)) return 1;
    if (found == name) return 0;
  }
  return 1;
}

/* Why a CUDA runtime linked into the program is not ours, if it is not; see
   interpose/load/load.h. */
static const char* LoadWarning(void) {
  const char* (*warning)(void) = NULL;
  if (dlsym == NULL) return NULL;
  *(void**)&warning = dlsym(RTLD_DEFAULT, "cuspan_load_warning");
  return warning == NULL ? NULL : warning();
}

/* As common/strict.h has it, for what can not be linked in here. */
static void EndIfStrict(void) {
  enum { kStrictExitStatus = 69 };
  const char* const strict = getenv("CUSPAN_STRICT");
  if (strict == NULL || strcmp(strict, "on") != 0) return;
  WriteLine("cuspan: %s is on: the program ends here\n", "CUSPAN_STRICT");
  fflush(NULL);
  _exit(kStrictExitStatus);
}

__attribute__((visibility("hidden"))) int cuspan_standin_refuse(const char* name) {
  static atomic_flag explained = ATOMIC_FLAG_INIT;
  if (!FirstTime(name)) return kNotSupported;
  const char* const reason = atomic_flag_test_and_set(&explained) ? NULL : LoadWarning();
  if (reason != NULL) WriteLine("cuspan: %s\n", reason);
  WriteLine(
      "cuspan: this program calls the CUDA driver API (%s), which cuspan does not support "
      "yet; the call returns CUDA_ERROR_NOT_SUPPORTED\n",
      name);
  EndIfStrict();
  return kNotSupported;
}

/* The codes that a program can get from this library. */
static const struct {
  int code;
  const char* name;
  const char* text;
} kErrors[] = {
    {kSuccess, "CUDA_SUCCESS", "no error"},
    {kInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {kNotSupported, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
};

static int Describe(int code, int as_name, const char** out) {
  if (out == NULL) return kInvalidValue;
  *out = NULL;
  for (size_t i = 0; i < sizeof(kErrors) / sizeof(kErrors[0]); ++i) {
    if (kErrors[i].code == code) *out = as_name ? kErrors[i].name : kErrors[i].text;
  }
  return *out == NULL ? kInvalidValue : kSuccess;
}

__attribute__((visibility("default"))) int cuGetErrorName(int error, const char** name) {
  return Describe(error, 1, name);
}

__attribute__((visibility("default"))) int cuGetErrorString(int error, const char** text) {
  return Describe(error, 0, text);
}
