#include "bench/bandwidth/footprint.h"

#include <dirent.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "bench/common/child.h"
#include "bench/common/raw_link.h"
#include "common/format.h"
#include "common/settings.h"
#include "common/unique_fd.h"

namespace cuspan::bench::bandwidth {
namespace {

// Variable in the environment of all processes of a measurement.
constexpr const char* kMark = "CUSPAN_BENCH_MARK";

// A program printing "ready" when its work is done, then waiting for the end of its input.
class Holder {
 public:
  static Result<Holder> Start(const std::vector<std::string>& words,
                              const Environment& environment) {
    int input[2];
    int output[2];
    if (::pipe2(input, O_CLOEXEC) != 0 || ::pipe2(output, O_CLOEXEC) != 0)
      return Status::Exhausted("pipe: {}", std::strerror(errno));
    const UniqueFd its_input(input[0]);
    const UniqueFd its_output(output[1]);
    Holder holder;
    holder.input_.Reset(input[1]);
    holder.output_.Reset(output[0]);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    const int error = ::posix_spawnp(&holder.pid_, arguments[0], &actions, nullptr,
                                     arguments.data(), environment.Pointers().data());
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) return Status::NotFound("{}: {}", words[0], std::strerror(error));
    return holder;
  }
  Holder(Holder&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)),
        input_(std::move(other.input_)),
        output_(std::move(other.output_)) {}
  ~Holder() {
    if (pid_ > 0) End();
  }

  bool WaitReady() {
    std::string text;
    char buffer[4096];
    while (text.find("ready\n") == std::string::npos) {
      const ssize_t bytes = ::read(output_.get(), buffer, sizeof buffer);
      if (bytes < 0 && errno == EINTR) continue;
      if (bytes <= 0) return false;
      text.append(buffer, static_cast<std::size_t>(bytes));
    }
    return true;
  }
  void End() {
    input_.Reset();
    int status = 0;
    while (::waitpid(std::exchange(pid_, -1), &status, 0) < 0 && errno == EINTR) {
    }
  }
  pid_t pid() const { return pid_; }

 private:
  Holder() = default;
  pid_t pid_ = -1;
  UniqueFd input_;
  UniqueFd output_;
};

// 0 if the process has ended.
std::uint64_t PrivateDirty(const std::string& process) {
  std::ifstream file(Format("/proc/{}/smaps_rollup", process));
  for (std::string word; file >> word;) {
    std::uint64_t kib = 0;
    if (word == "Private_Dirty:" && file >> kib) return kib * 1024;
  }
  return 0;
}

// Maximum per executable among the marked processes.
std::map<std::string, std::uint64_t> LargestOf(const std::string& mark) {
  std::map<std::string, std::uint64_t> largest;
  const std::string entry = Format("{}={}", kMark, mark);
  std::error_code error;
  for (const auto& process : std::filesystem::directory_iterator("/proc", error)) {
    const std::string number = process.path().filename();
    if (number.front() < '0' || number.front() > '9') continue;
    std::ifstream file(process.path() / "environ", std::ios::binary);
    const std::string variables((std::istreambuf_iterator<char>(file)), {});
    if (variables.find(entry) == std::string::npos) continue;
    const auto executable = std::filesystem::read_symlink(process.path() / "exe", error);
    if (error) continue;
    std::uint64_t& most = largest[executable.filename()];
    most = std::max(most, PrivateDirty(number));
  }
  return largest;
}

Result<std::uint64_t> ContextAlone(const std::string& folder, const std::string& device,
                                   bool* soft) {
  const Environment environment = Environment::OfThisProcess();
  std::vector<std::string> libraries;
  if (device != "soft") libraries.emplace_back("libcuda.so.1");
  if (device != "cuda") libraries.push_back(folder + "/soft/libcuda.so.1");
  for (const std::string& library : libraries) {
    CUSPAN_ASSIGN_OR_RETURN(Holder holder,
                            Holder::Start({folder + "/bench-context", library}, environment));
    if (!holder.WaitReady()) continue;
    *soft = library != "libcuda.so.1";
    return PrivateDirty(std::to_string(holder.pid()));
  }
  return Status::Unavailable("no context can be created");
}

}  // namespace

Result<std::vector<Footprint>> MeasureFootprints(const SweepOptions& options) {
  CUSPAN_ASSIGN_OR_RETURN(const std::string folder, OwnFolder());
  CUSPAN_RETURN_IF_ERROR(ChooseTransport(options.transport));
  bool soft = false;
  CUSPAN_ASSIGN_OR_RETURN(const std::uint64_t context, ContextAlone(folder, options.device, &soft));
  std::vector<Footprint> footprints;
  for (const std::string& placement : options.placements) {
    std::vector<std::string> words = {folder + "/../../bin/cuspan", "run", "--device",
                                      soft ? "soft" : "cuda"};
    if (placement == "agents") words.insert(words.end(), {"--same-node", "never"});
    words.insert(words.end(), {"--", folder + "/bench-bandwidth-program", "--hold", "--repetitions",
                               "2", "--seconds", Format("{}", options.seconds)});
    for (const char* const direction : {"to-device", "from-device", "both"})
      for (const std::string& memory : options.memories)
        for (const std::uint64_t bytes : options.transfers)
          words.push_back(Format("{}:{}:{}:1", direction, memory, bytes));
    Environment environment = Environment::OfThisProcess();
    const std::string mark = Format("{}-{}", ::getpid(), placement);
    environment.Set(kMark, mark);
    environment.Set(settings::kStagingBytes.name, std::to_string(options.buffers.front()));
    environment.Set(settings::kStagingBuffers.name, std::to_string(options.buffer_count));
    CUSPAN_ASSIGN_OR_RETURN(Holder holder, Holder::Start(words, environment));
    if (!holder.WaitReady()) return Status::Internal("{}: the program failed", placement);
    const std::map<std::string, std::uint64_t> largest = LargestOf(mark);
    for (const char* const process : {"cuspan-proxy", "cuspan-agent"}) {
      const auto found = largest.find(process);
      if (found == largest.end()) continue;
      Footprint footprint;
      footprint.placement = placement;
      footprint.process = process;
      footprint.private_dirty = found->second;
      footprint.context = process == std::string("cuspan-proxy") ? context : 0;
      footprint.staging = 2 * options.buffer_count * options.buffers.front();
      footprints.push_back(std::move(footprint));
    }
  }
  return footprints;
}

std::string FootprintTable(const std::vector<Footprint>& footprints) {
  const auto mib = [](std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  std::string text = "Private dirty memory after copies, MiB\n";
  for (const Footprint& one : footprints)
    text +=
        Format("{:<10}{:<13} {:.1f}, a context alone {:.1f}, beyond it {:.1f} (bound: {:.0f})\n",
               one.placement, one.process, mib(one.private_dirty), mib(one.context),
               mib(one.beyond()), mib(one.bound()));
  return text;
}

}  // namespace cuspan::bench::bandwidth
