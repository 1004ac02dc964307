// Runs a command to its end and keeps what it wrote: for tests of executables.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

namespace cuspan::test {

struct Outcome {
  int exit_status = -1;  // -1 when a signal ended it.
  int signal = 0;
  std::string out;
  std::string err;
};

// A started command. Its environment is ours and `variables`, and a marker by
// which all processes that stem from it can be found.
class Command {
 public:
  explicit Command(const std::vector<std::string>& words,
                   const std::map<std::string, std::string>& variables = {},
                   const std::string& input = "");
  ~Command();
  Command(const Command&) = delete;

  pid_t pid() const { return pid_; }
  // Reads standard output until `text` has come; false when it ends before.
  bool WaitFor(const std::string& text);
  Outcome Wait();
  // A process that stems from the command and has exactly this command line; it must be there.
  pid_t FindDescendant(const std::vector<std::string>& words) const;
  // Waits until no process that stems from the command is left.
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

// How many lines a text has.
std::size_t CountLines(const std::string& text);

}  // namespace cuspan::test
