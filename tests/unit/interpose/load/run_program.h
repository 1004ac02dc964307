// Runs programs as a user would, with some variables set.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <string>

struct Outcome {
  int status = -1;  // Exit status; 128 + N for signal N, like in shells.
  std::string output;
};

// Runs a shell command line. Returns standard output and error together.
inline Outcome RunShell(const std::string& command) {
  Outcome outcome;
  std::FILE* const pipe = popen(("exec 2>&1; " + command).c_str(), "r");
  if (pipe == nullptr) {
    ADD_FAILURE() << "popen failed";
    return outcome;
  }
  char buffer[4096];
  for (std::size_t got; (got = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0;) {
    outcome.output.append(buffer, got);
  }
  const int status = pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

// Returns the prefix of a command with `library` preloaded. In builds with sanitizers, their
// runtime comes first, because the library needs it. Programs built without sanitizers are not
// checked.
inline std::string Preload(const std::string& library) {
  const std::string runtime = SANITIZER_RUNTIME;
  const std::string before = runtime.empty() ? "" : "$(c++ -print-file-name=" + runtime + "):";
  return "ASAN_OPTIONS=detect_leaks=0 TSAN_OPTIONS=ignore_noninstrumented_modules=1 LD_PRELOAD=" +
         before + library + " ";
}
