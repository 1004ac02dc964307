// Tests cuspan-proxy as started by an agent: a process with one end of a socket pair.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "common/settings.h"
#include "protocol/channel/channel.h"
#include "protocol/channel/socket.h"
#include "protocol/sharing/pair_folder.h"
#include "protocol/sharing/share_table.h"
#include "tests/unit/protocol/api/another_build.h"

namespace cuspan {
namespace {

// The thread sanitizer allows no mappings at the usual address.
#if defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kWindow = 0x10'0000'0000;
#else
constexpr std::uint64_t kWindow = 0x1800'0000'0000;
#endif

using ::testing::HasSubstr;

constexpr std::chrono::milliseconds kPatience{60'000};

template <typename T>
T Must(Result<T> result) {
  EXPECT_TRUE(result.ok()) << result.status().message();
  if (!result.ok()) std::abort();
  return std::move(*result);
}

class ProcessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto pair = Must(ControlSocket::Pair());
    socket.emplace(std::move(pair.first));
    const int inherited = ::dup(pair.second.fd());  // Without close-on-exec.
    const std::string number = std::to_string(inherited);
    std::string program = CUSPAN_TEST_PROXY;
    std::string option = "--socket";
    std::string value = number;
    char* arguments[] = {program.data(), option.data(), value.data(), nullptr};
    ASSERT_EQ(::posix_spawn(&pid, program.c_str(), nullptr, nullptr, arguments, environ), 0);
    ::close(inherited);
  }
  void TearDown() override {
    if (pid > 0) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }
  // Waits for the process to end. Returns its exit status, or -1 if a signal killed it.
  int Exit() {
    int status = 0;
    ::waitpid(pid, &status, 0);
    pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  static ProxyStart Start(const std::string& driver) {
    ProxyStart start;
    start.secret[3] = 1;
    start.table_hash = kOpTableHash;
    start.driver = driver;
    start.name = "test:0";
    start.window = {kWindow, std::uint64_t{1} << 32, std::uint64_t{1} << 36};
    return start;
  }
  // Sends the start with a channel, both bells, and the GPU's table if the start asks for it. This
  // process keeps the client's side.
  ProxyReady SendStart(const ProxyStart& start, int table = -1) {
    UniqueFd memory = Must(Channel::Create({}));
    Bell proxys = Must(Bell::Create());
    bell = std::make_unique<Bell>(Must(Bell::Create()));
    std::vector<int> fds = {memory.get(), proxys.fd(), bell->fd()};
    if (start.share) fds.push_back(table);
    EXPECT_TRUE(socket->Send(start, fds).ok());
    channel = Must(
        Channel::Attach(std::move(memory), ChannelSide::kClient, bell.get(), std::move(proxys)));
    Result<ProxyReady> ready = socket->Expect<ProxyReady>(kPatience);
    EXPECT_TRUE(ready.ok()) << ready.status().message();
    return ready.ok() ? *ready : ProxyReady{};
  }

  pid_t pid = 0;
  std::optional<ControlSocket> socket;
  std::unique_ptr<Bell> bell;
  std::unique_ptr<Channel> channel;
};

TEST_F(ProcessTest, InventoryOfADriverThatIsNotThere) {
  ASSERT_TRUE(socket->Send(InventoryRequest{"/nowhere/libcuda.so.1", true}).ok());
  const InventoryAnswer answer = Must(socket->Expect<InventoryAnswer>(kPatience));
  EXPECT_THAT(answer.problem, HasSubstr("/nowhere/libcuda.so.1"));
  EXPECT_TRUE(answer.devices.empty());
  EXPECT_EQ(Exit(), 0);
}

TEST_F(ProcessTest, InventoryOfTheVendorsDriverSaysWhatToDo) {
  ASSERT_TRUE(socket->Send(InventoryRequest{"cuda", true}).ok());
  const InventoryAnswer answer = Must(socket->Expect<InventoryAnswer>(kPatience));
  if (answer.devices.empty()) {
    EXPECT_THAT(answer.problem, HasSubstr("--device soft"));
  } else {
    EXPECT_FALSE(answer.devices[0].software);
  }
  EXPECT_EQ(Exit(), 0);
}

TEST_F(ProcessTest, ALibraryThatIsNoDriverIsNamed) {
  ASSERT_TRUE(socket->Send(InventoryRequest{"libm.so.6", true}).ok());
  EXPECT_THAT(Must(socket->Expect<InventoryAnswer>(kPatience)).problem,
              HasSubstr("not a CUDA driver"));
}

TEST_F(ProcessTest, AnotherVersionIsRefused) {
  ProxyStart start = Start("soft");
  start.table_hash = AnotherBuildsOpTableHash();
  const ProxyReady ready = SendStart(start);
  EXPECT_NE(ready.result, 0);
  EXPECT_THAT(ready.message, HasSubstr("different versions"));
  EXPECT_EQ(Exit(), 1);
}

TEST_F(ProcessTest, AStartWithoutASecretIsRefused) {
  ProxyStart start = Start("soft");
  start.secret = {};
  EXPECT_THAT(SendStart(start).message, HasSubstr("secret"));
  EXPECT_EQ(Exit(), 1);
}

// An observer needs no driver and no device.
TEST_F(ProcessTest, AnObserverAnswersAndDoesNothingElse) {
  ProxyStart start = Start("/nowhere/libcuda.so.1");
  start.observe = true;
  const ProxyReady ready = SendStart(start);
  ASSERT_EQ(ready.result, 0) << ready.message;
  channel->Post(NvmlAsk{"nvmlNoQuestion", {}});
  bell->Wait([&] { return channel->HasFrame() || channel->closed(); }, kPatience,
             WaitStages::ForThisMachine());
  const std::optional<Frame> frame = Must(channel->Peek());
  ASSERT_TRUE(frame.has_value());
  EXPECT_EQ(Must(ParseMessage<NvmlAnswer>(*frame)).result, 13);  // NVML_ERROR_FUNCTION_NOT_FOUND
  channel->Pop();
  channel->Post(MemoryMap{kWindow, 4096}, 1);
  EXPECT_EQ(Exit(), 1);
  EXPECT_TRUE(channel->lost());
}

TEST_F(ProcessTest, AnObserverEndsWithItsSocket) {
  ProxyStart start = Start("soft");
  start.observe = true;
  ASSERT_EQ(SendStart(start).result, 0);
  socket.reset();
  EXPECT_EQ(Exit(), 0);
}

TEST_F(ProcessTest, AStartWithoutDescriptorsIsRefused) {
  ASSERT_TRUE(socket->Send(Start("soft")).ok());
  EXPECT_THAT(Must(socket->Expect<ProxyReady>(kPatience)).message, HasSubstr("no channel"));
  EXPECT_EQ(Exit(), 1);
}

TEST_F(ProcessTest, SomethingElseThanAChannelIsRefused) {
  Bell other = Must(Bell::Create());
  const int fds[] = {other.fd(), other.fd(), other.fd()};
  ASSERT_TRUE(socket->Send(Start("soft"), fds).ok());
  const ProxyReady ready = Must(socket->Expect<ProxyReady>(kPatience));
  EXPECT_NE(ready.result, 0);
  EXPECT_NE(ready.message, "");
  EXPECT_EQ(Exit(), 1);
}

TEST_F(ProcessTest, ADriverThatIsNotThereIsNamedInTheAnswer) {
  const ProxyReady ready = SendStart(Start("/nowhere/libcuda.so.1"));
  EXPECT_NE(ready.result, 0);
  EXPECT_THAT(ready.message, HasSubstr("/nowhere/libcuda.so.1"));
  EXPECT_EQ(Exit(), 1);
}

TEST_F(ProcessTest, AnotherMessageThanAStartEndsIt) {
  ASSERT_TRUE(socket->Send(AgentShutdown{}).ok());
  EXPECT_EQ(Exit(), 1);
}

TEST_F(ProcessTest, ASocketThatEndsBeforeTheStartEndsIt) {
  socket.reset();
  EXPECT_EQ(Exit(), 1);
}

#ifdef CUSPAN_TEST_SOFT

class SoftwareProcessTest : public ProcessTest {};

TEST_F(SoftwareProcessTest, InventoryNamesTheSoftwareGpu) {
  ASSERT_TRUE(socket->Send(InventoryRequest{"soft", true}).ok());
  const InventoryAnswer answer = Must(socket->Expect<InventoryAnswer>(kPatience));
  ASSERT_FALSE(answer.devices.empty()) << answer.problem;
  EXPECT_TRUE(answer.devices[0].software);
  EXPECT_TRUE(answer.devices[0].virtual_memory);
  EXPECT_EQ(Exit(), 0);
}

TEST_F(SoftwareProcessTest, AnotherDeviceThanTheListedOneIsRefused) {
  ProxyStart start = Start("soft");
  start.uuid = {1, 2, 3};
  const ProxyReady ready = SendStart(start);
  EXPECT_NE(ready.result, 0);
  EXPECT_THAT(ready.message, HasSubstr("GPU 0 of this host is not the one found"));
  EXPECT_EQ(Exit(), 1);
}

TEST_F(SoftwareProcessTest, ADeviceThatIsNotThereIsNamed) {
  ProxyStart start = Start("soft");
  start.ordinal = 77;
  EXPECT_THAT(SendStart(start).message, HasSubstr("no GPU 77"));
  EXPECT_EQ(Exit(), 1);
}

TEST_F(SoftwareProcessTest, ItEndsWithItsChannel) {
  const ProxyReady ready = SendStart(Start("soft"));
  ASSERT_EQ(ready.result, 0) << ready.message;
  EXPECT_EQ(ready.window.base, kWindow);
  channel->Close(false);
  EXPECT_EQ(Exit(), 0);
}

TEST_F(SoftwareProcessTest, ItEndsWithItsSocket) {
  ASSERT_EQ(SendStart(Start("soft")).result, 0);
  socket.reset();
  EXPECT_EQ(Exit(), 0);
  EXPECT_TRUE(channel->lost());
}

TEST_F(SoftwareProcessTest, AMalformedFrameEndsIt) {
  ASSERT_EQ(SendStart(Start("soft")).result, 0);
  channel->Post(Signal{1});
  FrameHeader header;
  header.op = 60'000;
  ASSERT_TRUE(channel->TryPost(header, {}));
  EXPECT_EQ(Exit(), 1);
  EXPECT_TRUE(channel->lost());
}

TEST_F(SoftwareProcessTest, AWindowThatIsTakenIsReplacedByTheNext) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer ends a process that asks for such an address";
#endif
  ProxyStart start = Start("soft");
  start.window.base = 0x1000'0000'0000'0000;          // Outside the address space of any process.
  start.window.stride = kWindow - start.window.base;  // Modulo 2^64.
  const ProxyReady ready = SendStart(start);
  ASSERT_EQ(ready.result, 0) << ready.message;
  EXPECT_EQ(ready.window.base, kWindow);
}

// A run sharing its GPU in pairs.
class PairProcessTest : public ProcessTest {
 protected:
  void SetUp() override {
    char name[] = "/dev/shm/cuspan-test-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder = name;
    Set(settings::kMpsControl.name, CUSPAN_TEST_MPS_CONTROL);
    Set("FAKE_MPS_JOURNAL", "/dev/null");
    ShareTerms terms;
    terms.shared = terms.pair = true;
    table.emplace(Must(ShareTable::OpenOrCreate(folder, "host", "gpu")));
    table->SetGpuMemory(std::uint64_t{4} << 30);
    ASSERT_TRUE(table->JoinRun("run", "user", "program", terms).ok());
  }
  void TearDown() override {
    ProcessTest::TearDown();
    table.reset();
    // The server ends with its last run. The test's own time-out is the limit.
    while (PairFolders() != 0) ::usleep(5'000);
    for (const std::string& name : variables) ::unsetenv(name.c_str());
    std::filesystem::remove_all(folder);
  }
  void Set(const std::string& name, const std::string& value) {
    ::setenv(name.c_str(), value.c_str(), 1);
    variables.push_back(name);
  }
  ProxyReady StartOn(const std::string& driver) {
    ProcessTest::SetUp();
    EXPECT_TRUE(socket->Send(InventoryRequest{"soft", true}).ok());
    const InventoryAnswer known = Must(socket->Expect<InventoryAnswer>(kPatience));
    EXPECT_EQ(Exit(), 0);
    ProcessTest::SetUp();
    ProxyStart start = Start(driver);
    start.uuid = known.devices.at(0).uuid;
    start.share = true;
    start.share_location = Must(table->FindRun("run"));
    return SendStart(start, Must(table->OpenAgain()).get());
  }
  std::size_t PairFolders() const {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      if (entry.path().filename().string().starts_with("cuspan-pair-")) ++count;
    return count;
  }
  // The software GPU by its file, as if it were another driver.
  static std::string OtherDriver() {
    return (std::filesystem::path(CUSPAN_TEST_PROXY).parent_path() / "soft/libcuda.so.1").string();
  }

  std::string folder;
  std::optional<ShareTable> table;
  std::vector<std::string> variables;
};

TEST_F(PairProcessTest, ItUsesTheMpsServer) {
  const ProxyReady ready = StartOn(OtherDriver());
  ASSERT_EQ(ready.result, 0) << ready.message;
  EXPECT_EQ(PairFolders(), 1U);
  socket.reset();
  EXPECT_EQ(Exit(), 0);
}

TEST_F(PairProcessTest, WithoutMpsItSaysWhatToDo) {
  Set(settings::kMpsControl.name, "/nowhere/mps-control");
  const ProxyReady ready = StartOn(OtherDriver());
  EXPECT_NE(ready.result, 0);
  EXPECT_THAT(ready.message, testing::AllOf(HasSubstr("/nowhere/mps-control"), HasSubstr("install"),
                                            HasSubstr("use --share")));
  EXPECT_EQ(Exit(), 1);
  // The end of the run does the same.
  PairFolder::RemoveUnused(folder);
}

TEST_F(PairProcessTest, ASoftwareGpuNeedsNone) {
  Set(settings::kMpsControl.name, "/nowhere/mps-control");
  const ProxyReady ready = StartOn("soft");
  ASSERT_EQ(ready.result, 0) << ready.message;
  EXPECT_EQ(PairFolders(), 0U);
}

TEST_F(PairProcessTest, ADriverThatIsNotThereLeavesNothing) {
  EXPECT_THAT(StartOn("/nowhere/libcuda.so.1").message, HasSubstr("/nowhere/libcuda.so.1"));
  EXPECT_EQ(Exit(), 1);
}

#endif

}  // namespace
}  // namespace cuspan
