// Functions of the run for libcuspan-store.so.0: store/layout/run_functions.h.
#include "store/layout/run_functions.h"

#include <utility>

#include "common/cancellation.h"
#include "common/log.h"
#include "interpose/calls/base/ways_in.h"
#include "interpose/calls/file.h"
#include "protocol/api/file_access.h"

using namespace cuspan;  // NOLINT: the entry points below are the C API.

namespace {

// Prefix of every definition called by programs.
#define CUSPAN_EXPORT extern "C" __attribute__((visibility("default")))

static_assert(sizeof(cuspanFileStatus_t) == sizeof(FileStatus) &&
              offsetof(cuspanFileStatus_t, result) == offsetof(FileStatus, result) &&
              offsetof(cuspanFileStatus_t, error) == offsetof(FileStatus, error));
static_assert(CUSPAN_FILE_SUCCESS == static_cast<int>(FileResult::kSuccess) &&
              CUSPAN_FILE_INVALID_VALUE == static_cast<int>(FileResult::kInvalidValue) &&
              CUSPAN_FILE_INVALID_FILE == static_cast<int>(FileResult::kInvalidFile) &&
              CUSPAN_FILE_INVALID_MEMORY == static_cast<int>(FileResult::kInvalidMemory) &&
              CUSPAN_FILE_NOT_PERMITTED == static_cast<int>(FileResult::kNotPermitted) &&
              CUSPAN_FILE_SYSTEM == static_cast<int>(FileResult::kSystem) &&
              CUSPAN_FILE_DEVICE == static_cast<int>(FileResult::kDevice) &&
              CUSPAN_FILE_NOT_SUPPORTED == static_cast<int>(FileResult::kNotSupported) &&
              CUSPAN_FILE_PENDING == static_cast<int>(FileResult::kPending));

static_assert(CUSPAN_FILE_READ == static_cast<unsigned>(FileAccess::kRead) &&
              CUSPAN_FILE_WRITE == static_cast<unsigned>(FileAccess::kWrite) &&
              CUSPAN_FILE_CREATE == static_cast<unsigned>(FileAccess::kCreate) &&
              CUSPAN_FILE_TRUNCATE == static_cast<unsigned>(FileAccess::kTruncate) &&
              CUSPAN_FILE_DIRECT == static_cast<unsigned>(FileAccess::kDirect));

// Calls body() → FileCallResult.
template <typename Body>
int Answer(Body&& body) {
  const CancellationOff cancellation;
  FileCallResult answer = body();
  if (answer.result != FileResult::kSuccess) {
    LogInfo("files: {}", answer.problem);
    ThisThread().file_problem = std::move(answer.problem);
  }
  return static_cast<int>(answer.result);
}

// Calls open(&handle) → FileCallResult.
template <typename Open>
int Opened(cuspanFile_t* file, Open&& open) {
  return Answer([&]() -> FileCallResult {
    if (file == nullptr)
      return {FileResult::kInvalidValue, 0, "there is no place for the file's handle"};
    std::uint64_t opened = 0;
    FileCallResult result = open(&opened);
    if (result.result == FileResult::kSuccess) *file = HandleOf<cuspanFile_t>(opened);
    return result;
  });
}

FileCall CallOf(cuspanFile_t file, const void* memory, std::size_t bytes, std::int64_t offset,
                CUstream_st* stream, cuspanFileStatus_t* status) {
  return {NumberOf(file), memory, bytes, offset, stream, reinterpret_cast<FileStatus*>(status)};
}

int OpenFd(cuspanFile_t* file, int fd, int device) {
  return Opened(file, [&](std::uint64_t* opened) { return OpenProgramFile(fd, device, opened); });
}

int Open(cuspanFile_t* file, const char* path, unsigned flags, int device) {
  return Opened(file,
                [&](std::uint64_t* opened) { return OpenNamedFile(path, flags, device, opened); });
}

int Read(cuspanFile_t file, void* destination, std::size_t bytes, std::int64_t offset,
         CUstream_st* stream, cuspanFileStatus_t* status) {
  return Answer([&] { return ReadFile(CallOf(file, destination, bytes, offset, stream, status)); });
}

int Write(cuspanFile_t file, const void* source, std::size_t bytes, std::int64_t offset,
          CUstream_st* stream, cuspanFileStatus_t* status) {
  return Answer([&] { return WriteFile(CallOf(file, source, bytes, offset, stream, status)); });
}

int Close(cuspanFile_t file) {
  return Answer([&] { return CloseFile(NumberOf(file)); });
}

const char* LastMessage() { return ThisThread().file_problem.c_str(); }

int Size(cuspanFile_t file, std::uint64_t* bytes) {
  return Answer([&] { return SizeOfFile(NumberOf(file), bytes); });
}

int Peek(cuspanFile_t file, std::uint64_t offset, void* to, std::size_t bytes, std::size_t* got) {
  return Answer([&] {
    return PeekFile(NumberOf(file), offset, {static_cast<std::byte*>(to), bytes}, got);
  });
}

int Hold(cuspanFile_t file, store::ResidentBytes* resident) {
  return Answer([&] {
    HeldFile held;
    FileCallResult result = HoldFile(NumberOf(file), &held);
    *resident = {held.address, held.bytes, held.copied};
    return result;
  });
}

int Serve(cuspanFile_t file, const store::WantedService* wanted, store::ServedPlaces* places) {
  return Answer([&] { return ServeFile(NumberOf(file), *wanted, places); });
}

int CountServedOf(cuspanFile_t file, store::ServedCounts* counts) {
  return Answer([&] { return CountServed(NumberOf(file), counts); });
}

int Check(cuspanFile_t file) {
  return Answer([&] { return CheckFile(NumberOf(file)); });
}

constexpr store::RunFunctions kFunctions{OpenFd, Open, Read, Write, Close,         LastMessage,
                                         Size,   Peek, Hold, Serve, CountServedOf, Check};

}  // namespace

CUSPAN_EXPORT const store::RunFunctions* cuspan_store_run_functions_1() { return &kFunctions; }
