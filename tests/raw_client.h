// Client side of the protocol with an agent, for tests standing in for a program. Any failure or
// unexpected reply is thrown.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "protocol/channel/channel.h"
#include "protocol/channel/socket.h"

namespace cuspan {

inline constexpr std::chrono::milliseconds kLimit{60'000};

struct RawClientFailure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

[[noreturn]] inline void Fail(const std::string& what) { throw RawClientFailure(what); }

// Calls `run` and returns its exit status. A failure is a line on standard error and status 1.
template <typename Run>
int ProgramStatus(Run&& run) {
  try {
    return run();
  } catch (const RawClientFailure& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
  }
}

template <typename T>
T Must(Result<T> result, const char* what) {
  if (!result.ok()) Fail(std::string(what) + ": " + result.status().message());
  return std::move(*result);
}

inline void Check(bool holds, const char* what) {
  if (!holds) Fail(what);
}

// Secret of the run, set by the launcher in the program's environment.
inline Key128 Secret() {
  const std::string text = std::getenv("CUSPAN_SECRET");
  Key128 secret{};
  for (std::size_t i = 0; i < secret.size(); ++i)
    secret[i] = static_cast<std::uint8_t>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  return secret;
}

// An opened device, or the agent's answer with the reason of a refusal.
struct RawDevice {
  std::uint32_t number = 0;
  DeviceOpened opened;
  std::unique_ptr<Channel> channel;
};

class RawClient {
 public:
  // A process of the run in this process's environment.
  RawClient() : RawClient(std::getenv("CUSPAN_SOCKET"), Secret()) {}
  RawClient(const std::string& address, const Key128& secret)
      : bell_(Must(Bell::Create(), "bell")),
        socket_(Must(ControlSocket::Connect(address), "connecting")),
        secret_(secret) {}

  Welcome Introduce() {
    const int fds[] = {bell_.fd()};
    Check(socket_
              .Send(ClientHello{secret_, kOpTableHash, static_cast<std::uint32_t>(::getpid()),
                                "fake"},
                    fds)
              .ok(),
          "sending the hello");
    return Must(socket_.Expect<Welcome>(kLimit), "welcome");
  }

  RawDevice Open(std::uint32_t number) { return Open(number, number); }
  // Opens a context of a device.
  RawDevice Open(std::uint32_t number, std::uint32_t device_number) {
    Check(socket_.Send(OpenDevice{number, device_number}).ok(), "asking for a device");
    RawDevice device;
    device.number = number;
    device.opened = Must(socket_.Expect<DeviceOpened>(kLimit), "a device");
    Check(device.opened.context == number, "another device was opened");
    if (device.opened.result != 0) return device;
    UniqueFd channel = socket_.ExtractFd();
    Bell peer = Must(Bell::Open(socket_.ExtractFd()), "the peer's bell");
    device.channel =
        Must(Channel::Attach(std::move(channel), ChannelSide::kClient, &bell_, std::move(peer)),
             "channel");
    return device;
  }

  void Close(const RawDevice& device) {
    Check(socket_.Send(CloseDevice{device.number}).ok(), "closing a device");
    Check(
        Must(socket_.Expect<DeviceClosed>(kLimit), "the end of a device").context == device.number,
        "another was closed");
  }

  // Waits for the next frame of the channel; none if the channel is closed.
  std::optional<Frame> Next(RawDevice& device) {
    const bool came =
        bell_.Wait([&] { return device.channel->HasFrame() || device.channel->closed(); }, kLimit,
                   WaitStages::ForThisMachine());
    Check(came, "nothing came");
    return Must(device.channel->Peek(), "a frame");
  }

  template <typename T>
  typename T::Reply Call(RawDevice& device, const T& message) {
    device.channel->Post(message, ++request_);
    device.channel->statistics().Count<T>();
    const std::optional<Frame> frame = Next(device);
    if (!frame) Fail("the channel closed before a reply");
    Check(frame->header.is_reply() && frame->op() == T::kOp && frame->header.request == request_,
          "not the reply");
    typename T::Reply reply;
    Check(DecodeFrom(frame->payload, reply), "a malformed reply");
    device.channel->Pop();
    return reply;
  }

  ControlSocket& socket() { return socket_; }
  Bell& bell() { return bell_; }

 private:
  Bell bell_;
  ControlSocket socket_;
  const Key128 secret_;
  std::uint32_t request_ = 0;
};

}  // namespace cuspan
