// Tests the MPS server of runs sharing a GPU in pairs, with a fake of NVIDIA's control program:
// start, end, and state left by killed processes.
#include "proxy/sharing/pair_server.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "common/process_fd.h"
#include "common/settings.h"
#include "protocol/sharing/share_table.h"
#include "proxy/sharing/pair_keeper.h"

namespace cuspan::proxy {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kGpu = "GPU-00112233-4455-6677-8899-aabbccddeeff";

std::string ReadAll(const std::filesystem::path& path) {
  // Empty if the process ends meanwhile.
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

class PairServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/dev/shm/cuspan-test-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder_ = name;
    tables_ = folder_ / "tables";
    std::filesystem::create_directory(tables_);
    Set(settings::kMpsControl.name, CUSPAN_TEST_MPS_CONTROL);
    Set("FAKE_MPS_JOURNAL", (folder_ / "journal").string());
  }
  void TearDown() override {
    run_.reset();
    for (const pid_t child : children_) End(child);
    // Kills remaining processes of a failed test, too.
    for (const pid_t pid : Processes("")) ::kill(pid, SIGKILL);
    for (const std::string& name : variables_) ::unsetenv(name.c_str());
    std::filesystem::remove_all(folder_);
  }
  void Set(const std::string& name, const std::string& value) {
    ::setenv(name.c_str(), value.c_str(), 1);
    variables_.push_back(name);
  }

  void StartRun(bool pair = true) {
    Result<ShareTable> table = ShareTable::OpenOrCreate(tables_, "host", "gpu");
    ASSERT_TRUE(table.ok()) << table.status().message();
    ShareTerms terms;
    terms.shared = true;
    terms.pair = pair;
    ASSERT_TRUE(table->JoinRun("run", "user", "program", terms).ok());
    run_.emplace(std::move(*table));
  }
  PairServer::Request Request() const {
    return {(tables_ / Format("cuspan-share-host-gpu-{}", ::geteuid())).string(), kGpu,
            CUSPAN_TEST_PROXY};
  }
  std::string PairPath() const { return *PairFolder::PathFor(Request().table); }
  std::unique_ptr<PairServer> Join() const {
    Result<std::unique_ptr<PairServer>> joined = PairServer::Join(Request());
    EXPECT_TRUE(joined.ok()) << joined.status().message();
    return joined.ok() ? std::move(*joined) : nullptr;
  }
  Status WhyNot() const { return PairServer::Join(Request()).status(); }
  // Starts a client in a child process. It ends with the test, or when killed.
  pid_t JoinInChild() {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      const std::unique_ptr<PairServer> joined = Join();
      const char word = joined != nullptr ? 'j' : 'f';
      [[maybe_unused]] const ssize_t told = ::write(ends[1], &word, 1);
      for (;;) ::pause();
    }
    children_.push_back(child);
    joining_.push_back(ends[0]);
    ::close(ends[1]);
    return child;
  }
  void AwaitChildren() {
    for (const int end : joining_) {
      char word = 0;
      EXPECT_EQ(::read(end, &word, 1), 1);
      EXPECT_EQ(word, 'j');
      ::close(end);
    }
    joining_.clear();
  }
  // Returns once the process and its locks are gone.
  static void Kill(pid_t pid) {
    const UniqueFd process = OpenProcess(pid);
    ::kill(pid, SIGKILL);
    pollfd waited{process.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&waited, 1, -1), 1);
  }
  static void End(pid_t child) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }

  // This test's keeper, daemon and server, if their command line contains `text`.
  std::vector<pid_t> Processes(const std::string& text) const {
    std::vector<pid_t> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const pid_t pid = std::atoi(entry.path().filename().c_str());
      if (pid == 0 || pid == ::getpid()) continue;
      std::string line = ReadAll(entry.path() / "cmdline");
      const std::string environment = ReadAll(entry.path() / "environ");
      const bool keeper = line.find(tables_.string()) != std::string::npos;
      if (!keeper &&
          environment.find("CUDA_MPS_PIPE_DIRECTORY=" + tables_.string()) == std::string::npos)
        continue;
      std::replace(line.begin(), line.end(), '\0', ' ');
      if (line.find(text) != std::string::npos) found.push_back(pid);
    }
    return found;
  }
  pid_t TheProcess(const std::string& text) const {
    const std::vector<pid_t> found = Processes(text);
    EXPECT_EQ(found.size(), 1U) << text;
    return found.empty() ? 0 : found.front();
  }
  pid_t Keeper() const { return TheProcess(kKeepPairServer); }
  pid_t Daemon() const { return TheProcess("fake_mps_control.py -f"); }
  pid_t Server() const { return TheProcess("sleep 1000"); }
  // Number of daemons started.
  std::size_t Started() const {
    const std::string lines = ReadAll(folder_ / "journal");
    return static_cast<std::size_t>(std::count(lines.begin(), lines.end(), '\n'));
  }
  std::vector<std::string> PairFolders() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(tables_))
      if (entry.path().filename().string().starts_with("cuspan-pair-"))
        found.push_back(entry.path());
    return found;
  }
  // The test's own time-out is the limit.
  static void Until(const std::function<bool()>& condition) {
    while (!condition()) ::usleep(5'000);
  }
  void AwaitNothingLeft() const {
    Until([this] { return Processes("").empty() && PairFolders().empty(); });
  }

  std::filesystem::path folder_, tables_;
  std::optional<ShareTable> run_;
  std::vector<pid_t> children_;
  std::vector<int> joining_;
  std::vector<std::string> variables_;
};

TEST_F(PairServerTest, TheFirstClientStartsItForAll) {
  StartRun();
  const std::unique_ptr<PairServer> first = Join(), second = Join();
  EXPECT_EQ(Started(), 1U);
  EXPECT_THAT(PairFolders(), ElementsAre(PairPath()));
  struct stat found {};
  ASSERT_EQ(::stat(PairPath().c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0700U);
}

TEST_F(PairServerTest, TheDaemonHasTheGpuAloneAndNoSettingsOfTheFirstRun) {
  StartRun();
  Set("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "10");
  Set("CUDA_VISIBLE_DEVICES", "3");
  const std::unique_ptr<PairServer> client = Join();
  EXPECT_EQ(ReadAll(folder_ / "journal"),
            Format("CUDA_MPS_LOG_DIRECTORY={0}/log CUDA_MPS_PIPE_DIRECTORY={0}/pipe "
                   "CUDA_VISIBLE_DEVICES={1}\n",
                   PairPath(), kGpu));
}

TEST_F(PairServerTest, SeveralThatComeAtOnceStartOne) {
  StartRun();
  for (int i = 0; i < 6; ++i) JoinInChild();
  AwaitChildren();
  EXPECT_EQ(Started(), 1U);
}

TEST_F(PairServerTest, ItBelongsToNoRun) {
  StartRun();
  // Example: an agent passes the GPU's lock to a proxy.
  const int lease = ::open((folder_ / "lease").c_str(), O_RDWR | O_CREAT, 0600);
  const std::unique_ptr<PairServer> client = Join();
  ::close(lease);
  for (const pid_t pid : Processes("")) {
    EXPECT_NE(::getsid(pid), ::getsid(0));
    for (const auto& entry : std::filesystem::directory_iterator(Format("/proc/{}/fd", pid))) {
      std::error_code gone;
      const std::string file = std::filesystem::read_symlink(entry.path(), gone).string();
      EXPECT_THAT(file, Not(HasSubstr("/lease"))) << pid;
      if (entry.path().filename() == "1" || entry.path().filename() == "2") {
        EXPECT_THAT(file, ::testing::AnyOf("/dev/null", HasSubstr("/log/"))) << pid;
      }
    }
  }
}

TEST_F(PairServerTest, AClientThatLeavesIsEndedByIt) {
  StartRun();
  const std::unique_ptr<PairServer> client = Join(), other = Join();
  client->Leave();
  EXPECT_EQ(ReadAll(folder_ / "journal-ended"),
            Format("terminate_client {} {}\n", Server(), ::getpid()));
}

TEST_F(PairServerTest, LeavingAServerThatIsGoneDoesNothing) {
  StartRun();
  const std::unique_ptr<PairServer> client = Join();
  Kill(Daemon());
  Until([this] { return Processes("").empty(); });
  client->Leave();
  EXPECT_EQ(ReadAll(folder_ / "journal-ended"), "");
}

TEST_F(PairServerTest, ItStaysForTheRunsAndEndsWithTheLast) {
  StartRun();
  for (int i = 0; i < 3; ++i) Join().reset();
  EXPECT_EQ(Started(), 1U);
  run_.reset();
  AwaitNothingLeft();
}

TEST_F(PairServerTest, ItEndsBesideARunThatSharesByTime) {
  StartRun();
  std::unique_ptr<PairServer> client = Join();
  run_.reset();
  StartRun(false);
  client.reset();
  AwaitNothingLeft();
}

TEST_F(PairServerTest, ItStaysAsLongAsAClientLives) {
  StartRun();
  std::unique_ptr<PairServer> client = Join();
  run_.reset();
  // The server keeps running while another client joins and leaves.
  Join().reset();
  EXPECT_EQ(Started(), 1U);
  client.reset();
  AwaitNothingLeft();
}

TEST_F(PairServerTest, WhoComesWhileItEndsGetsAnother) {
  for (std::size_t round = 1; round <= 5; ++round) {
    StartRun();
    const std::unique_ptr<PairServer> client = Join();
    ASSERT_NE(client, nullptr);
    EXPECT_TRUE(std::filesystem::exists(PairPath() + "/pipe/control"));
    run_.reset();
  }
  AwaitNothingLeft();
}

TEST_F(PairServerTest, AfterAllClientsAndTheRunAreKilledNothingIsLeft) {
  // The run's slot ends with its process, too.
  const pid_t run = ::fork();
  if (run == 0) {
    StartRun();
    for (;;) ::pause();
  }
  Until([this] {
    const Result<ShareTable> table = ShareTable::Open(tables_, "host", "gpu");
    return table.ok() && table->HasRuns();
  });
  const pid_t first = JoinInChild(), second = JoinInChild();
  AwaitChildren();
  for (const pid_t child : {first, run, second}) End(child);
  children_.clear();
  AwaitNothingLeft();
}

TEST_F(PairServerTest, AfterTheKeeperIsKilledTheNextStartsAnew) {
  StartRun();
  const std::unique_ptr<PairServer> client = Join();
  const pid_t server = Server();
  Kill(Keeper());
  Until([this] { return Processes("fake_mps_control.py -f").empty(); });
  const std::unique_ptr<PairServer> next = Join();
  EXPECT_EQ(Started(), 2U);
  EXPECT_NE(Server(), server);
}

TEST_F(PairServerTest, AfterTheKeeperIsKilledTheEndOfARunRemovesWhatIsLeft) {
  StartRun();
  std::unique_ptr<PairServer> client = Join();
  Kill(Keeper());
  PairFolder::RemoveUnused(tables_);
  EXPECT_THAT(PairFolders(), Not(IsEmpty())) << "a client is still there";
  client.reset();
  PairFolder::RemoveUnused(tables_);
  EXPECT_THAT(PairFolders(), IsEmpty());
  AwaitNothingLeft();
}

TEST_F(PairServerTest, WhatIsUsedIsNotRemoved) {
  StartRun();
  const std::unique_ptr<PairServer> client = Join();
  PairFolder::RemoveUnused(tables_);
  EXPECT_THAT(PairFolders(), ElementsAre(PairPath()));
  EXPECT_NE(Server(), 0);
}

TEST_F(PairServerTest, AfterTheDaemonIsKilledTheNextStartsAnew) {
  StartRun();
  const std::unique_ptr<PairServer> client = Join();
  Kill(Daemon());
  Until([this] { return Processes("").empty(); });
  const std::unique_ptr<PairServer> next = Join();
  EXPECT_EQ(Started(), 2U);
}

TEST_F(PairServerTest, ADaemonThatIsKilledWithoutClientsLeavesNothing) {
  StartRun();
  Join().reset();
  Kill(Daemon());
  AwaitNothingLeft();
}

TEST_F(PairServerTest, ADaemonThatDoesNotQuitIsKilled) {
  StartRun();
  Set("FAKE_MPS", "deaf");
  Join().reset();
  run_.reset();
  AwaitNothingLeft();
}

TEST_F(PairServerTest, ADaemonThatEndsAtOnceSaysWhy) {
  StartRun();
  Set("FAKE_MPS", "exits");
  EXPECT_THAT(WhyNot().message(), AllOf(HasSubstr("NVIDIA's MPS"), HasSubstr("exit status 1"),
                                        HasSubstr("no such GPU"), HasSubstr("use --share")));
  PairFolder::RemoveUnused(tables_);
  AwaitNothingLeft();
}

TEST_F(PairServerTest, ADaemonThatDoesNotAnswerIsEnded) {
  StartRun();
  Set("FAKE_MPS", "hangs");
  EXPECT_THAT(WhyNot().message(),
              AllOf(HasSubstr("did not answer within"), HasSubstr("use --share")));
  PairFolder::RemoveUnused(tables_);
  AwaitNothingLeft();
}

TEST_F(PairServerTest, AMissingProgramIsNamed) {
  Set(settings::kMpsControl.name, "/nowhere/mps-control");
  const Status status = WhyNot();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("/nowhere/mps-control"), HasSubstr("install"),
                                      HasSubstr("use --share")));
}

TEST_F(PairServerTest, AKeeperThatCanNotBeStartedIsReported) {
  PairServer::Request wanted = Request();
  wanted.executable = "/nowhere/cuspan-proxy";
  EXPECT_THAT(PairServer::Join(wanted).status().message(), HasSubstr("keeper"));
}

TEST_F(PairServerTest, SomethingElseInItsPlaceIsRefused) {
  const std::string path = PairPath();
  const auto refused = [&] {
    const Status status = WhyNot();
    EXPECT_EQ(status.code(), StatusCode::kRefused);
    EXPECT_THAT(status.message(), AllOf(HasSubstr(path), HasSubstr("CUSPAN_SHARE_FOLDER")));
    // It is not removed, either.
    PairFolder::RemoveUnused(tables_);
    EXPECT_THAT(PairFolders(), ElementsAre(path));
    std::filesystem::remove(path);
  };
  std::ofstream(path) << "mine";
  refused();
  std::filesystem::create_directory_symlink(folder_, path);
  refused();
  std::filesystem::create_directory(path);
  std::filesystem::permissions(path, std::filesystem::perms{0755});
  refused();
}

TEST_F(PairServerTest, AFolderThatAKilledRunHasLeftIsUsed) {
  StartRun();
  for (const char* part : {"", "/pipe", "/log"}) {
    std::filesystem::create_directory(PairPath() + part);
    std::filesystem::permissions(PairPath() + part, std::filesystem::perms{0700});
  }
  std::ofstream(PairPath() + "/pipe/control") << "no socket";
  EXPECT_NE(Join(), nullptr);
  run_.reset();
  AwaitNothingLeft();
}

TEST(PairFolder, ANameThatIsTooLongForSocketsIsRefused) {
  const std::string name =
      "/cuspan-share-" + std::string(64, 'h') + "-" + std::string(32, 'a') + "-1000";
  const Result<std::string> path = PairFolder::PathFor("/dev/shm" + name);
  ASSERT_TRUE(path.ok()) << path.status().message();
  EXPECT_THAT(*path, ::testing::StartsWith("/dev/shm/cuspan-pair-"));
  EXPECT_NE(*path, *PairFolder::PathFor("/dev/shm/cuspan-share-host-gpu-1000"));
  const Status status = PairFolder::PathFor("/" + std::string(80, 'f') + name).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalid);
  EXPECT_THAT(status.message(), HasSubstr("CUSPAN_SHARE_FOLDER"));
  EXPECT_FALSE(PairFolder::PathFor("").ok());
}

TEST_F(PairServerTest, TheDriverFindsItByTheEnvironment) {
  StartRun();
  const std::unique_ptr<PairServer> client = Join();
  for (const char* name : {"CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY",
                           "CUDA_VISIBLE_DEVICES", "CUDA_MPS_CLIENT_PRIORITY"})
    Set(name, "");
  const auto value = [](const char* name) {
    const char* const text = std::getenv(name);
    return std::string(text == nullptr ? "" : text);
  };
  ShareTerms terms;
  client->SetEnvironment(terms);
  EXPECT_EQ(value("CUDA_MPS_PIPE_DIRECTORY"), PairPath() + "/pipe");
  EXPECT_EQ(value("CUDA_MPS_LOG_DIRECTORY"), PairPath() + "/log");
  EXPECT_EQ(value("CUDA_VISIBLE_DEVICES"), kGpu);
  EXPECT_EQ(value("CUDA_MPS_CLIENT_PRIORITY"), "0");
  EXPECT_EQ(value("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), "");
  Set("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "");
  terms.niceness = -10;
  terms.process_niceness = 11;
  terms.limit = 755;
  client->SetEnvironment(terms);
  EXPECT_EQ(value("CUDA_MPS_CLIENT_PRIORITY"), "1");
  EXPECT_EQ(value("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), "76");
  terms.limit = 1;
  client->SetEnvironment(terms);
  EXPECT_EQ(value("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), "1");
}

TEST(PairFault, AFaultIsOfThisRunOnlyIfItHadWork) {
  for (const CUresult fault : {CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_LAUNCH_FAILED}) {
    const FaultExplanation own = ExplainPairFault(fault, true);
    EXPECT_EQ(own.result, fault);
    EXPECT_THAT(own.text, HasSubstr("of this run, or of another"));
    const FaultExplanation others = ExplainPairFault(fault, false);
    EXPECT_EQ(others.result, CUDA_ERROR_DEVICE_UNAVAILABLE);
    EXPECT_THAT(others.text, HasSubstr("of another run"));
  }
}

TEST(PairFault, WithoutItsServerARunEnds) {
  for (const bool had_work : {false, true}) {
    const FaultExplanation fault = ExplainPairFault(CUDA_ERROR_MPS_RPC_FAILURE, had_work);
    EXPECT_EQ(fault.result, CUDA_ERROR_DEVICE_UNAVAILABLE);
    EXPECT_THAT(fault.text, HasSubstr("MPS server"));
  }
}

TEST(PairFault, WhatNoOtherRunCanDoIsLeftAsItIs) {
  const FaultExplanation fault = ExplainPairFault(CUDA_ERROR_ECC_UNCORRECTABLE, false);
  EXPECT_EQ(fault.result, CUDA_ERROR_ECC_UNCORRECTABLE);
  EXPECT_STREQ(fault.text, "");
}

}  // namespace
}  // namespace cuspan::proxy
