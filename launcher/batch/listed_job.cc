#include "launcher/batch/listed_job.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <unordered_set>

#include "common/format.h"
#include "common/trim.h"
#include "common/unique_fd.h"
#include "launcher/run/host_names.h"

namespace cuspan {
namespace {

// Limits for plausible lists: a line has up to 256 bytes, a node one line per processor.
constexpr std::size_t kMaxBytes = std::size_t{16} << 20;
constexpr std::size_t kMaxNodes = 10'000;
constexpr std::size_t kMaxName = 255;
constexpr std::size_t kMaxInMessage = 60;
constexpr std::uint32_t kMaxGpu = 4095;

bool IsNode(std::string_view name) { return name.size() <= kMaxName && IsHostName(name); }

// Possible garbage, made printable for a message.
std::string InMessage(std::string_view text) { return Printable(text, kMaxInMessage); }

std::optional<std::uint32_t> NumberUpTo(std::string_view text, std::uint32_t most) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool right = error == std::errc{} && end == text.data() + text.size() && number <= most;
  return right ? std::optional(number) : std::nullopt;
}

// Calls `take(line, number)` for each non-empty line, until one fails.
template <typename Take>
Status ForEachLine(std::string_view text, Take take) {
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = Trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.empty()) CUSPAN_RETURN_IF_ERROR(take(line, number));
  }
  return Status::Ok();
}

std::vector<std::string_view> WordsOf(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::string_view rest = Trim(text); !rest.empty();) {
    const std::size_t blank = std::min(rest.find_first_of(kBlanks), rest.size());
    words.push_back(rest.substr(0, blank));
    rest = Trim(rest.substr(blank));
  }
  return words;
}

// Nodes without duplicates, in the order of first occurrence.
class NodeList {
 public:
  Status Add(std::string_view name, std::string_view source) {
    if (!names_.emplace(name).second) return Status::Ok();
    if (nodes_.size() == kMaxNodes)
      return Status::Invalid("{} names more than {} hosts", source, kMaxNodes);
    nodes_.push_back({std::string(name), {}});
    return Status::Ok();
  }
  Result<std::vector<ListedNode>> Take(std::string_view source) {
    if (nodes_.empty()) return Status::Invalid("{} names no host", source);
    return std::move(nodes_);
  }

 private:
  std::unordered_set<std::string> names_;
  std::vector<ListedNode> nodes_;
};

// Reads the file named by `variable`. kNotFound if it does not exist.
Result<std::string> ReadListing(std::string_view variable, const std::string& path) {
  // O_NONBLOCK: opening a pipe of that name would block.
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.get() < 0) {
    const int error = errno;
    if (error == ENOENT || error == ENOTDIR)
      return Status::NotFound("{} names {}, but this node has no such file", variable,
                              InMessage(path));
    return Status::Unavailable("{} names {}, but it cannot be read: {}", variable, InMessage(path),
                               std::strerror(error));
  }
  struct stat about {};
  if (::fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode))
    return Status::Unavailable("{} names {}, but it is not a file", variable, InMessage(path));
  std::string text;
  std::array<char, 65536> part{};
  for (;;) {
    const ssize_t got = ::read(file.get(), part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      return Status::Unavailable("{} names {}, but it cannot be read: {}", variable,
                                 InMessage(path), std::strerror(errno));
    if (got == 0) return text;
    text.append(part.data(), static_cast<std::size_t>(got));
    if (text.size() > kMaxBytes)
      return Status::Invalid("{} names {}, but it is too large for a list of nodes: over {} MiB",
                             variable, InMessage(path), kMaxBytes >> 20);
  }
}

std::string SourceText(std::string_view variable, const std::string& path) {
  return Format("{} ({})", variable, InMessage(path));
}

}  // namespace

Result<std::vector<ListedNode>> ParseNodeLines(std::string_view text, std::string_view source) {
  NodeList list;
  CUSPAN_RETURN_IF_ERROR(
      ForEachLine(text, [&](std::string_view line, std::size_t number) -> Status {
        if (!IsNode(line))
          return Status::Invalid("{}: line {} is not a host name: '{}'", source, number,
                                 InMessage(line));
        return list.Add(line, source);
      }));
  return list.Take(source);
}

Result<std::vector<ListedNode>> ParseHostCounts(std::string_view text) {
  constexpr std::string_view kSource = "LSB_MCPU_HOSTS";
  const std::vector<std::string_view> words = WordsOf(text);
  NodeList list;
  for (std::size_t i = 0; i < words.size(); i += 2) {
    if (!IsNode(words[i]) || i + 1 == words.size() || !NumberUpTo(words[i + 1], ~0u))
      return Status::Invalid("{} is not a list such as 'hostA 5 hostB 2': '{}'", kSource,
                             InMessage(text));
    CUSPAN_RETURN_IF_ERROR(list.Add(words[i], kSource));
  }
  return list.Take(kSource);
}

Status AddGpuLines(std::string_view text, std::string_view source, std::vector<ListedNode>& nodes) {
  return ForEachLine(text, [&](std::string_view line, std::size_t number) -> Status {
    constexpr std::string_view kMark = "-gpu";
    const std::size_t mark = line.rfind(kMark);
    const std::optional<std::uint32_t> gpu =
        mark == std::string_view::npos ? std::nullopt
                                       : NumberUpTo(line.substr(mark + kMark.size()), kMaxGpu);
    if (!gpu)
      return Status::Invalid("{}: line {} is not HOST-gpuN: '{}'", source, number, InMessage(line));
    ListedNode* const node = FindHost(nodes, line.substr(0, mark));
    if (node == nullptr)
      return Status::Invalid("{}: line {} does not name a node of the job: '{}'", source, number,
                             InMessage(line));
    if (std::find(node->gpus.begin(), node->gpus.end(), *gpu) == node->gpus.end())
      node->gpus.push_back(*gpu);
    return Status::Ok();
  });
}

Result<ListedJob> ReadPbsJob(const Environment& environment) {
  constexpr std::string_view kNodes = "PBS_NODEFILE";
  constexpr std::string_view kGpus = "PBS_GPUFILE";
  ListedJob job;
  job.name = Format("PBS job {}", InMessage(environment.Get("PBS_JOBID").value_or("")));
  job.launchers = {"pbs_tmrsh"};
  job.request = "-l select=N:ngpus=N";
  if (environment.Get("PBS_VERSION").value_or("").starts_with("TORQUE")) {
    job.launchers.emplace_back("pbsdsh");
    job.request = "-l nodes=N:gpus=N";
  }
  const std::string path(environment.Get(kNodes).value_or(""));
  if (path.empty()) return Status::NotFound("{} is not set", kNodes);
  CUSPAN_ASSIGN_OR_RETURN(const std::string text, ReadListing(kNodes, path));
  CUSPAN_ASSIGN_OR_RETURN(job.nodes, ParseNodeLines(text, SourceText(kNodes, path)));
  const std::string gpu_path(environment.Get(kGpus).value_or(""));
  if (gpu_path.empty()) return job;
  const Result<std::string> gpus = ReadListing(kGpus, gpu_path);
  // Torque sets the variable in all jobs, but writes the file only for jobs with GPUs.
  if (!gpus.ok() && gpus.status().code() == StatusCode::kNotFound) return job;
  if (!gpus.ok()) return gpus.status();
  CUSPAN_RETURN_IF_ERROR(AddGpuLines(*gpus, SourceText(kGpus, gpu_path), job.nodes));
  job.lists_gpus = std::any_of(job.nodes.begin(), job.nodes.end(),
                               [](const ListedNode& node) { return !node.gpus.empty(); });
  return job;
}

Result<ListedJob> ReadLsfJob(const Environment& environment) {
  ListedJob job;
  job.name = Format("LSF job {}", InMessage(environment.Get("LSB_JOBID").value_or("")));
  job.launchers = {"blaunch"};
  job.request = "-gpu num=N";
  if (const auto counts = environment.Get("LSB_MCPU_HOSTS"); counts && !counts->empty()) {
    CUSPAN_ASSIGN_OR_RETURN(job.nodes, ParseHostCounts(*counts));
    return job;
  }
  constexpr std::string_view kFile = "LSB_DJOB_HOSTFILE";
  if (const std::string path(environment.Get(kFile).value_or("")); !path.empty()) {
    CUSPAN_ASSIGN_OR_RETURN(const std::string text, ReadListing(kFile, path));
    CUSPAN_ASSIGN_OR_RETURN(job.nodes, ParseNodeLines(text, SourceText(kFile, path)));
    return job;
  }
  constexpr std::string_view kHosts = "LSB_HOSTS";
  if (const auto hosts = environment.Get(kHosts); hosts && !hosts->empty()) {
    std::string lines;
    for (const std::string_view word : WordsOf(*hosts)) lines.append(word).append("\n");
    CUSPAN_ASSIGN_OR_RETURN(job.nodes, ParseNodeLines(lines, kHosts));
    return job;
  }
  return Status::NotFound("LSB_MCPU_HOSTS, {} and {} are not set", kFile, kHosts);
}

}  // namespace cuspan
