// What a hostile or a broken process can do to a run, without end until it is killed. It never
// trusts what comes back, and goes on after each failure.
//
// Beside a run, as anybody on the node:
//   attacker [USER] sockets       connects to every socket of cuspan that /proc/net/unix names,
//   again
//                                 and again, and sends what makes no sense
// As a process of the run's user, that knows its socket:
//   attacker [USER] idle COUNT    holds COUNT connections that never say what they are
//   attacker junk                 sends random bytes where a greeting is expected
// As a program of the run:
//   attacker greets               introduces itself and hangs up, again and again
//   attacker joins                asks to join two devices, without end
//   attacker deaf                 opens and closes a device, and never reads an answer
//   attacker scribbles            writes random bytes over all that it shares with the run
//   attacker shrinks              hands over memory that it then makes shorter
//   attacker forks                has children that use its connection all at once
//   attacker holds                stops (SIGSTOP) in the middle of its work, with all its devices
//
// They rest between their strokes, and have the lowest priority: what is tested is what a stroke
// does to the run, and not how the kernel shares processors between those who want all of them.
//
// USER is a number: the process becomes that user first. "ready" on standard output says that it
// has begun.
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

// After what has the run start proxies.
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

// The abstract names of cuspan's sockets on this node, without the leading @.
std::vector<std::string> Names() {
  std::vector<std::string> names;
  std::ifstream file("/proc/net/unix");
  for (std::string line; std::getline(file, line);) {
    const std::size_t at = line.find(" @cuspan-");
    if (at != std::string::npos) names.push_back(line.substr(at + 2));
  }
  return names;
}

// A socket as a stranger makes it: none of ControlSocket's care.
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
    // Before a run has begun there are none: then it looks again at once.
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
      // Those that were hung up come anew.
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
      if (random() % 2 == 0) {  // The right beginning of a frame that never comes.
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

// Opens the first two devices; waits for their answers.
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
  // What it is told it does not take: the answers fill its socket.
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
  const UniqueFd file = client.socket().TakeFd();
  struct stat information {};
  Check(::fstat(file.get(), &information) == 0, "fstat");
  const auto bytes = static_cast<std::size_t>(information.st_size);
  // The rings and their counters come first.
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

// A bell and a shared region that are no sealed memory, or end early.
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
  // A copy that is wanted and never sent, and as many calls as there is room for.
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

// In a child, since it may end by what it does to itself; again and again.
template <typename Attack>
[[noreturn]] void AgainAndAgain(Attack&& attack) {
  for (std::uint64_t round = 1;; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      // What the agent hangs up on is what is meant to happen.
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

int main(int argc, char** argv) { return cuspan::Run(argc, argv); }
