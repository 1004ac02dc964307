// Messages between a doctor and its probes.
#include "launcher/doctor/probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "launcher/doctor/child.h"
#include "launcher/doctor/folders.h"
#include "launcher/doctor/listener.h"
#include "ops.gen.h"

namespace cuspan::doctor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

std::chrono::steady_clock::time_point Soon() {
  return std::chrono::steady_clock::now() + std::chrono::seconds(60);
}

TEST(DoctorFacts, AreReadAsTheyAreWritten) {
  HostFacts facts;
  facts.host = "n1";
  facts.version = CUSPAN_VERSION;
  facts.protocol = Format("{:016x}", kOpTableHash);
  facts.gpus = {{"a \"name\"\n\xff", true, 3, 12040}};
  facts.limits.open_files = ~std::uint64_t{0};
  facts.temporary = {"/tmp", "full", 7};
  facts.places = {"10.0.0.1:4242"};
  facts.time = 1.5;
  const std::string line = FactsText(facts);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_TRUE(LooksLikeFacts(line));
  const Result<HostFacts> read = ParseFacts(line);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_THAT(read->gpus[0].name, StartsWith("a \"name\"\n"));
  EXPECT_EQ(read->limits.open_files, ~std::uint64_t{0});
  EXPECT_EQ(read->temporary.problem, "full");
  EXPECT_EQ(FactsText(*read), line);
}

TEST(DoctorFacts, OfOthersAreTheirVersion) {
  const Result<HostFacts> read =
      ParseFacts(R"({"cuspan_doctor":{"version":"9.9","protocol":"1","places":7}})");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->version, "9.9");
  for (const char* const line :
       {"", "{", R"({"cuspan_doctor":1})", R"({"cuspan_doctor":{}})", "[]"})
    EXPECT_FALSE(ParseFacts(line).ok()) << line;
  EXPECT_FALSE(LooksLikeFacts("Welcome to n1"));
}

TEST(DoctorFacts, MeaninglessVariablesAreNamed) {
  const Environment environment(
      {"CUSPAN_LANES=2", "CUSPAN_LANE=2", "CUSPAN_WHATEVER_ELSE=1", "XCUSPAN_=1"});
  EXPECT_THAT(UnknownSettings(environment),
              ElementsAre("CUSPAN_LANE (did you mean CUSPAN_LANES?)", "CUSPAN_WHATEVER_ELSE"));
}

class DoctorListener : public ::testing::Test {
 protected:
  DoctorListener() : passwords_(*RandomPasswords()), listener_(*Listener::Open(passwords_)) {
    // A host may have only a loopback interface.
    const std::string place = listener_->places().empty() ? "" : listener_->places().front();
    target_ = {"n1", {place}, passwords_};
  }
  void SetUp() override {
    if (listener_->places().empty()) GTEST_SKIP() << "this host has no network";
  }
  Passwords passwords_;
  std::unique_ptr<Listener> listener_;
  Target target_;
};

TEST_F(DoctorListener, IsReached) {
  const std::vector<Reached> reached = ReachAll({target_, target_});
  ASSERT_EQ(reached.size(), 2U);
  for (const Reached& one : reached) {
    EXPECT_EQ(one.problem, "");
    EXPECT_EQ(one.place, target_.places[0]);
    EXPECT_GT(one.mtu, 0U);
    EXPECT_EQ(one.mtu, one.peer_mtu);
  }
  EXPECT_GT(Measure(target_, 1).bytes_per_second, 0);
}

TEST_F(DoctorListener, IsOnlyItself) {
  Target other = target_;
  other.passwords.answer = RandomPasswords()->answer;
  EXPECT_THAT(ReachAll({other})[0].problem, HasSubstr("another program answers"));
  other = target_;
  other.passwords.ask = RandomPasswords()->ask;
  EXPECT_THAT(ReachAll({other})[0].problem, HasSubstr(target_.places[0]));
  EXPECT_EQ(ReachAll({{"n1", {}, passwords_}})[0].problem, "it has no address");
  listener_.reset();
  EXPECT_THAT(Measure(target_, 1).problem, HasSubstr("cannot be reached"));
}

TEST(DoctorChild, IsHeardAndEnded) {
  const Environment environment = Environment::OfThisProcess();
  Result<Child> child = Child::Start(
      {"sh", "-c", "read line; echo \"got $line\"; echo bad >&2; exit 3"}, environment);
  ASSERT_TRUE(child.ok());
  child->Send("this");
  EXPECT_EQ(*child->ReadLine(Soon()), "got this");
  EXPECT_FALSE(child->ReadLine(Soon()).ok());
  EXPECT_FALSE(child->late());
  EXPECT_EQ(WEXITSTATUS(*child->Wait(Soon())), 3);
  EXPECT_EQ(child->errors(), "bad\n");

  // Its descendants end with it, in spite of open descriptors.
  Result<Child> stubborn =
      Child::Start({"sh", "-c", "trap '' TERM; sleep 1000 & echo $!; wait"}, environment);
  ASSERT_TRUE(stubborn.ok());
  const int sleeper = std::stoi(*stubborn->ReadLine(Soon()));
  EXPECT_FALSE(stubborn->ReadLine(std::chrono::steady_clock::now()).ok());
  EXPECT_TRUE(stubborn->late());
  { const Child gone = std::move(*stubborn); }
  while (::kill(sleeper, 0) == 0 && std::filesystem::exists(Format("/proc/{}/exe", sleeper)))
    ::usleep(1000);
}

TEST(DoctorChild, MuchIsNotKept) {
  Result<Child> child =
      Child::Start({"sh", "-c", "head -c 8M /dev/zero"}, Environment::OfThisProcess());
  ASSERT_TRUE(child.ok());
  EXPECT_FALSE(child->ReadLine(Soon()).ok());
  EXPECT_EQ(WEXITSTATUS(*child->Wait(Soon())), 0);
  EXPECT_LE(child->output().size(), std::size_t{1} << 20);
}

TEST(DoctorChild, SaysWhyItFailed) {
  const Environment environment = Environment::OfThisProcess();
  constexpr std::chrono::seconds kLimit{60};
  EXPECT_EQ(FailureOf({"true"}, environment, kLimit), "");
  EXPECT_THAT(FailureOf({"/no/command"}, environment, kLimit), HasSubstr("/no/command: No such"));
  EXPECT_EQ(FailureOf({"sh", "-c", "echo why >&2; exit 1"}, environment, kLimit), "why");
  EXPECT_EQ(FailureOf({"false"}, environment, kLimit), "false exited with status 1");
}

TEST(DoctorFolders, AreTriedAndLeftAlone) {
  std::string name = (std::filesystem::temp_directory_path() / "doctor-XXXXXX").string();
  ASSERT_NE(::mkdtemp(name.data()), nullptr);
  EXPECT_EQ(TryFolder(name).problem, "");
  EXPECT_GT(TryFolder(name).free_bytes, 0U);
  EXPECT_EQ(TryLockFolder(name).problem, "");
  EXPECT_EQ(TryCacheFolder(name + "/a/b").problem, "");
  EXPECT_TRUE(std::filesystem::is_empty(name));
  std::filesystem::permissions(name, std::filesystem::perms::all);
  EXPECT_THAT(TryLockFolder(name).problem, HasSubstr("not safe for GPU locks"));
  std::filesystem::remove(name);
  EXPECT_THAT(TryFolder(name).problem, HasSubstr("No such file"));
  EXPECT_THAT(TryLockFolder(name).problem, HasSubstr("No such file"));
  EXPECT_EQ(TryCode(), "");
}

}  // namespace
}  // namespace cuspan::doctor
