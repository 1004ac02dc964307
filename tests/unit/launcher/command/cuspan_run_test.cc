// `cuspan` and `cuspan-agent` from outside, in an installation with stand-ins for the proxy and the
// client library (fake_proxy.cc, fake_client.cc).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "tests/unit/launcher/command/command.h"

namespace cuspan {
namespace {

using test::Command;
using test::CountLines;
using test::Outcome;
using test::RunCommand;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

const std::string kTree = LAUNCHER_TREE;
const std::string kCuspan = kTree + "/bin/cuspan";
const std::string kAgent = kTree + "/bin/cuspan-agent";
const std::string kClient = kTree + "/bin/fake_client";

using Words = std::vector<std::string>;
using Variables = std::map<std::string, std::string>;

Words Join(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Outcome RunProgram(const Words& options, const Words& app, const Variables& variables = {},
                   const std::string& input = "") {
  return RunCommand(Join(Join(Join({kCuspan, "run", "--device", "soft"}, options), {"--"}), app),
                    variables, input);
}

// The kinds of connection between a program and its devices.
struct Path {
  const char* name;
  Words options;
  Variables variables;
  int devices;
  const char* path;
};

class EveryPath : public testing::TestWithParam<Path> {
 protected:
  Outcome RunProgram(const Words& app, Variables more = {}) {
    more.insert(GetParam().variables.begin(), GetParam().variables.end());
    return cuspan::RunProgram(GetParam().options, app, more);
  }
};

INSTANTIATE_TEST_SUITE_P(
    Launcher, EveryPath,
    testing::Values(Path{"OneNode", {}, {{"FAKE_SOFT", "2"}}, 2, "same-node"},
                    Path{"TwoAgents", {"--same-node", "never"}, {{"FAKE_SOFT", "2"}}, 2, "agents"},
                    Path{"ThreeAgents",
                         {"--hosts", "localhost:1,localhost:1", "--same-node", "never"},
                         {},
                         2,
                         "agents"},
                    Path{"FourAgentsTcp",
                         {"--hosts", "localhost,localhost,localhost", "--same-node", "never"},
                         {{"OMPI_MCA_pml", "ob1"}, {"OMPI_MCA_btl", "tcp,self"}},
                         3,
                         "agents"},
                    Path{"SmallStaging",
                         {"--hosts", "localhost:1,localhost:1", "--same-node", "never"},
                         {{"CUSPAN_STAGING_BUFFERS", "2"},
                          {"CUSPAN_STAGING_BYTES", "8K"},
                          {"CUSPAN_SENDS_IN_FLIGHT", "1"}},
                         2,
                         "agents"}),
    [](const auto& info) { return info.param.name; });

TEST_P(EveryPath, CallsPostedOpsAndCopiesWork) {
  const Outcome outcome = RunProgram({kClient, "work", "3000000"});
  EXPECT_EQ(outcome.exit_status, 0);
  EXPECT_THAT(outcome.err, IsEmpty());
  EXPECT_EQ(CountLines(outcome.out), static_cast<std::size_t>(GetParam().devices));
  EXPECT_THAT(outcome.out, HasSubstr(GetParam().path));
}

TEST_P(EveryPath, AProxyThatDiesIsOneLostDevice) {
  const Outcome outcome = RunProgram({kClient, "crash"});
  EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
  EXPECT_EQ(CountLines(outcome.err), 1U);
  EXPECT_THAT(outcome.err, HasSubstr("is lost: its proxy was killed by signal 9"));
}

TEST_P(EveryPath, ADeviceCanBeClosedAndOpenedAnew) {
  const Outcome outcome = RunProgram({kClient, "reset"});
  EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, IsEmpty());
}

TEST_P(EveryPath, ADeviceWhoseRepliesNobodyReadsHoldsUpNoOther) {
  const Outcome outcome = RunProgram({kClient, "stall"});
  EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
}

TEST_P(EveryPath, AProgramThatAsksWithoutEndLosesItsSession) {
  const Outcome outcome = RunProgram({kClient, "joins"});
  EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("contexts 0 and 1 were connected too often"));
}

TEST_P(EveryPath, ADeviceHasSeveralContexts) {
  const Outcome outcome = RunProgram({kClient, "contexts"});
  EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("context 0 was requested on device 1"));
}

TEST_P(EveryPath, AProxyThatRefusesSaysWhy) {
  const Outcome outcome = RunProgram({kClient, "fail"}, {{"FAKE_RESULT", "999"}});
  EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, StartsWith("999: device 0 (Fake Soft 0 on host "));
  EXPECT_THAT(outcome.out, HasSubstr("as FAKE_RESULT says"));
}

TEST_P(EveryPath, StatisticsNameThePath) {
  Words options = Join(GetParam().options, {"--stats"});
  const Outcome outcome =
      cuspan::RunProgram(options, {kClient, "work", "100000"}, GetParam().variables);
  EXPECT_EQ(outcome.exit_status, 0);
  // A header, and for each device its row, posted operations, and operations waited for.
  EXPECT_EQ(CountLines(outcome.err), 1U + 3U * static_cast<std::size_t>(GetParam().devices))
      << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("device 0, posted: Memset 20000"));
  EXPECT_THAT(outcome.err, HasSubstr("device 0, waited for: LimitGet 2, MemoryInfo 1"));
  const std::string path = GetParam().path == std::string("agents") ? "mpi" : GetParam().path;
  EXPECT_THAT(outcome.err, HasSubstr("  " + path + "  "));
  EXPECT_THAT(outcome.err, HasSubstr("20000"));
}

TEST_P(EveryPath, NothingStaysBehindWhenTheLauncherIsKilled) {
  Command command(Join(Join({kCuspan, "run", "--device", "soft"}, GetParam().options),
                       {"--", kClient, "linger"}),
                  GetParam().variables);
  ASSERT_TRUE(command.WaitFor("ready"));
  ::kill(command.pid(), SIGKILL);
  EXPECT_EQ(command.Wait().signal, SIGKILL);
  command.WaitAllGone();
}

TEST_P(EveryPath, TwoProcessesUseTheSameDevices) {
  const Outcome outcome =
      RunProgram({"sh", "-c", kClient + " work 100000 & " + kClient + " work 100000 && wait $!"});
  EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
  EXPECT_EQ(CountLines(outcome.out), 2 * static_cast<std::size_t>(GetParam().devices));
}

// --- Exit statuses, each with exactly one line

struct Failing {
  const char* name;
  Words options;
  Words app;
  int exit_status;
  const char* line;
};

class Failure : public testing::TestWithParam<Failing> {};

INSTANTIATE_TEST_SUITE_P(
    Launcher, Failure,
    testing::Values(
        Failing{"Missing", {}, {"./missing"}, 127, "cuspan: ./missing: No such file or directory"},
        Failing{
            "NotFound", {}, {"no-such-command"}, 127, "cuspan: no-such-command: command not found"},
        Failing{
            "NotExecutable", {}, {"/etc/passwd"}, 126, "cuspan: /etc/passwd: Permission denied"},
        Failing{"Folder", {}, {"/etc"}, 126, "cuspan: /etc is a directory"},
        Failing{"NoGpus",
                {"--gpus", "0"},
                {"/bin/true"},
                125,
                "cuspan: --gpus 0: a run has 1 to 4096 GPUs"},
        Failing{
            "ManyGpus", {"--gpus", "99"}, {"/bin/true"}, 125, "cuspan: 99 GPUs requested, 1 found"},
        Failing{"BadGpus", {"--gpus", "-1"}, {"/bin/true"}, 125, "cuspan: --gpus -1"},
        Failing{"BadHost",
                {"--hosts", "a,,b"},
                {"/bin/true"},
                125,
                "cuspan: --hosts: '' is not a host"},
        Failing{"NoHostfile",
                {"--hostfile", "/no/such"},
                {"/bin/true"},
                125,
                "cuspan: --hostfile: /no/such cannot be read"},
        Failing{"Unreachable",
                {"--hosts", "localhost,no-such-host.invalid"},
                {"/bin/true"},
                125,
                "cuspan: host no-such-host.invalid cannot be reached: "},
        Failing{"NoSuchOption",
                {"--gpsu", "3"},
                {"/bin/true"},
                125,
                "cuspan: unknown option '--gpsu' (did you mean '--gpus'?); see cuspan run --help"},
        Failing{"NoSuchOptionFirst",
                {"--nonsense", "--gpus", "1"},
                {"/bin/true"},
                125,
                "cuspan: unknown option '--nonsense'; see cuspan run --help"},
        Failing{"NoSuchOptionWithAValue",
                {"--gpus", "1", "--nonsense=3"},
                {"/bin/true"},
                125,
                "cuspan: unknown option '--nonsense=3'; see cuspan run --help"},
        Failing{"NoProgram", {}, {}, 125, "cuspan: no program to run"}),
    [](const auto& info) { return info.param.name; });

TEST_P(Failure, IsOneClearLineAndAStatus) {
  if (std::string(GetParam().line).find("cannot be reached") != std::string::npos &&
      ::access("/usr/bin/ssh", X_OK) != 0)
    GTEST_SKIP() << "there is no ssh here";
  const Outcome outcome = RunProgram(GetParam().options, GetParam().app, {{"OMPI_MCA_plm", "rsh"}});
  EXPECT_EQ(outcome.exit_status, GetParam().exit_status);
  EXPECT_THAT(outcome.err, StartsWith(GetParam().line));
  EXPECT_EQ(CountLines(outcome.err), 1U) << outcome.err;
  EXPECT_THAT(outcome.out, IsEmpty());
}

TEST(CuspanRun, ABadLineOfAHostfileIsNamed) {
  const std::string file = testing::TempDir() + "/bad.hosts." + std::to_string(::getpid());
  std::ofstream(file) << "localhost\nlocalhost slots=many\n";
  const Outcome outcome = RunProgram({"--hostfile", file}, {"/bin/true"});
  std::filesystem::remove(file);
  EXPECT_EQ(outcome.exit_status, 125);
  EXPECT_THAT(outcome.err, HasSubstr(file + ":2: 'localhost slots=many'"));
  EXPECT_EQ(CountLines(outcome.err), 1U);
}

TEST(CuspanRun, AProgramThatCannotBeExecutedIsOneLine) {
  const std::string path = testing::TempDir() + "/program." + std::to_string(::getpid());
  const auto run = [&path](const std::string& content) {
    std::ofstream(path, std::ios::binary) << content;
    ::chmod(path.c_str(), 0755);
    return RunProgram({}, {path});
  };
  // A binary for another machine: not passed to a shell.
  const Outcome binary = run(std::string("\x7f"
                                         "ELF\x02\x01\x01\0\n",
                                         9) +
                             "one\ntwo\n");
  EXPECT_EQ(binary.exit_status, 126);
  EXPECT_EQ(CountLines(binary.err), 1U) << binary.err;
  EXPECT_THAT(binary.err, HasSubstr("cannot execute binary file"));
  const Outcome script = run("#!/no/such/interpreter\n");
  EXPECT_EQ(script.exit_status, 126);
  EXPECT_THAT(script.err, HasSubstr("its interpreter /no/such/interpreter does not exist"));
  // A file without "#!" is run by the shell, with its arguments.
  const Outcome lines = run("echo \"$0 has $#\"\n");
  EXPECT_EQ(lines.exit_status, 0) << lines.err;
  EXPECT_EQ(lines.out, path + " has 0\n");
  ::unlink(path.c_str());
}

TEST(CuspanRun, WithoutADriverItSaysWhatToDo) {
  const Outcome outcome = RunCommand({kCuspan, "run", "--device", "cuda", "--", "/bin/true"});
  EXPECT_EQ(outcome.exit_status, 125);
  EXPECT_THAT(outcome.err, HasSubstr(": no usable GPU: libcuda.so.1 not found; use --device soft"));
  EXPECT_EQ(CountLines(outcome.err), 1U);
}

TEST(CuspanRun, FallsBackToTheSoftwareGpuAndSaysSo) {
  const Outcome outcome = RunCommand({kCuspan, "run", "--", kClient, "count", "1"});
  EXPECT_EQ(outcome.exit_status, 0);
  EXPECT_THAT(outcome.err, HasSubstr("using the software GPU on host "));
  EXPECT_EQ(CountLines(outcome.err), 1U);
}

TEST(CuspanRun, TakesTheDriverWhereItWorks) {
  const Outcome outcome = RunCommand({kCuspan, "run", "--gpus", "2", "--", kClient, "count", "2"},
                                     {{"FAKE_GPUS", "3"}});
  EXPECT_EQ(outcome.exit_status, 0);
  EXPECT_THAT(outcome.err, IsEmpty());
}

// --- The program is undisturbed

TEST(CuspanRun, EndsAsTheProgramEnds) {
  EXPECT_EQ(RunProgram({}, {"/bin/true"}).exit_status, 0);
  EXPECT_EQ(RunProgram({}, {"/bin/false"}).exit_status, 1);
  EXPECT_EQ(RunProgram({}, {"sh", "-c", "exit 77"}).exit_status, 77);
  EXPECT_EQ(RunProgram({}, {"sh", "-c", "kill -SEGV $$"}).signal, SIGSEGV);
  EXPECT_EQ(RunProgram({}, {"sh", "-c", "kill -TERM $$"}).signal, SIGTERM);
}

TEST(CuspanRun, TheProgramHasItsInputAndOutput) {
  std::string lines;
  for (int i = 0; i < 100'000; ++i) lines += std::to_string(i) + "\n";
  const Outcome outcome = RunProgram({"--same-node", "never"}, {"cat"}, {}, lines);
  EXPECT_EQ(outcome.exit_status, 0);
  EXPECT_EQ(outcome.out, lines);
  EXPECT_THAT(outcome.err, IsEmpty());
}

TEST(CuspanRun, TheProgramHasNoFurtherDescriptorsOrChildren) {
  const Words program = {
      "sh", "-c", "read children < /proc/$$/task/$$/children; echo \"$children\"; ls /proc/$$/fd"};
  EXPECT_EQ(RunProgram({}, program).out, RunCommand(program).out);
}

TEST(CuspanRun, TheProgramHasTheSignalsOfItsParent) {
  const Words program = {"grep", "-E", "Sig(Blk|Ign|Cgt)", "/proc/self/status"};
  EXPECT_EQ(RunProgram({}, program).out, RunCommand(program).out);
  // The same under nohup, with a signal ignored for its program.
  EXPECT_EQ(RunCommand(Join({"nohup", kCuspan, "run", "--device", "soft", "--"}, program)).out,
            RunCommand(Join({"nohup"}, program)).out);
}

TEST(CuspanRun, TheProgramIsInTheProcessGroupOfItsParent) {
  // Fields 5 to 7 of stat: process group, session, terminal.
  const Outcome outcome = RunCommand({"sh", "-c",
                                      "cut -d' ' -f5-7 /proc/$$/stat; " + kCuspan +
                                          " run --device soft -- cut -d' ' -f5-7 /proc/self/stat"});
  const std::size_t half = outcome.out.size() / 2;
  EXPECT_EQ(outcome.out.substr(0, half), outcome.out.substr(half));
}

std::set<std::string> LinesOf(const std::string& text) {
  std::istringstream stream(text);
  std::set<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.insert(line);
  return lines;
}

TEST(CuspanRun, TheEnvironmentHasTheFiveVariablesMore) {
  const Words names = {"sh", "-c", "env | cut -d= -f1 | grep -vx _ | sort"};
  const Outcome without = RunCommand(names);
  const Outcome with = RunProgram({"--same-node", "never"}, names);
  std::set<std::string> expected = LinesOf(without.out);
  expected.insert(
      {"CUFILE_ENV_PATH_JSON", "CUSPAN_SECRET", "CUSPAN_SOCKET", "LD_LIBRARY_PATH", "LD_PRELOAD"});
  EXPECT_EQ(LinesOf(with.out), expected);
}

TEST(CuspanRun, RunsInsideARun) {
  const std::string inner = kCuspan + " run --device soft --same-node never -- " + kClient;
  const Outcome outcome = RunProgram(
      {"--same-node", "never"},
      {"sh", "-c", inner + " count 3 && " + kClient + " count 3 && " + inner + " work 1000"},
      {{"FAKE_SOFT", "3"}});
  EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
}

TEST(CuspanRun, AProgramMayBeAnMpiJob) {
  const Outcome outcome = RunProgram(
      {"--same-node", "never"},
      {"mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", kClient, "work", "100000"});
  EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
  EXPECT_EQ(CountLines(outcome.out), 2U);
}

TEST(CuspanRun, AnMpiJobMayConsistOfRuns) {
  const Outcome outcome =
      RunCommand({"mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", kCuspan, "run",
                  "--device", "soft", "--same-node", "never", "--", kClient, "work", "100000"});
  EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
  EXPECT_EQ(CountLines(outcome.out), 2U);
}

TEST(CuspanRun, PassesSignalsOn) {
  // Does not use bash's `read -t` on a process substitution: bash may lose a signal during it.
  Command command({kCuspan, "run", "--device", "soft", "--", "sh", "-c",
                   "trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done"});
  ASSERT_TRUE(command.WaitFor("ready"));
  ::kill(command.pid(), SIGTERM);
  EXPECT_EQ(command.Wait().exit_status, 9);
  command.WaitAllGone();
}

TEST(CuspanRun, LeavesTheTerminalsSignalsToTheProgram) {
  Command command(
      {kCuspan, "run", "--device", "soft", "--", "bash", "-c", "echo ready; read line; exit 4"});
  ASSERT_TRUE(command.WaitFor("ready"));
  ::kill(command.pid(), SIGINT);
  ::kill(command.pid(), SIGQUIT);
  EXPECT_EQ(command.Wait().exit_status, 4);
}

TEST(CuspanRun, AnAgentThatDiesIsOneLineAndTheProgramGoesOn) {
  Command command({kCuspan, "run", "--device", "soft", "--same-node", "never", "--", "sh", "-c",
                   kClient + " linger; exit 6"});
  ASSERT_TRUE(command.WaitFor("ready"));
  // The agent serving the device. The head agent has --serve 0.
  ::kill(command.FindDescendant({kAgent, "--serve", "all"}), SIGKILL);
  const Outcome outcome = command.Wait();
  EXPECT_EQ(outcome.exit_status, 6);
  EXPECT_EQ(CountLines(outcome.err), 1U) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("exited on signal 9 (Killed); its devices were lost"));
  command.WaitAllGone();
}

TEST(CuspanRun, NoSecretIsOnACommandLine) {
  const Outcome outcome = RunProgram(
      {"--same-node", "never"},
      // The pattern is passed by a descriptor: grep would find it on its own command line.
      {"sh", "-c",
       "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -c -f /dev/fd/3 3<<EOF\n"
       "$CUSPAN_SECRET\nEOF\n"});
  EXPECT_EQ(outcome.out, "0\n");
}

// --- Untrusted clients

class WrongHello : public testing::TestWithParam<std::pair<const char*, const char*>> {};

INSTANTIATE_TEST_SUITE_P(
    Launcher, WrongHello,
    testing::Values(std::pair("secret", "does not know this run's secret"),
                    std::pair("hash", "different versions of cuspan"),
                    std::pair("bell", "the memory of a bell is not sealed against resizing"),
                    std::pair("op", "expected ClientHello and got op 13"),
                    std::pair("garbage", "frame magic is 0x5a5a")),
    [](const auto& info) { return info.param.first; });

TEST_P(WrongHello, IsRefusedWithTheReason) {
  const Outcome outcome = RunProgram({}, {kClient, "hello", GetParam().first});
  EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr(GetParam().second));
  EXPECT_THAT(outcome.err, HasSubstr(GetParam().second));
  EXPECT_EQ(CountLines(outcome.err), 1U);
}

// --- cuspan devices and the plain mpirun form

TEST(CuspanDevices, ListsWhatARunWouldHave) {
  const Outcome outcome =
      RunCommand({kCuspan, "devices", "--hosts", "localhost:2,localhost:1", "--same-node", "never"},
                 {{"FAKE_GPUS", "3"}});
  EXPECT_EQ(outcome.exit_status, 0);
  // Both agents see the same GPUs. Each GPU counts once.
  EXPECT_EQ(CountLines(outcome.out), 4U) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("Fake GPU"));
  EXPECT_THAT(outcome.err, IsEmpty());
}

TEST(CuspanDevices, PrintsJson) {
  const Outcome outcome = RunCommand({kCuspan, "devices", "--json"}, {{"FAKE_GPUS", "1"}});
  EXPECT_EQ(outcome.exit_status, 0);
  EXPECT_THAT(outcome.out, StartsWith("[\n"));
  EXPECT_THAT(outcome.out, HasSubstr("\"name\": \"Fake GPU\""));
  EXPECT_THAT(outcome.out, HasSubstr("\"compute_capability\": \"9.0\""));
}

const Words kMpirun = {"mpirun",
                       "--allow-run-as-root",
                       "--oversubscribe",
                       "--bind-to",
                       "none",
                       "--mca",
                       "pml",
                       "ob1",
                       "--mca",
                       "btl",
                       "tcp,vader,self"};

Outcome PlainForm(const Words& first, const Words& app, const Words& others,
                  const Variables& variables = {}, const std::string& input = "") {
  Words words = Join(kMpirun, {"-np", "1", "--host", "localhost", kAgent, "--device", "soft"});
  words = Join(Join(Join(words, first), {"--"}), app);
  return RunCommand(Join(Join(words, {":"}), others), variables, input);
}

TEST(PlainMpirun, UsesTheOtherRanks) {
  const Outcome outcome =
      PlainForm({"--same-node", "never"}, {kClient, "work", "1000000"},
                {"-np", "2", "--host", "localhost:2", kAgent, "--device", "soft"});
  EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
  EXPECT_EQ(CountLines(outcome.out), 2U);
  EXPECT_THAT(outcome.out, Not(HasSubstr("same-node")));
}

TEST(PlainMpirun, ARankOnTheSameNodeIsNotUsedTwice) {
  const Outcome outcome =
      PlainForm({}, {kClient, "work", "1000"},
                {"-np", "1", "--host", "localhost", kAgent, "--device", "soft"});
  EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
  EXPECT_EQ(CountLines(outcome.out), 1U);
  EXPECT_THAT(outcome.out, EndsWith("same-node\n"));
}

TEST(PlainMpirun, PassesInputStatusAndACleanEnvironment) {
  // Variables set by the user stay: permission to run as root, MPI's way of sharing memory, and its
  // networks (kMpirun).
  const Outcome outcome =
      PlainForm({},
                {"sh", "-c",
                 "cat; env | grep -E '^(OMPI_|PMIX_|PRTE_|HFI_|IPATH_)' | grep -v -e ALLOW_RUN -e "
                 "PMIX_MCA_gds "
                 "-e OMPI_MCA_pml=ob1 -e OMPI_MCA_btl=tcp; exit 7"},
                {"-np", "1", "--host", "localhost", kAgent, "--device", "soft"}, {}, "one\ntwo\n");
  EXPECT_EQ(outcome.exit_status, 7);
  EXPECT_EQ(outcome.out, "one\ntwo\n");
}

TEST(PlainMpirun, AMissingProgramIsSaid) {
  const Outcome outcome =
      PlainForm({}, {"./missing"}, {"-np", "1", "--host", "localhost", kAgent, "--device", "soft"});
  EXPECT_EQ(outcome.exit_status, 127);
  EXPECT_THAT(outcome.err, HasSubstr("./missing: No such file or directory"));
}

TEST(CuspanAgent, AloneWithAProgramNeedsNoMpirun) {
  const Outcome outcome = RunCommand({kAgent, "--device", "soft", "--", kClient, "work", "1000"});
  EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
}

}  // namespace
}  // namespace cuspan
