// The functions of include/cuspan/file.h: those of libcuspan.so, in a run.
#include "include/cuspan/file.h"

#include "store/layout/run_functions.h"
#include "store/library/driver.h"
#include "store/library/stored_file.h"

using namespace cuspan::store;  // NOLINT: the entry points below are the C API.

namespace {

#define CUSPAN_EXPORT extern "C" __attribute__((visibility("default")))

// Calls function(RunFunctions).
template <typename Function>
int InRun(Function&& function) {
  // The driver of a run is part of libcuspan.so.
  if (!ProcessDriver().ok()) return CUSPAN_FILE_NOT_SUPPORTED;
  const RunFunctions* const run = FunctionsOfRun();
  return run != nullptr ? function(*run) : CUSPAN_FILE_NOT_SUPPORTED;
}

}  // namespace

CUSPAN_EXPORT int cuspanFileOpenFd(cuspanFile_t* file, int fd, int device) {
  return InRun([&](const RunFunctions& run) { return run.open_fd(file, fd, device); });
}

CUSPAN_EXPORT int cuspanFileOpen(cuspanFile_t* file, const char* path, unsigned flags, int device) {
  return InRun([&](const RunFunctions& run) { return run.open(file, path, flags, device); });
}

CUSPAN_EXPORT int cuspanFileRead(cuspanFile_t file, void* destination, std::size_t bytes,
                                 std::int64_t offset, CUstream_st* stream,
                                 cuspanFileStatus_t* status) {
  return InRun([&](const RunFunctions& run) {
    return run.read(file, destination, bytes, offset, stream, status);
  });
}

CUSPAN_EXPORT int cuspanFileWrite(cuspanFile_t file, const void* source, std::size_t bytes,
                                  std::int64_t offset, CUstream_st* stream,
                                  cuspanFileStatus_t* status) {
  return InRun([&](const RunFunctions& run) {
    return run.write(file, source, bytes, offset, stream, status);
  });
}

CUSPAN_EXPORT int cuspanFileClose(cuspanFile_t file) {
  return InRun([&](const RunFunctions& run) { return run.close(file); });
}

CUSPAN_EXPORT const char* cuspanFileLastMessage() {
  const RunFunctions* const run = FunctionsOfRun();
  return run != nullptr ? run->last_message()
                        : "files of cuspan/file.h need a run: start the program by cuspan run";
}
