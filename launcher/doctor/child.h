// A command with pipes for its input and outputs; the output kept is bounded.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "common/unique_fd.h"
#include "launcher/host/environment.h"

namespace cuspan::doctor {

// Threads: one at a time. The command leads a session of its own, and receives SIGTERM when the
// thread that started it ends.
class Child {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // kExhausted if no process can be created. A command that cannot be executed ends with status 127
  // and an error message.
  static Result<Child> Start(const std::vector<std::string>& command,
                             const Environment& environment);
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;
  // Ends it and the rest of its session, by SIGTERM and soon SIGKILL.
  ~Child();

  // Sends it a line. Closes the input if it does not read.
  void Send(const std::string& line);
  // Closes its input.
  void EndInput() { input_.Reset(); }
  // Next line of its output, without its end. kUnavailable if it has ended or the deadline has
  // passed; late() is then true.
  Result<std::string> ReadLine(Deadline deadline);
  // Waits for its end. Returns its status from waitpid; empty if the deadline has passed.
  std::optional<int> Wait(Deadline deadline);

  bool late() const { return late_; }
  // Output so far, without lines returned by ReadLine.
  const std::string& output() const { return output_; }
  const std::string& errors() const { return errors_; }

 private:
  Child(pid_t pid, UniqueFd process, UniqueFd input, UniqueFd output, UniqueFd errors);
  // Reads pending output; blocks until there is some, or its end. False if the deadline has passed.
  bool Read(Deadline deadline);

  pid_t pid_;
  UniqueFd process_, input_, output_pipe_, errors_pipe_;
  std::optional<int> wait_status_;
  bool late_ = false;
  std::string output_, errors_;
};

// First error line of a failed command, or the reason it was not started. Empty if it ended with
// status 0.
std::string FailureOf(const std::vector<std::string>& command, const Environment& environment,
                      std::chrono::milliseconds limit);

}  // namespace cuspan::doctor
