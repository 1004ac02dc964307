// Results of cuFile's functions, and the first steps of each.
#pragma once

#include <cerrno>
#include <cstdint>
#include <string_view>
#include <utility>

#include "common/cancellation.h"
#include "interpose/calls/base/ways_in.h"
#include "interpose/cufile/api.h"
#include "protocol/api/file_status.h"

namespace cuspan::cufile {

// Outcome of a read or write: bytes, or a negative Code, or -1 with an errno in `error`.
struct Outcome {
  std::int64_t value = 0;
  int error = 0;
  bool lost = false;  // The device is lost: the program may know that already.

  static Outcome Of(Code code) { return {-static_cast<std::int64_t>(code), 0}; }
  static Outcome Lost() { return {-static_cast<std::int64_t>(kCudaDriverError), 0, true}; }
  static Outcome System(int error) { return {-1, error}; }
  // Bytes done before an error count: the next call would report it.
  static Outcome Of(std::uint64_t bytes, int error) {
    return bytes == 0 && error != 0 ? System(error) : Outcome{static_cast<std::int64_t>(bytes), 0};
  }
  static Outcome Of(const FileStatus& status);
  // An error of CUDA, which has no number among these results.
  static Outcome Of(const Error& error);

  bool failed() const { return value < 0; }
};

// Logs why a call is refused, and returns the code.
CallResult Refuse(Code code, std::string_view why);
// CallResult for an error of CUDA.
CallResult ResultOf(const Error& error);

// body(Session&) → CallResult.
template <typename Body>
CallResult Answer(Body&& body) {
  const CancellationOff cancellation;
  CallResult result;
  const Error error = WithSession([&](Session& session) -> Error {
    result = body(session);
    return CUDA_SUCCESS;
  });
  return error.failed() ? ResultOf(error) : result;
}

// body(Session&) → Outcome, for functions returning bytes. Failures are -1, and errno is the
// system's number or a Code. By its header, NVIDIA's library returns negative codes; in fact it
// does this (1.15, 1.20), and clients such as cuda.bindings depend on it.
template <typename Body>
std::int64_t AnswerBytes(Body&& body) {
  const CancellationOff cancellation;
  Outcome outcome;
  const Error error = WithSession([&](Session& session) -> Error {
    outcome = body(session);
    return CUDA_SUCCESS;
  });
  if (error.failed()) outcome = Outcome::Of(error);
  if (!outcome.failed()) return outcome.value;
  errno = outcome.error != 0 ? outcome.error : static_cast<int>(-outcome.value);
  return -1;
}

}  // namespace cuspan::cufile
