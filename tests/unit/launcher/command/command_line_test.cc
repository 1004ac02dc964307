// Command lines of `cuspan` and `cuspan-agent` without a start of anything: help, mistakes, lists.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/launcher/command/command.h"

namespace cuspan {
namespace {

using test::CountLines;
using test::Outcome;
using test::RunCommand;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

const std::string kInstallation = LAUNCHER_TREE;
const std::string kCommand = kInstallation + "/bin/cuspan";
const std::string kAgentCommand = kInstallation + "/bin/cuspan-agent";

using Line = std::vector<std::string>;

Outcome RunWith(const Line& words) {
  Line whole = {kCommand};
  whole.insert(whole.end(), words.begin(), words.end());
  return RunCommand(whole);
}

TEST(CuspanCommand, HelpAndVersion) {
  const Outcome help = RunCommand({kCommand, "--help"});
  EXPECT_EQ(help.exit_status, 0);
  for (const char* part : {"run", "devices", "cuspan help variables"})
    EXPECT_THAT(help.out, HasSubstr(part));
  const Outcome variables = RunCommand({kCommand, "help", "variables"});
  EXPECT_EQ(variables.exit_status, 0);
  for (const char* part : {"CUSPAN_DEVICE", "CUSPAN_STAGING_BYTES", "MPIRUN"})
    EXPECT_THAT(variables.out, HasSubstr(part));
  EXPECT_EQ(RunCommand({kCommand, "run", "--help"}).exit_status, 0);
  const Outcome version = RunCommand({kCommand, "--version"});
  EXPECT_THAT(version.out, StartsWith("cuspan "));
  const Outcome command = RunCommand({kCommand, "version"});
  EXPECT_EQ(command.exit_status, 0);
  EXPECT_EQ(command.out, version.out);
  EXPECT_THAT(command.err, IsEmpty());
}

TEST(CuspanCommand, HelpNamesEveryCommand) {
  const Outcome help = RunCommand({kCommand, "--help"});
  for (const char* command : {"run", "devices", "queue", "top", "doctor", "support", "bench",
                              "store", "version", "help"}) {
    EXPECT_THAT(help.out, HasSubstr(std::string("\n  ") + command + " "));
    const Outcome own = RunCommand({kCommand, command, "--help"});
    EXPECT_EQ(own.exit_status, 0) << command;
    EXPECT_THAT(own.out, HasSubstr("--help")) << command;
  }
}

TEST(CuspanAgent, HelpShowsWhatAUserSets) {
  const Outcome help = RunCommand({kAgentCommand, "--help"});
  EXPECT_EQ(help.exit_status, 0);
  for (const char* option : {"--gpus", "--device", "--same-node", "--stats", "--trace"})
    EXPECT_THAT(help.out, HasSubstr(option));
  for (const char* option : {"--alone", "--place", "--look", "--order", "--program"})
    EXPECT_THAT(help.out, Not(HasSubstr(option)));
}

// A command line without a valid command prints one line, with all commands.
TEST(CuspanCommand, WithoutACommandItNamesThem) {
  const char* all =
      "run, devices, queue, top, metrics, doctor, support, bench, store, completion, version";
  const std::vector<std::pair<Line, std::string>> cases = {
      {{}, "cuspan: no command given; "},
      {{"--"}, "cuspan: no command given; "},
      {{"rn"}, "cuspan: unknown command 'rn' (did you mean 'run'?); "},
      {{"abacus", "--gpus", "1"}, "cuspan: unknown command 'abacus'; "},
      {{"--gpus", "1", "--", "/bin/true"}, "cuspan: unknown option '--gpus'; "}};
  for (const auto& [words, line] : cases) {
    const Outcome outcome = RunWith(words);
    EXPECT_EQ(outcome.exit_status, 2) << line;
    EXPECT_THAT(outcome.out, IsEmpty());
    EXPECT_THAT(outcome.err, StartsWith(line));
    EXPECT_THAT(outcome.err, HasSubstr(all));
    EXPECT_EQ(CountLines(outcome.err), 1U) << outcome.err;
  }
}

TEST(CuspanCommand, HelpIsACommandToo) {
  for (const auto& [words, option] :
       {std::pair(Line{"help"}, Line{"--help"}), {{"help", "run"}, {"run", "--help"}}}) {
    const Outcome outcome = RunWith(words);
    EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
    EXPECT_EQ(outcome.out, RunWith(option).out);
  }
}

TEST(CuspanCommand, WhatACommandDoesNotTakeIsNamed) {
  const std::vector<std::pair<Line, std::string>> cases = {
      {{"devices", "--jsno"},
       "cuspan: unknown option '--jsno' (did you mean '--json'?); see cuspan devices --help\n"},
      {{"run", "--gpus"}, "cuspan: --gpus needs a value; see cuspan --help\n"},
      {{"run", "--gpus", "1", "--gpus", "2", "--", "true"},
       "cuspan: --gpus is given more than once; see cuspan --help\n"},
      {{"run", "-np", "0", "--", "true"}, "cuspan: -np 0: the number of ranks is 1 to 4096\n"},
      {{"queue", "n1"}, "cuspan: unexpected argument 'n1'; see cuspan queue --help\n"},
      {{"queue", "--", "/bin/true"}, "cuspan: queue takes no program; see cuspan queue --help\n"},
      {{"top", "--", "/bin/true"}, "cuspan: top takes no program; see cuspan top --help\n"},
      {{"top", "--every", "0.1"},
       "cuspan: --every 0.1: use a number of seconds from 0.5 to 3600\n"},
      {{"top", "--every", "2s"}, "cuspan: --every 2s: use a number of seconds from 0.5 to 3600\n"},
      {{"bench", "--fast"}, "cuspan: unknown option '--fast'; see cuspan bench --help\n"},
      {{"store"}, "cuspan: action is required; see cuspan --help\n"},
      {{"store", "pln"}, "cuspan: store pln: use plan\n"},
      {{"store", "plan", "--", "true"},
       "cuspan: store takes no program; see cuspan store --help\n"},
      {{"store", "plan", "--rate", "0"},
       "cuspan: --rate 0: write reads per second from 1 to 1000T, such as 106K\n"},
      {{"version", "2"}, "cuspan: unexpected argument '2'; see cuspan version --help\n"}};
  for (const auto& [words, line] : cases) {
    const Outcome outcome = RunWith(words);
    EXPECT_EQ(outcome.exit_status, 125) << line;
    EXPECT_EQ(outcome.err, line);
  }
}

TEST(CuspanCommand, HelpNamesItsTopics) {
  const Outcome outcome = RunWith({"help", "variable"});
  EXPECT_EQ(outcome.exit_status, 2);
  EXPECT_THAT(outcome.out, IsEmpty());
  EXPECT_THAT(outcome.err, StartsWith("cuspan: no help on 'variable' (did you mean 'variables'?); "
                                      "there is help on run, devices, "));
  EXPECT_EQ(CountLines(outcome.err), 1U) << outcome.err;
  const Outcome more = RunWith({"help", "run", "devices"});
  EXPECT_EQ(more.exit_status, 125);
  EXPECT_EQ(more.err, "cuspan: unexpected argument 'devices'; see cuspan help --help\n");
}

// --- cuspan bench: the installed programs of this name

TEST(CuspanBench, ListsAndRunsWhatIsInstalled) {
  const Outcome none = RunCommand({kCommand, "bench"});
  EXPECT_EQ(none.exit_status, 127);
  EXPECT_THAT(none.err, StartsWith("cuspan: there are no benchmarks in " + kInstallation));
  const std::string program = kInstallation + "/lib/cuspan/cuspan-bench-words";
  std::ofstream(program) << "#!/bin/sh\necho \"$@\"\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const Outcome list = RunCommand({kCommand, "bench"});
  const Outcome run = RunCommand({kCommand, "bench", "words", "--quick", "--", "a"});
  const Outcome unknown = RunCommand({kCommand, "bench", "word"});
  std::filesystem::remove(program);
  EXPECT_EQ(list.exit_status, 0) << list.err;
  EXPECT_THAT(list.out, StartsWith("benchmarks: words; "));
  EXPECT_EQ(run.exit_status, 0) << run.err;
  EXPECT_EQ(run.out, "--quick -- a\n");
  EXPECT_EQ(unknown.exit_status, 127);
  EXPECT_THAT(unknown.err, StartsWith("cuspan: unknown benchmark 'word'; installed in "));
}

}  // namespace
}  // namespace cuspan
