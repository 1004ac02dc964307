#include "launcher/command/bench.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "common/log.h"
#include "launcher/host/install_paths.h"

namespace cuspan {
namespace {

constexpr std::string_view kPrefix = "cuspan-bench-";

// Names of the benchmarks in `folder`, sorted.
std::vector<std::string> Installed(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string file = entry.path().filename().string();
    if (file.starts_with(kPrefix)) names.push_back(file.substr(kPrefix.size()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string List(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

int Bench(const BenchOptions& options, const InheritedSignals& signals) {
  Result<InstallPaths> paths = InstallPaths::Find();
  if (!paths.ok()) {
    LogError("{}", paths.status().message());
    return kExitOwnFailure;
  }
  const std::filesystem::path folder = std::filesystem::path(paths->proxy).parent_path();
  const std::vector<std::string> names = Installed(folder);
  if (names.empty()) {
    LogError("there are no benchmarks in {}: build all of cuspan, or install it again",
             folder.string());
    return kExitNotFound;
  }
  if (options.name.empty()) {
    std::fputs(Format("benchmarks: {}; see cuspan bench NAME --help\n", List(names)).c_str(),
               stdout);
    return 0;
  }
  if (std::find(names.begin(), names.end(), options.name) == names.end()) {
    LogError("unknown benchmark '{}'; installed in {}: {}", options.name, folder.string(),
             List(names));
    return kExitNotFound;
  }
  const std::string program = (folder / (std::string(kPrefix) + options.name)).string();
  std::vector<std::string> words = {program};
  words.insert(words.end(), options.arguments.begin(), options.arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  signals.Restore();
  ::execv(program.c_str(), pointers.data());
  LogError("cannot start {}: {}", program, std::strerror(errno));
  return kExitNotExecutable;
}

}  // namespace cuspan
