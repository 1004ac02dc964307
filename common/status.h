// Errors as values.
//
// A Status is success or a failure. A failure has a code for the caller's reaction and a message
// for a person: the event, its location, and the next step. A Result<T> is a T or a failure. Both
// are cheap on success. The function that detects a failure writes the message; its callers pass it
// on. Safe to copy between threads.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "common/format.h"

namespace cuspan {

// Kinds of failure, by the caller's possible reactions.
enum class StatusCode {
  kOk = 0,
  kInvalid,      // The caller's input is wrong: correct it.
  kNotFound,     // The named object does not exist.
  kUnsupported,  // Understood, but not implemented.
  kExhausted,    // Out of memory, slots or handles: free some, or try later.
  kUnavailable,  // The other side is gone or never existed: reconnect or give up.
  kRefused,      // Not allowed: wrong user, secret or version.
  kInternal,     // A defect, or an unforeseen failure of the operating system.
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message)
      : failure_(std::make_shared<const Failure>(Failure{code, std::move(message)})) {}

  static Status Ok() { return {}; }
  template <typename... Args>
  static Status Invalid(fmt::format_string<Args...> format, Args&&... args) {
    return {StatusCode::kInvalid, Format(format, std::forward<Args>(args)...)};
  }
  template <typename... Args>
  static Status NotFound(fmt::format_string<Args...> format, Args&&... args) {
    return {StatusCode::kNotFound, Format(format, std::forward<Args>(args)...)};
  }
  template <typename... Args>
  static Status Unsupported(fmt::format_string<Args...> format, Args&&... args) {
    return {StatusCode::kUnsupported, Format(format, std::forward<Args>(args)...)};
  }
  template <typename... Args>
  static Status Exhausted(fmt::format_string<Args...> format, Args&&... args) {
    return {StatusCode::kExhausted, Format(format, std::forward<Args>(args)...)};
  }
  template <typename... Args>
  static Status Unavailable(fmt::format_string<Args...> format, Args&&... args) {
    return {StatusCode::kUnavailable, Format(format, std::forward<Args>(args)...)};
  }
  template <typename... Args>
  static Status Refused(fmt::format_string<Args...> format, Args&&... args) {
    return {StatusCode::kRefused, Format(format, std::forward<Args>(args)...)};
  }
  template <typename... Args>
  static Status Internal(fmt::format_string<Args...> format, Args&&... args) {
    return {StatusCode::kInternal, Format(format, std::forward<Args>(args)...)};
  }

  bool ok() const { return failure_ == nullptr; }
  StatusCode code() const { return ok() ? StatusCode::kOk : failure_->code; }
  // The message for a person; empty if ok.
  const std::string& message() const {
    static const std::string* const kNone = new std::string;
    return ok() ? *kNone : failure_->message;
  }

 private:
  struct Failure {
    StatusCode code;
    std::string message;
  };
  std::shared_ptr<const Failure> failure_;
};

// A value, or a Status with the failure.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value)
      : content_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit by design
  Result(Status failure)
      : content_(std::in_place_index<1>, std::move(failure)) {}  // NOLINT: the same

  bool ok() const { return content_.index() == 0; }
  Status status() const { return ok() ? Status::Ok() : std::get<1>(content_); }

  // Requires ok().
  T& value() & { return std::get<0>(content_); }
  const T& value() const& { return std::get<0>(content_); }
  T&& value() && { return std::get<0>(std::move(content_)); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }

 private:
  std::variant<T, Status> content_;
};

// Returns from the enclosing function if `expression` (a Status) is a failure. The enclosing
// function returns a Status or a Result.
#define CUSPAN_RETURN_IF_ERROR(expression)                                      \
  do {                                                                          \
    if (::cuspan::Status status_ = (expression); !status_.ok()) return status_; \
  } while (false)

// The same with a Result. Its value is assigned to `target`: a variable, or the declaration of one.
//   CUSPAN_ASSIGN_OR_RETURN(const std::uint64_t bytes, SettingBytes(settings::kStagingBytes));
#define CUSPAN_ASSIGN_OR_RETURN(target, ...) \
  CUSPAN_ASSIGN_OR_RETURN_AT(target, CUSPAN_RESULT_OF_LINE(__LINE__), __VA_ARGS__)
#define CUSPAN_ASSIGN_OR_RETURN_AT(target, result, ...) \
  auto result = __VA_ARGS__;                            \
  if (!result.ok()) return result.status();             \
  target = *std::move(result)
#define CUSPAN_RESULT_OF_LINE(line) CUSPAN_RESULT_OF(line)
#define CUSPAN_RESULT_OF(line) result_##line

}  // namespace cuspan
