// Tests the acceptance and refusal of connections at a listening socket.
#include "protocol/channel/reception.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <vector>

namespace cuspan {
namespace {

using std::chrono::minutes;
using testing::HasSubstr;

std::string NewReceptionAddress() {
  static int number = 0;
  return Format("cuspan-test-reception-{}-{}", ::getpid(), ++number);
}

Reception Listening(const std::string& address) {
  Result<Reception> reception = Reception::Listen(address);
  EXPECT_TRUE(reception.ok()) << reception.status().message();
  return *std::move(reception);
}

ControlSocket Connected(const std::string& address) {
  Result<ControlSocket> socket = ControlSocket::Connect(address);
  EXPECT_TRUE(socket.ok()) << socket.status().message();
  return *std::move(socket);
}

// Waits for the next arrival without a limit.
Reception::Arrival Await(Reception& reception) {
  for (;;) {
    if (std::optional<Reception::Arrival> arrival = reception.Next()) return *std::move(arrival);
    pollfd waited{reception.fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&waited, 1, -1), 1);
  }
}

// Handles all pending events; there must be no arrival.
void Settle(Reception& reception) {
  pollfd waited{reception.fd(), POLLIN, 0};
  while (::poll(&waited, 1, 0) == 1) EXPECT_FALSE(reception.Next());
}

// True if the other side closes the socket without sending a message.
bool IsHungUp(ControlSocket& socket) {
  return socket.Receive(minutes(1), "the end").status().message() ==
         "the other side closed the connection";
}

std::string NumberOf(const Reception::Arrival& arrival) {
  return ParseMessage<Refused>(arrival.first.frame)->reason;
}

TEST(Reception, HandsOutWhoSpeaksWithItsFirstMessage) {
  const std::string address = NewReceptionAddress();
  Reception reception = Listening(address);
  EXPECT_FALSE(reception.Next());
  ControlSocket client = Connected(address);
  ASSERT_TRUE(client.Send(Refused{"first"}).ok());
  ASSERT_TRUE(client.Send(Refused{"second"}).ok());
  Reception::Arrival arrival = Await(reception);
  EXPECT_EQ(NumberOf(arrival), "first");
  EXPECT_EQ(arrival.socket.Expect<RunEnd>(minutes(1)).status().message(), "second");
  ASSERT_TRUE(arrival.socket.Send(RunEnd{}).ok());
  EXPECT_TRUE(client.Expect<RunEnd>(minutes(1)).ok());
}

TEST(Reception, WhoIsSilentDoesNotKeepOthersWaiting) {
  const std::string address = NewReceptionAddress();
  Reception reception = Listening(address);
  std::vector<ControlSocket> silent;
  for (int i = 0; i < 10; ++i) silent.push_back(Connected(address));
  Settle(reception);
  ControlSocket client = Connected(address);
  ASSERT_TRUE(client.Send(Refused{"here"}).ok());
  EXPECT_EQ(NumberOf(Await(reception)), "here");
  // A silent process may still send its message later.
  ASSERT_TRUE(silent[3].Send(Refused{"late"}).ok());
  EXPECT_EQ(NumberOf(Await(reception)), "late");
}

TEST(Reception, WhoStaysSilentIsHungUpOn) {
  const std::string address = NewReceptionAddress();
  Reception reception = Listening(address);
  ControlSocket silent = Connected(address);
  pollfd gone{silent.fd(), POLLIN, 0};
  while (::poll(&gone, 1, 0) == 0) {
    pollfd waited{reception.fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&waited, 1, -1), 1);
    EXPECT_FALSE(reception.Next());
  }
  EXPECT_TRUE(IsHungUp(silent));
}

TEST(Reception, WhoSpokeIsHeardHoweverLate) {
  const std::string address = NewReceptionAddress();
  Reception reception = Listening(address);
  ControlSocket client = Connected(address);
  Settle(reception);
  // This process is busy until the limit has passed; the message is sent after that.
  ::poll(nullptr, 0, static_cast<int>(Reception::kProofLimit.count()) + 100);
  ASSERT_TRUE(client.Send(Refused{"here"}).ok());
  EXPECT_EQ(NumberOf(Await(reception)), "here");
}

TEST(Reception, OfTooManyTheOldestGivesWay) {
  const std::string address = NewReceptionAddress();
  Reception reception = Listening(address);
  std::vector<ControlSocket> silent;
  for (std::size_t i = 0; i < Reception::kMaxUnproven + 3; ++i) {
    silent.push_back(Connected(address));
    Settle(reception);
  }
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(IsHungUp(silent[i])) << i;
  for (const std::size_t i : {std::size_t{3}, silent.size() - 1}) {
    ASSERT_TRUE(silent[i].Send(Refused{std::to_string(i)}).ok());
    EXPECT_EQ(NumberOf(Await(reception)), std::to_string(i));
  }
}

TEST(Reception, WhatMakesNoSenseIsToldSo) {
  const std::string address = NewReceptionAddress();
  Reception reception = Listening(address);
  ControlSocket client = Connected(address);
  const std::vector<char> garbage(4096, 0x5a);
  ASSERT_EQ(::write(client.fd(), garbage.data(), garbage.size()), 4096);
  while (!client.TryReceive()->has_value()) Settle(reception);
}

TEST(Reception, ARefusalIsRead) {
  const std::string address = NewReceptionAddress();
  Reception reception = Listening(address);
  ControlSocket client = Connected(address);
  ASSERT_TRUE(client.Send(RunEnd{}).ok());
  Reception::Refuse(Await(reception), "not you");
  EXPECT_EQ(client.Expect<RunEnd>(minutes(1)).status().message(), "not you");
}

// Returns the exit status of a child running `body`.
int StatusOfChild(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

// Only the child has the limit.
TEST(Reception, WithoutDescriptorsWhoComesIsToldWhy) {
  const auto body = [] {
    const std::string address = NewReceptionAddress();
    Reception reception = Listening(address);
    ControlSocket client = Connected(address);
    // Uses all remaining descriptors.
    const rlimit limit{64, 64};
    ::setrlimit(RLIMIT_NOFILE, &limit);
    std::vector<UniqueFd> taken;
    for (int fd = 0; (fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) taken.emplace_back(fd);
    if (!client.Send(RunEnd{}).ok()) return 1;
    Settle(reception);
    const Status told = client.Expect<RunEnd>(minutes(1)).status();
    if (told.message().find("ulimit -n") == std::string::npos) return 2;
    // Once descriptors are free again, connections are accepted.
    taken.resize(taken.size() - 3);
    ControlSocket next = Connected(address);
    if (!next.Send(RunEnd{}).ok()) return 3;
    return Await(reception).first.frame.op() == Op::kRunEnd ? 0 : 4;
  };
  EXPECT_EQ(StatusOfChild(body), 0);
}

TEST(Reception, AnotherUserIsDroppedAndOthersComeIn) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const std::string address = NewReceptionAddress();
  Reception reception = Listening(address);
  const int status = StatusOfChild([&] {
    if (::setuid(65534) != 0) return 2;
    for (int i = 0; i < 100; ++i)
      if (ControlSocket::Connect(address).status().code() != StatusCode::kRefused) return 1;
    return 0;
  });
  EXPECT_EQ(status, 0) << "the other user must refuse us too";
  ControlSocket client = Connected(address);
  ASSERT_TRUE(client.Send(Refused{"own"}).ok());
  EXPECT_EQ(NumberOf(Await(reception)), "own");
}

}  // namespace
}  // namespace cuspan
