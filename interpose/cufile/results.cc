#include "interpose/cufile/results.h"

#include "common/log.h"

namespace cuspan::cufile {

Outcome Outcome::Of(const FileStatus& status) {
  switch (status.result) {
    case FileResult::kSuccess:
      return {status.bytes, 0};
    case FileResult::kSystem:
      return Of(static_cast<std::uint64_t>(status.bytes), status.error);
    case FileResult::kInvalidFile:
      return Of(kHandleNotRegistered);
    case FileResult::kInvalidMemory:
      return Of(kCudaPointerInvalid);
    case FileResult::kNotPermitted:
      return Of(kInvalidFileOpenFlag);
    case FileResult::kNotSupported:
      return Of(kInvalidFileType);
    case FileResult::kDevice:
      return Of(kCudaDriverError);
    case FileResult::kInvalidValue:
    case FileResult::kPending:
      break;
  }
  return Of(kInternalError);
}

Outcome Outcome::Of(const Error& error) {
  static_cast<void>(ResultOf(error));
  return Of(kCudaDriverError);
}

CallResult Refuse(Code code, std::string_view why) {
  LogInfo("cuFile: {} ({})", why, static_cast<int>(code));
  return {code, CUDA_SUCCESS};
}

CallResult ResultOf(const Error& error) {
  if (!error.failed()) return {};
  const ErrorEntry* const entry = FindError(error.driver());
  LogInfo("cuFile: {}", entry != nullptr ? TextOf(*entry) : "an unknown CUDA error");
  return {kCudaDriverError, error.driver()};
}

}  // namespace cuspan::cufile

// Behaviour of functions not defined in this folder: there are none.
extern "C" int cuspan_cufile_not_supported(const char* name) {
  static_cast<void>(cuspan::NotSupported(name));
  return cuspan::cufile::kPlatformNotSupported;
}
