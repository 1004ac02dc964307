// A command with pipes to its input and outputs, of whose words no more than a bound is kept.
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

// One thread at a time. It leads a session of its own, and is sent SIGTERM when the thread that
// started it ends.
class Child {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // kExhausted where no process can be had. A command that cannot be run ends with status 127, and
  // says why.
  static Result<Child> Start(const std::vector<std::string>& command,
                             const Environment& environment);
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;
  // Ends it, with all of its session that is left: by SIGTERM, soon by SIGKILL.
  ~Child();

  // Gives it a line. Nothing happens where it reads none.
  void Tell(const std::string& line);
  // It has no more to read.
  void EndInput() { input_.Reset(); }
  // The next line of its output, without its end; kUnavailable when it has ended, late() is true
  // when it is late.
  Result<std::string> ReadLine(Deadline deadline);
  // Waits for its end. How it ended, as waitpid tells; none when it is late.
  std::optional<int> Wait(Deadline deadline);

  bool late() const { return late_; }
  // What it has said so far, but for the lines that were read.
  const std::string& output() const { return output_; }
  const std::string& errors() const { return errors_; }

 private:
  Child(pid_t pid, UniqueFd process, UniqueFd input, UniqueFd output, UniqueFd errors);
  // Reads what has come, waiting for it or its end; false when late.
  bool Read(Deadline deadline);

  pid_t pid_;
  UniqueFd process_, input_, output_pipe_, errors_pipe_;
  std::optional<int> wait_status_;
  bool late_ = false;
  std::string output_, errors_;
};

// What a command says on both outputs when it has failed, or why it was not started; empty when it
// ended with status 0.
std::string FailureOf(const std::vector<std::string>& command, const Environment& environment,
                      std::chrono::milliseconds limit);

}  // namespace cuspan::doctor
