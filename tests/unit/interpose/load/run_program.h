// Running programs as a user would, with some variables set.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <string>

struct Outcome {
  int status = -1;  // The exit status; 128 + N for signal N, as shells say it.
  std::string output;
};

// Runs a shell command line; standard output and error come back together.
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

// The line before a command that has `library` preloaded, in a build with
// sanitizers behind their runtime, which the library needs. What the programs do
// without sanitizers in them is not judged.
inline std::string Preload(const std::string& library) {
  const std::string runtime = SANITIZER_RUNTIME;
  const std::string before = runtime.empty() ? "" : "$(c++ -print-file-name=" + runtime + "):";
  return "ASAN_OPTIONS=detect_leaks=0 TSAN_OPTIONS=ignore_noninstrumented_modules=1 LD_PRELOAD=" +
         before + library + " ";
}
