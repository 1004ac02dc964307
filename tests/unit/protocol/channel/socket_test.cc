#include "protocol/channel/socket.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "common/shared_memory.h"

namespace cuspan {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using testing::HasSubstr;

std::string NewAddress() {
  static int number = 0;
  return Format("cuspan-test-{}-{}", ::getpid(), ++number);
}

std::pair<ControlSocket, ControlSocket> NewPair() {
  auto pair = ControlSocket::Pair();
  EXPECT_TRUE(pair.ok()) << pair.status().message();
  return *std::move(pair);
}

// Waits for a pending connection.
Result<ControlSocket> Accept(ControlListener& listener) {
  pollfd waited{listener.fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&waited, 1, -1), 1);
  Result<std::optional<UniqueFd>> fd = listener.TryAccept();
  if (!fd.ok()) return fd.status();
  EXPECT_TRUE(fd->has_value());
  CUSPAN_RETURN_IF_ERROR(CheckPeer((*fd)->get()));
  return ControlSocket(std::move(**fd));
}

// Sends raw bytes. The receiver may see the parts of a message separately.
void SendRaw(const ControlSocket& socket, Bytes bytes) {
  ASSERT_EQ(::send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
}

RemoteLost Sample(const std::string& reason) {
  RemoteLost message;
  message.session = 4;
  message.context = 5;
  message.reason = reason;
  return message;
}

// --- Messages

TEST(ControlSocket, CarriesMessagesInTheirOrder) {
  auto [a, b] = NewPair();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(a.Send(Sample(std::to_string(i))).ok());
  for (int i = 0; i < 20; ++i) {
    const Result<RemoteLost> message = b.Expect<RemoteLost>(minutes(1));
    ASSERT_TRUE(message.ok()) << message.status().message();
    EXPECT_EQ(message->reason, std::to_string(i));
    EXPECT_EQ(message->session, 4U);
  }
}

TEST(ControlSocket, TryReceiveNeverWaits) {
  auto [a, b] = NewPair();
  Result<std::optional<ControlSocket::Message>> message = b.TryReceive();
  ASSERT_TRUE(message.ok());
  EXPECT_FALSE(message->has_value());
  ASSERT_TRUE(a.Send(Sample("x")).ok());
  message = b.TryReceive();
  ASSERT_TRUE(message.ok());
  ASSERT_TRUE(message->has_value());
  EXPECT_EQ((*message)->frame.op(), Op::kRemoteLost);
  message = b.TryReceive();
  ASSERT_TRUE(message.ok());
  EXPECT_FALSE(message->has_value());
}

TEST(ControlSocket, AMessageStaysReadableWhenItIsMoved) {
  auto [a, b] = NewPair();
  ASSERT_TRUE(a.Send(Sample("kept")).ok());
  Result<ControlSocket::Message> received = b.Receive(minutes(1), "RemoteLost");
  ASSERT_TRUE(received.ok());
  const ControlSocket::Message message = *std::move(received);
  EXPECT_EQ(ParseMessage<RemoteLost>(message.frame)->reason, "kept");
}

TEST(ControlSocket, CarriesTheLargestMessageAndNoLarger) {
  auto [a, b] = NewPair();
  const std::size_t overhead = MakeFrame(Sample("")).size();
  const std::string largest(kMaxControlBytes - overhead, 'x');
  std::thread sender([&a = a, &largest] {
    EXPECT_TRUE(a.Send(Sample(largest)).ok());
    EXPECT_TRUE(a.Send(Sample("behind it")).ok());
  });
  const Result<RemoteLost> message = b.Expect<RemoteLost>(minutes(1));
  EXPECT_TRUE(message.ok()) << message.status().message();
  if (message.ok()) {
    EXPECT_EQ(message->reason.size(), largest.size());
  }
  const Result<RemoteLost> next = b.Expect<RemoteLost>(minutes(1));
  EXPECT_TRUE(next.ok()) << next.status().message();
  sender.join();
  EXPECT_EQ(a.Send(Sample(largest + "x")).code(), StatusCode::kInvalid);
  ASSERT_TRUE(a.Send(Sample("still usable")).ok());
  EXPECT_TRUE(b.Expect<RemoteLost>(minutes(1)).ok());
}

TEST(ControlSocket, PutsMessagesTogetherFromSingleBytes) {
  auto [a, b] = NewPair();
  const std::vector<std::byte> frame = MakeFrame(Sample("in pieces"));
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < frame.size(); ++i) {
      const Result<std::optional<ControlSocket::Message>> early = b.TryReceive();
      ASSERT_TRUE(early.ok()) << early.status().message();
      EXPECT_FALSE(early->has_value());
      SendRaw(a, Bytes(frame).subspan(i, 1));
    }
    const Result<RemoteLost> message = b.Expect<RemoteLost>(minutes(1));
    ASSERT_TRUE(message.ok());
    EXPECT_EQ(message->reason, "in pieces");
  }
}

// --- Errors

TEST(ControlSocket, ReceiveGivesUpAndNamesWhatItWaitedFor) {
  auto [a, b] = NewPair();
  const Result<ControlSocket::Message> message = b.Receive(milliseconds(5), "Welcome");
  EXPECT_EQ(message.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(message.status().message(), HasSubstr("Welcome"));
  // Half a message does not count.
  const std::vector<std::byte> frame = MakeFrame(Sample("half"));
  SendRaw(a, Bytes(frame).first(frame.size() - 1));
  EXPECT_EQ(b.Receive(milliseconds(5), "RemoteLost").status().code(), StatusCode::kUnavailable);
  SendRaw(a, Bytes(frame).last(1));
  EXPECT_TRUE(b.Expect<RemoteLost>(minutes(1)).ok());
}

TEST(ControlSocket, NoticesTheEndBehindTheLastMessage) {
  auto [a, b] = NewPair();
  ASSERT_TRUE(a.Send(Sample("1")).ok());
  ASSERT_TRUE(a.Send(Sample("2")).ok());
  { const ControlSocket gone = std::move(a); }
  EXPECT_TRUE(b.Expect<RemoteLost>(minutes(1)).ok());
  EXPECT_TRUE(b.Expect<RemoteLost>(minutes(1)).ok());
  EXPECT_EQ(b.TryReceive().status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(b.Receive(minutes(1), "more").status().code(), StatusCode::kUnavailable);
}

TEST(ControlSocket, NoticesTheEndWithinAMessage) {
  auto [a, b] = NewPair();
  const std::vector<std::byte> frame = MakeFrame(Sample("cut"));
  SendRaw(a, Bytes(frame).first(frame.size() - 1));
  { const ControlSocket gone = std::move(a); }
  EXPECT_EQ(b.Receive(minutes(1), "RemoteLost").status().code(), StatusCode::kUnavailable);
}

// There is no SIGPIPE to end the program, either.
TEST(ControlSocket, SendingToNobodyIsUnavailable) {
  auto [a, b] = NewPair();
  { const ControlSocket gone = std::move(b); }
  EXPECT_EQ(a.Send(Sample("x")).code(), StatusCode::kUnavailable);
}

TEST(ControlSocket, APeerThatReadsNothingIsGivenUp) {
  auto [sender, reader] = NewPair();
  sender.SetSendLimit(std::chrono::milliseconds(1));
  Status sent;
  for (int i = 0; i < 10'000 && sent.ok(); ++i)
    sent = sender.Send(Sample(std::string(10'000, 'x')));
  EXPECT_EQ(sent.code(), StatusCode::kUnavailable);
}

// The limit is for the whole message, not for each part.
TEST(ControlSocket, APeerThatReadsALittleAtATimeIsGivenUp) {
  auto [a, b] = NewPair();
  a.SetSendLimit(std::chrono::milliseconds(1));
  std::atomic<bool> over = false;
  // A limit per part would never expire. The whole message takes 900,000 reads.
  std::thread reader([&, fd = b.fd()] {
    std::byte part[1];
    while (!over) static_cast<void>(::recv(fd, part, sizeof part, MSG_DONTWAIT));
  });
  EXPECT_EQ(a.Send(Sample(std::string(900'000, 'x'))).code(), StatusCode::kUnavailable);
  over = true;
  reader.join();
}

TEST(ControlSocket, WhatIsPostedToAPeerThatDoesNotReadIsKept) {
  auto [a, b] = NewPair();
  std::size_t posted = 0;
  while (a.kept() < 3) {
    // This descriptor is closed as soon as it is posted.
    const UniqueFd memory = *CreateSharedMemory("cuspan-test", posted + 1);
    const int fds[] = {memory.get()};
    ASSERT_TRUE(a.Post(Sample(Format("{}{}", posted, std::string(50'000, '.'))), fds).ok());
    ++posted;
  }
  // Once the peer reads, all messages arrive in order, each with its descriptor.
  for (std::size_t number = 0; number < posted; ++number) {
    Result<std::optional<ControlSocket::Message>> message = b.TryReceive();
    while (message.ok() && !message->has_value()) {
      ASSERT_TRUE(a.Flush().ok());
      message = b.TryReceive();
    }
    ASSERT_TRUE(message.ok()) << message.status().message();
    EXPECT_EQ(ParseMessage<RemoteLost>((**message).frame)->reason,
              Format("{}{}", number, std::string(50'000, '.')));
    struct stat information {};
    ASSERT_EQ(::fstat(b.ExtractFd().get(), &information), 0);
    EXPECT_EQ(information.st_size, static_cast<off_t>(number + 1));
  }
  EXPECT_EQ(a.kept(), 0U);
}

TEST(ControlSocket, PostingToNobodyIsUnavailable) {
  auto [a, b] = NewPair();
  while (a.kept() == 0) ASSERT_TRUE(a.Post(Sample(std::string(50'000, '.'))).ok());
  { const ControlSocket gone = std::move(b); }
  EXPECT_EQ(a.Flush().code(), StatusCode::kUnavailable);
}

TEST(ControlSocket, ExpectPassesARefusalOn) {
  auto [a, b] = NewPair();
  Refused refused;
  refused.reason = "the secret is wrong";
  ASSERT_TRUE(a.Send(refused).ok());
  const Result<Welcome> welcome = b.Expect<Welcome>(minutes(1));
  EXPECT_EQ(welcome.status().code(), StatusCode::kRefused);
  EXPECT_THAT(welcome.status().message(), HasSubstr("the secret is wrong"));
}

TEST(ControlSocket, ExpectRefusesAnotherMessage) {
  auto [a, b] = NewPair();
  ASSERT_TRUE(a.Send(Sample("x")).ok());
  const Result<Welcome> welcome = b.Expect<Welcome>(minutes(1));
  EXPECT_EQ(welcome.status().code(), StatusCode::kInvalid);
  EXPECT_THAT(welcome.status().message(),
              testing::AllOf(HasSubstr("Welcome"), HasSubstr("RemoteLost")));
}

// The header is enough: waiting for the contents of a wrong length could take for ever.
TEST(ControlSocket, RefusesEachWrongHeaderAtOnce) {
  const std::pair<std::size_t, int> wrong[] = {{0, 0xff}, {1, 0xff}, {2, 9},     {3, 0x80},
                                               {6, 1},    {7, 1},    {10, 0x11}, {11, 1}};
  for (const auto& [offset, value] : wrong) {
    auto [a, b] = NewPair();
    std::vector<std::byte> header(sizeof(FrameHeader));
    FrameHeader good;
    good.op = static_cast<std::uint16_t>(Op::kRemoteLost);
    good.payload_bytes = 100;
    std::memcpy(header.data(), &good, sizeof good);
    header[offset] = static_cast<std::byte>(value);
    SendRaw(a, header);
    const Status status = b.TryReceive().status();
    EXPECT_FALSE(status.ok()) << "offset " << offset;
    EXPECT_NE(status.code(), StatusCode::kUnavailable) << status.message();
  }
}

// --- Descriptors

TEST(ControlSocket, CarriesDescriptors) {
  auto [a, b] = NewPair();
  std::vector<UniqueFd> memories;
  std::vector<int> fds;
  for (std::size_t i = 1; i <= 8; ++i) {
    memories.push_back(*CreateSharedMemory("cuspan-test", i));
    fds.push_back(memories.back().get());
  }
  ASSERT_TRUE(a.Send(Sample("eight"), fds).ok());
  ASSERT_TRUE(b.Expect<RemoteLost>(minutes(1)).ok());
  for (std::size_t i = 1; i <= 8; ++i) {
    const UniqueFd fd = b.ExtractFd();
    ASSERT_TRUE(fd.valid());
    struct stat information {};
    ASSERT_EQ(::fstat(fd.get(), &information), 0);
    EXPECT_EQ(information.st_size, static_cast<off_t>(i)) << "in their order";
    EXPECT_NE(::fcntl(fd.get(), F_GETFD) & FD_CLOEXEC, 0);
  }
  EXPECT_FALSE(b.ExtractFd().valid());
}

TEST(ControlSocket, DescriptorsComeWithLargeMessagesToo) {
  auto [a, b] = NewPair();
  const UniqueFd memory = *CreateSharedMemory("cuspan-test", 77);
  std::thread sender([&a = a, &memory] {
    EXPECT_TRUE(a.Send(Sample(std::string(500000, 'x')), std::array{memory.get()}).ok());
  });
  EXPECT_TRUE(b.Expect<RemoteLost>(minutes(1)).ok());
  sender.join();
  const UniqueFd fd = b.ExtractFd();
  struct stat information {};
  ASSERT_EQ(::fstat(fd.get(), &information), 0);
  EXPECT_EQ(information.st_size, 77);
  EXPECT_FALSE(b.ExtractFd().valid()) << "once, not with each part";
}

TEST(ControlSocket, RefusesToSendTooManyDescriptors) {
  auto [a, b] = NewPair();
  const std::vector<int> fds(9, a.fd());
  EXPECT_EQ(a.Send(Sample("nine"), fds).code(), StatusCode::kInvalid);
}

TEST(ControlSocket, DescriptorsThatNobodyTakesAreClosed) {
  int read_end = -1;
  {
    auto [a, b] = NewPair();
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    read_end = ends[0];
    const UniqueFd write_end(ends[1]);
    ASSERT_TRUE(a.Send(Sample("x"), std::array{write_end.get()}).ok());
    ASSERT_TRUE(b.Expect<RemoteLost>(minutes(1)).ok());
  }
  // The pipe ends when all descriptors of its write end are closed.
  char byte = 0;
  EXPECT_EQ(::read(read_end, &byte, 1), 0);
  ::close(read_end);
}

TEST(ControlSocket, APeerThatFloodsUsWithDescriptorsIsRefused) {
  auto [a, b] = NewPair();
  const std::vector<int> fds(8, a.fd());
  Status status;
  for (int i = 0; i < 1000 && status.ok(); ++i) {
    ASSERT_TRUE(a.Send(Sample("x"), fds).ok());
    status = b.Expect<RemoteLost>(minutes(1)).status();
  }
  EXPECT_EQ(status.code(), StatusCode::kInvalid);
}

// --- Addresses

TEST(ControlListener, AcceptsWhoConnects) {
  const std::string address = NewAddress();
  Result<ControlListener> listener = ControlListener::Listen(address);
  ASSERT_TRUE(listener.ok()) << listener.status().message();
  const Result<std::optional<UniqueFd>> nobody = listener->TryAccept();
  ASSERT_TRUE(nobody.ok());
  EXPECT_FALSE(nobody->has_value());
  Result<ControlSocket> client = ControlSocket::Connect(address);
  ASSERT_TRUE(client.ok()) << client.status().message();
  Result<ControlSocket> server = Accept(*listener);
  ASSERT_TRUE(server.ok()) << server.status().message();
  ASSERT_TRUE(client->Send(Sample("to the server")).ok());
  EXPECT_EQ(server->Expect<RemoteLost>(minutes(1))->reason, "to the server");
  ASSERT_TRUE(server->Send(Sample("to the client")).ok());
  EXPECT_EQ(client->Expect<RemoteLost>(minutes(1))->reason, "to the client");
}

// The program may rely on getting the lowest free number.
TEST(ControlSocket, ConnectedDescriptorsAreOutOfTheWay) {
  const std::string address = NewAddress();
  const Result<ControlListener> listener = ControlListener::Listen(address);
  ASSERT_TRUE(listener.ok());
  const UniqueFd lowest(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const Result<ControlSocket> client = ControlSocket::Connect(address);
  ASSERT_TRUE(client.ok());
  EXPECT_GE(client->fd(), 500);
  EXPECT_NE(::fcntl(client->fd(), F_GETFD) & FD_CLOEXEC, 0);
  const UniqueFd next(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(next.get(), lowest.get() + 1);
}

TEST(ControlListener, AnAddressIsTakenOnce) {
  const std::string address = NewAddress();
  {
    const Result<ControlListener> listener = ControlListener::Listen(address);
    ASSERT_TRUE(listener.ok());
    const Result<ControlListener> second = ControlListener::Listen(address);
    EXPECT_EQ(second.status().code(), StatusCode::kInvalid);
    EXPECT_THAT(second.status().message(), HasSubstr(address));
  }
  EXPECT_TRUE(ControlListener::Listen(address).ok()) << "nothing is left behind";
}

TEST(ControlSocket, ConnectingToNobodySaysWho) {
  const std::string address = NewAddress();
  const Result<ControlSocket> client = ControlSocket::Connect(address);
  EXPECT_EQ(client.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(client.status().message(), HasSubstr(address));
}

// Example: a stopped agent with a full queue of connections.
TEST(ControlSocket, WaitsForAListenerThatTakesNobodyForSoLong) {
  const std::string address = NewAddress();
  const Result<ControlListener> listener = ControlListener::Listen(address);
  ASSERT_TRUE(listener.ok());
  std::vector<ControlSocket> queue;
  for (;;) {
    Result<ControlSocket> client = ControlSocket::Connect(address, std::chrono::milliseconds(1));
    if (client.ok()) {
      queue.push_back(std::move(*client));
      continue;
    }
    EXPECT_EQ(client.status().code(), StatusCode::kUnavailable);
    EXPECT_THAT(client.status().message(), HasSubstr("it accepts no connection"));
    break;
  }
}

TEST(ControlSocket, RefusesAddressesThatAreNone) {
  for (const std::string& address :
       {std::string(), std::string(108, 'a'), std::string(5000, 'a')}) {
    EXPECT_EQ(ControlSocket::Connect(address).status().code(), StatusCode::kInvalid);
    EXPECT_EQ(ControlListener::Listen(address).status().code(), StatusCode::kInvalid);
  }
}

// The longest address fitting a sockaddr_un.
TEST(ControlSocket, TakesTheLongestAddress) {
  std::string address = NewAddress();
  address.resize(sizeof(sockaddr_un::sun_path) - 1, 'a');
  const Result<ControlListener> listener = ControlListener::Listen(address);
  ASSERT_TRUE(listener.ok()) << listener.status().message();
  EXPECT_TRUE(ControlSocket::Connect(address).ok());
}

TEST(ControlListener, RefusesAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const std::string address = NewAddress();
  Result<ControlListener> listener = ControlListener::Listen(address);
  ASSERT_TRUE(listener.ok());
  int hold[2];
  ASSERT_EQ(::pipe2(hold, O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(hold[1]);
    if (::setuid(65534) != 0) ::_exit(2);
    const Result<ControlSocket> socket = ControlSocket::Connect(address);
    char byte = 0;
    static_cast<void>(::read(hold[0], &byte, 1));  // Until the parent has checked.
    ::_exit(socket.status().code() == StatusCode::kRefused ? 0 : 1);
  }
  EXPECT_EQ(Accept(*listener).status().code(), StatusCode::kRefused);
  ::close(hold[0]);
  ::close(hold[1]);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "the other user must refuse us too";
}

}  // namespace
}  // namespace cuspan
