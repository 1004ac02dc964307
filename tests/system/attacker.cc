// Attacks of a hostile or broken process on a run, repeated until it is killed. The attacker never
// trusts replies and continues after each failure.
//
// Beside a run, as any user of the node:
//   attacker [USER] sockets       connects to every socket of cuspan in /proc/net/unix, again and
//                                 again, and sends malformed data
// As a process of the run's user, knowing the run's socket:
//   attacker [USER] idle COUNT    holds COUNT connections without a greeting
//   attacker junk                 sends random bytes in place of a greeting
// As a program of the run:
//   attacker greets               introduces itself and closes the connection, again and again
//   attacker joins                asks to join two devices, again and again
//   attacker deaf                 opens and closes a device, and never reads a reply
//   attacker scribbles            writes random bytes over all memory shared with the run
//   attacker shrinks              passes shared memory and then truncates it
//   attacker forks                has children using its connection all at once
//   attacker holds                stops (SIGSTOP) in the middle of its work, with all its devices
//
// The attackers sleep between rounds and have the lowest priority. The test thus measures the
// effect of an attack on the run, not the kernel's sharing of processors.
//
// USER is a number: the process becomes that user first. "ready" on standard output: the attack has
// begun.
#include <fcntl.h>
#include <linux/memfd.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <random>
#include <vector>

#include "tests/raw_client.h"

namespace cuspan {
namespace {

// Pause after a round, since some attacks make the run start proxies.
constexpr useconds_t kRestMicroseconds = 2'000'000;

void Ready() {
  static bool said = false;
  if (std::exchange(said, true)) return;
  std::puts("ready");
  std::fflush(stdout);
}

std::vector<std::byte> RandomBytes(std::mt19937_64& random, std::size_t most) {
  std::vector<std::byte> bytes(random() % most + 1);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// Abstract names of cuspan's sockets on this node, without the leading @.
std::vector<std::string> Names() {
  std::vector<std::string> names;
  std::ifstream file("/proc/net/unix");
  for (std::string line; std::getline(file, line);) {
    const std::size_t at = line.find(" @cuspan-");
    if (at != std::string::npos) names.push_back(line.substr(at + 2));
  }
  return names;
}

// Connects a plain socket, without the checks of ControlSocket.
UniqueFd ConnectTo(const std::string& name) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (!fd.valid() || name.size() + 1 > sizeof address.sun_path) return {};
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0) return {};
  return fd;
}

[[noreturn]] void Sockets() {
  std::mt19937_64 random(1);
  for (;;) {
    const std::vector<std::string> names = Names();
    // Before the run has sockets, polls often for the first.
    if (names.empty()) ::usleep(200);
    for (int round = 0; round < 8; ++round, ::usleep(1'000)) {
      for (const std::string& name : names) {
        const UniqueFd fd = ConnectTo(name);
        if (!fd.valid() || random() % 4 != 0) continue;
        const std::vector<std::byte> junk = RandomBytes(random, 200);
        static_cast<void>(::send(fd.get(), junk.data(), junk.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
      }
    }
    Ready();
  }
}

[[noreturn]] void Idle(std::size_t count) {
  const std::string name = std::getenv("CUSPAN_SOCKET");
  std::vector<UniqueFd> held(count);
  for (;;) {
    for (UniqueFd& fd : held) {
      char byte = 0;
      // Reconnects if the agent closed the connection.
      const bool gone = fd.valid() && ::recv(fd.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
      if (gone || !fd.valid()) fd = ConnectTo(name);
    }
    Ready();
    ::usleep(10'000);
  }
}

[[noreturn]] void Junk() {
  std::mt19937_64 random(2);
  const std::string name = std::getenv("CUSPAN_SOCKET");
  for (;;) {
    if (const UniqueFd fd = ConnectTo(name); fd.valid()) {
      std::vector<std::byte> bytes = RandomBytes(random, 5000);
      if (random() % 2 == 0) {  // Valid header of an incomplete frame.
        FrameHeader header;
        header.op = static_cast<std::uint16_t>(random() % 60);
        header.payload_bytes = static_cast<std::uint32_t>(random() % (2 << 20));
        bytes.resize(std::max(bytes.size(), sizeof header));
        std::memcpy(bytes.data(), &header, sizeof header);
      }
      static_cast<void>(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
    }
    Ready();
    ::usleep(1'000);
  }
}

void Greet() {
  for (int i = 0; i < 100; ++i, ::usleep(1'000)) {
    RawClient client;
    client.Introduce();
  }
}

// Opens the first two devices and waits for the replies.
void OpenTwo(RawClient& client, std::vector<RawDevice>* devices) {
  client.Introduce();
  for (std::uint32_t number = 0; number < 2; ++number) devices->push_back(client.Open(number));
}

void JoinWithoutEnd() {
  RawClient client;
  std::vector<RawDevice> devices;
  OpenTwo(client, &devices);
  for (std::uint32_t join = 1; client.socket().Send(JoinDevices{join, 0, 1}).ok(); ++join) Ready();
}

void OpenAndCloseUnread() {
  RawClient client;
  client.Introduce();
  // Never reads: the replies fill its socket.
  while (client.socket().Send(OpenDevice{0}).ok()) {
    ::usleep(500'000);
    if (!client.socket().Send(CloseDevice{0}).ok()) break;
    ::usleep(500'000);
    Ready();
  }
}

void Scribble(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  RawClient client;
  client.Introduce();
  Check(client.socket().Send(OpenDevice{0}).ok(), "asking for a device");
  const Result<DeviceOpened> opened = client.socket().Expect<DeviceOpened>(kLimit);
  Check(opened.ok() && opened->result == 0, "a device");
  const UniqueFd file = client.socket().ExtractFd();
  struct stat information {};
  Check(::fstat(file.get(), &information) == 0, "fstat");
  const auto bytes = static_cast<std::size_t>(information.st_size);
  // The rings and their counters are at the beginning.
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  Check(memory != MAP_FAILED, "mmap");
  auto* const words = static_cast<std::uint64_t*>(memory);
  const std::size_t first = std::min<std::size_t>(bytes, 3 << 20) / sizeof *words;
  for (int i = 0; i < 200'000; ++i) {
    words[random() % first] = random() % 3 == 0 ? random() % 64 : random();
    client.bell().Ring();
  }
  ::munmap(memory, bytes);
  Ready();
}

// Passes a bell and a shared region in memory without seals, and truncates them.
void Shrink() {
  for (const bool sealed : {false, true}) {
    const UniqueFd file(::memfd_create("attack", MFD_CLOEXEC | (sealed ? MFD_ALLOW_SEALING : 0U)));
    Check(::ftruncate(file.get(), 1 << 20) == 0, "ftruncate");
    RawClient client;
    const ClientHello hello{Secret(), kOpTableHash, 1, "shrinks"};
    const int as_bell[] = {sealed ? client.bell().fd() : file.get()};
    static_cast<void>(client.socket().Send(hello, as_bell));
    const Result<Welcome> welcome = client.socket().Expect<Welcome>(kLimit);
    if (!sealed) {
      Check(::ftruncate(file.get(), 0) == 0, "ftruncate");
      Check(!welcome.ok(), "a bell that can shrink was taken");
      continue;
    }
    const AddressWindow region{0x1100'0000'0000, 1 << 20, 0};
    const int files[] = {file.get()};
    static_cast<void>(client.socket().Send(OpenDevice{0, 0, region, 1 << 20}, files));
    Check(::ftruncate(file.get(), 0) == 0, "ftruncate");
    static_cast<void>(client.socket().Expect<DeviceOpened>(kLimit));
  }
  Ready();
}

void Fork() {
  RawClient client;
  std::vector<RawDevice> devices;
  OpenTwo(client, &devices);
  for (int child = 0; child < 8; ++child) {
    if (::fork() != 0) continue;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 0; i < 200; ++i) {
      static_cast<void>(client.socket().Send(
          OpenDevice{static_cast<std::uint32_t>(i % 3), static_cast<std::uint32_t>(i % 3)}));
      static_cast<void>(client.socket().Send(CloseDevice{static_cast<std::uint32_t>(i % 3)}));
      for (RawDevice& device : devices)
        if (device.channel) device.channel->TryPost(FrameHeader{}, {});
    }
    ::_exit(0);
  }
  while (::wait(nullptr) > 0) {
  }
  Ready();
}

[[noreturn]] void Hold() {
  RawClient client;
  std::vector<RawDevice> devices;
  OpenTwo(client, &devices);
  // Announces a copy and never sends its data, then fills the channel with calls.
  for (RawDevice& device : devices) {
    device.channel->Post(CopyToDevice{0, device.opened.window.base, 64 << 20, 1});
    FrameHeader header;
    header.op = static_cast<std::uint16_t>(Op::kMemoryInfo);
    for (header.request = 1; device.channel->TryPost(header, {}); ++header.request) {
    }
  }
  Ready();
  for (;;) ::raise(SIGSTOP);
}

// Runs an attack again and again, each time in a child, since the attack may end its process.
template <typename Attack>
[[noreturn]] void AgainAndAgain(Attack&& attack) {
  for (std::uint64_t round = 1;; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      // Drops messages about closed connections: they are expected.
      ::close(STDERR_FILENO);
      ::open("/dev/null", O_WRONLY);
      attack(round);
      ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
    Ready();
    ::usleep(kRestMicroseconds);
  }
}

int Run(int argc, char** argv) {
  int next = 1;
  if (next < argc && argv[next][0] >= '0' && argv[next][0] <= '9') {
    const auto user = static_cast<uid_t>(std::stoul(argv[next++]));
    Check(::setgid(user) == 0 && ::setuid(user) == 0, "becoming another user");
  }
  const std::string mode = next < argc ? argv[next] : "";
  const rlimit none{0, 0};  // No core files.
  ::setrlimit(RLIMIT_CORE, &none);
  ::setpriority(PRIO_PROCESS, 0, 19);
  if (mode == "sockets") Sockets();
  if (mode == "idle") Idle(next + 1 < argc ? std::stoul(argv[next + 1]) : 100);
  if (mode == "junk") Junk();
  if (mode == "greets") AgainAndAgain([](std::uint64_t) { Greet(); });
  if (mode == "joins") AgainAndAgain([](std::uint64_t) { JoinWithoutEnd(); });
  if (mode == "deaf") AgainAndAgain([](std::uint64_t) { OpenAndCloseUnread(); });
  if (mode == "scribbles") AgainAndAgain([](std::uint64_t round) { Scribble(round); });
  if (mode == "shrinks") AgainAndAgain([](std::uint64_t) { Shrink(); });
  if (mode == "forks") AgainAndAgain([](std::uint64_t) { Fork(); });
  if (mode == "holds") Hold();
  std::fprintf(stderr, "attacker: '%s' is no attack\n", mode.c_str());
  return 2;
}

}  // namespace
}  // namespace cuspan

int main(int argc, char** argv) {
  return cuspan::ProgramStatus([&] { return cuspan::Run(argc, argv); });
}
