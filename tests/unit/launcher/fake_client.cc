// Stands in for a CUDA program in the launcher's tests, with the client library's protocol. Exits
// with 0 on success. Otherwise it prints the failure to stderr and exits with 1.
//
//   fake_client work BYTES   uses every device: calls, posted ops in order, copies both ways
//   fake_client crash        kills the proxy of device 0; the other devices still work
//   fake_client reset        closes each device and opens it anew
//   fake_client stall        leaves device 0's replies unread while device 1 works
//   fake_client hello WHAT   introduces itself wrongly: secret, hash, bell, op, garbage
//   fake_client joins        joins two devices without end, until the agent hangs up
//   fake_client contexts     opens contexts of device 0 until the addresses are exhausted
//   fake_client fail         opens a device refused by its proxy
//   fake_client count N      expects N devices
//   fake_client linger       opens all devices and stays until the agent has gone
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/raw_client.h"
#include "tests/unit/protocol/api/another_build.h"

namespace cuspan {
namespace {

using Device = RawDevice;

class Client : public RawClient {
 public:
  // Checks that the device's proxy answers a call, with the device's own window.
  void CheckCall(Device& device) {
    const MemoryInfo::Reply info = Call(device, MemoryInfo{});
    Check(info.total == device.opened.window.base && info.free == device.opened.window.bytes,
          "another window");
  }

  void Copies(Device& device, std::uint64_t bytes) {
    const std::uint64_t piece = device.channel->layout().staging_bytes;
    std::vector<unsigned char> data(bytes);
    for (std::uint64_t i = 0; i < bytes; ++i)
      data[i] = static_cast<unsigned char>(i * 31 + (i >> 12) + device.number);
    device.channel->Post(CopyToDevice{0, device.opened.window.base, bytes, 1});
    const std::optional<Frame> wanted = Next(device);
    Check(wanted && wanted->op() == Op::kTransferClearToSend, "no TransferClearToSend");
    device.channel->Pop();
    for (std::uint64_t offset = 0; offset < bytes; offset += piece) {
      const std::uint32_t length = static_cast<std::uint32_t>(std::min(piece, bytes - offset));
      const std::optional<std::uint32_t> slot = device.channel->AcquireSlot();
      Check(slot.has_value(), "no slot");
      std::memcpy(device.channel->OutgoingSlot(*slot), data.data() + offset, length);
      device.channel->Post(Chunk{1, offset, length, *slot});
    }
    std::uint64_t stored = 0;
    std::vector<unsigned char> back(bytes);
    device.channel->Post(CopyFromDevice{0, device.opened.window.base, bytes, 2});
    while (stored < bytes) {
      const std::optional<Frame> frame = Next(device);
      Check(frame && frame->op() == Op::kChunk, "no Chunk");
      const Chunk chunk = Must(ParseMessage<Chunk>(*frame), "chunk");
      Check(chunk.transfer == 2 && chunk.offset == stored && chunk.bytes <= bytes - stored,
            "a chunk out of order");
      std::memcpy(back.data() + chunk.offset, device.channel->IncomingSlot(chunk.slot),
                  chunk.bytes);
      device.channel->ReleaseSlot(chunk.slot);
      device.channel->Pop();
      stored += chunk.bytes;
    }
    device.channel->statistics().bytes_to_device += bytes;
    device.channel->statistics().bytes_from_device += bytes;
    Check(back == data, "other bytes came back");
  }

  void Work(Device& device, std::uint64_t bytes) {
    CheckCall(device);
    const std::uint64_t before = Call(device, LimitGet{0}).value;
    constexpr std::uint64_t kPosted = 20'000;
    for (std::uint64_t i = 0; i < kPosted; ++i) device.channel->Post(Memset{0, 0, 1, 1, i});
    for (std::uint64_t i = 0; i < kPosted; ++i) device.channel->statistics().Count<Memset>();
    Check(Call(device, LimitGet{0}).value == before + kPosted,
          "posted ops were lost, or a call overtook them");
    if (bytes != 0) Copies(device, bytes);
  }
};

std::vector<Device> OpenAll(Client& client) {
  std::vector<Device> devices;
  const Welcome welcome = client.Introduce();
  for (std::uint32_t i = 0; i < welcome.devices.size(); ++i) {
    devices.push_back(client.Open(i));
    if (devices.back().opened.result != 0) Fail(devices.back().opened.message);
    std::printf("device %u on %s: %s\n", i, welcome.devices[i].host.c_str(),
                devices.back().opened.relayed ? "agents" : "same-node");
  }
  return devices;
}

void Crash(Client& client) {
  std::vector<Device> devices = OpenAll(client);
  devices[0].channel->Post(Memset{0, 0, 0xdead, 1, 1});
  Check(!client.Next(devices[0]), "a frame came");
  Check(devices[0].channel->lost(), "the device is not lost");
  for (std::size_t i = 1; i < devices.size(); ++i) client.CheckCall(devices[i]);
  client.Close(devices[0]);
  Device again = client.Open(0);
  client.CheckCall(again);
}

void Reset(Client& client) {
  for (Device& device : OpenAll(client)) {
    client.Work(device, 0);
    client.Close(device);
    Check(device.channel->closed() && !device.channel->lost(), "the channel is not closed");
    Device again = client.Open(device.number);
    Check(client.Call(again, LimitGet{0}).value == 0, "it is the old proxy");
    client.Work(again, 3 << 20);
  }
}

void Stall(Client& client) {
  std::vector<Device> devices = OpenAll(client);
  Check(devices.size() >= 2, "two devices are needed");
  // Far more replies than the capacity of the rings and agents: most wait in the proxy.
  constexpr std::uint32_t kCalls = 200'000;
  std::uint32_t asked = 0;
  FrameHeader header;
  header.op = static_cast<std::uint16_t>(Op::kMemoryInfo);
  for (int refused = 0; asked < kCalls && refused < 2'000;) {
    header.request = asked + 1;
    if (devices[0].channel->TryPost(header, {})) {
      ++asked;
      refused = 0;
    } else {
      ++refused;
      ::usleep(100);
    }
  }
  client.Work(devices[1], 8 << 20);
  // All of them arrive when read later.
  for (std::uint32_t i = 0; i < asked; ++i) {
    const std::optional<Frame> frame = client.Next(devices[0]);
    Check(frame && frame->header.request == i + 1, "a reply is missing");
    devices[0].channel->Pop();
  }
  client.Work(devices[0], 8 << 20);
}

void Contexts(Client& client) {
  std::vector<Device> devices = OpenAll(client);
  const auto first = static_cast<std::uint32_t>(devices.size());
  for (std::uint32_t number = first;; ++number) {
    Check(number < first + 100, "contexts without end");
    Device made = client.Open(number, 0);
    if (made.opened.result != 0) {
      Check(made.opened.result == 2, "another reason");
      break;
    }
    for (const Device& other : devices)
      Check(other.opened.window.base != made.opened.window.base, "one window for two contexts");
    devices.push_back(std::move(made));
  }
  Check(devices.size() >= first + 8, "room for too few contexts");
  for (Device& device : devices) client.Work(device, 100'000);
  // Closing one makes room for another.
  client.Close(devices.back());
  devices.back() = client.Open(1'000'000, 0);
  Check(devices.back().opened.result == 0, "no room after one was closed");
  client.Work(devices.back(), 100'000);
  // A primary context has the number of its own device.
  client.Close(devices.front());
  Check(client.socket().Send(OpenDevice{0, 1}).ok(), "asking for a device");
  Check(!client.socket().Receive(kLimit, "an answer").ok(), "the session goes on");
}

void Joins(Client& client) {
  Check(OpenAll(client).size() >= 2, "two devices are needed");
  for (std::uint32_t join = 1; join < 100'000; ++join) {
    if (!client.socket().Send(JoinDevices{join, 0, 1}).ok()) break;
  }
  Check(!client.socket().Receive(kLimit, "an answer").ok(), "the session goes on");
  // The agent still works.
  Client good;
  for (Device& device : OpenAll(good)) good.Work(device, 0);
}

void WrongHello(const std::string& what) {
  Client client;
  ClientHello hello{Secret(), kOpTableHash, 1, "fake"};
  const int fds[] = {client.bell().fd()};
  std::vector<std::byte> frame = MakeFrame(hello);
  if (what == "secret") {
    hello.secret[0] ^= 1;
    frame = MakeFrame(hello);
  } else if (what == "hash") {
    hello.table_hash = AnotherBuildsOpTableHash();
    frame = MakeFrame(hello);
  } else if (what == "op") {
    frame = MakeFrame(RunEnd{});
  } else if (what == "garbage") {
    frame.assign(4096, std::byte{0x5a});
  }
  Check(client.socket().SendFrame(frame, std::span(fds, what == "bell" ? 0 : 1)).ok(), "sending");
  const Result<Welcome> welcome = client.socket().Expect<Welcome>(kLimit);
  Check(!welcome.ok(), "a wrong hello was welcome");
  std::printf("%s\n", welcome.status().message().c_str());
  // The agent still works.
  Client good;
  good.Introduce();
}

int Run(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const std::string argument = argc > 2 ? argv[2] : "";
  if (mode == "hello") {
    WrongHello(argument);
    return 0;
  }
  Client client;
  if (mode == "work") {
    for (Device& device : OpenAll(client)) client.Work(device, std::stoull(argument));
  } else if (mode == "crash") {
    Crash(client);
  } else if (mode == "reset") {
    Reset(client);
  } else if (mode == "stall") {
    Stall(client);
  } else if (mode == "contexts") {
    Contexts(client);
  } else if (mode == "joins") {
    Joins(client);
  } else if (mode == "fail") {
    client.Introduce();
    const Device device = client.Open(0);
    std::printf("%d: %s\n", device.opened.result, device.opened.message.c_str());
  } else if (mode == "count") {
    Check(client.Introduce().devices.size() == std::stoul(argument), "another number of devices");
  } else if (mode == "linger") {
    OpenAll(client);
    std::puts("ready");
    std::fflush(stdout);
    while (client.socket().TryReceive().ok()) {
      pollfd waited{client.socket().fd(), POLLIN, 0};
      ::poll(&waited, 1, -1);
    }
  } else {
    Fail("no mode");
  }
  return 0;
}

}  // namespace
}  // namespace cuspan

int main(int argc, char** argv) {
  return cuspan::ProgramStatus([&] { return cuspan::Run(argc, argv); });
}
