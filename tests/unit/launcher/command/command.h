// Runs a command to its end and records its output, for tests of executables.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

namespace cuspan::test {

struct Outcome {
  int exit_status = -1;  // -1 if ended by a signal.
  int signal = 0;
  std::string out;
  std::string err;
};

// A started command. Its environment is ours, `variables`, and a marker to find all its
// descendants.
class Command {
 public:
  explicit Command(const std::vector<std::string>& words,
                   const std::map<std::string, std::string>& variables = {},
                   const std::string& input = "");
  ~Command();
  Command(const Command&) = delete;

  pid_t pid() const { return pid_; }
  // Reads standard output until `text` has arrived. False if it ends before.
  bool WaitFor(const std::string& text);
  Outcome Wait();
  // Returns the descendant with exactly this command line. It must exist.
  pid_t FindDescendant(const std::vector<std::string>& words) const;
  // Waits until all descendants have ended.
  void WaitAllGone();

 private:
  void ReadAll();
  pid_t pid_ = -1;
  int out_ = -1;
  int err_ = -1;
  std::string marker_;
  Outcome outcome_;
};

inline Outcome RunCommand(const std::vector<std::string>& words,
                          const std::map<std::string, std::string>& variables = {},
                          const std::string& input = "") {
  Command command(words, variables, input);
  Outcome outcome = command.Wait();
  command.WaitAllGone();
  return outcome;
}

// Returns the number of lines.
std::size_t CountLines(const std::string& text);

}  // namespace cuspan::test
