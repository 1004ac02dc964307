#include "launcher/run/client_environment.h"

#include <unistd.h>

#include <optional>
#include <string>
#include <string_view>

#include "common/format.h"

namespace cuspan {
namespace {

constexpr std::string_view kClientFile = "libcuspan.so";
constexpr std::string_view kRuntimeFolder = "/lib/cuspan/runtime";
constexpr std::string_view kCufileFile = "/lib/cuspan/cufile.json";
// Used by cuFile if the variable is not set.
constexpr const char* kCufileOfNode = "/etc/cufile.json";

// Entries of `list`, split at any of `separators`, with `keep` true, joined by `joiner`.
template <typename Keep>
std::string Filter(std::string_view list, std::string_view separators, char joiner, Keep keep) {
  std::string kept;
  bool first = true;
  for (std::size_t start = 0; start <= list.size();) {
    const std::size_t end = std::min(list.find_first_of(separators, start), list.size());
    const std::string_view entry = list.substr(start, end - start);
    if (keep(entry)) {
      if (!first) kept += joiner;
      kept += entry;
      first = false;
    }
    start = end + 1;
  }
  return kept;
}

// Removes entries from a list variable unless `keep` is true; unsets it if no entry remains.
template <typename Keep>
void FilterVariable(Environment& environment, const char* name, std::string_view separators,
                    char joiner, Keep keep) {
  const std::optional<std::string_view> value = environment.Get(name);
  if (!value) return;
  const std::string before(*value);
  const std::string after = Filter(before, separators, joiner, keep);
  if (after.size() == before.size()) return;
  if (after.empty())
    environment.Unset(name);
  else
    environment.Set(name, after);
}

void Prepend(Environment& environment, const char* name, const std::string& entry) {
  const std::string_view before = environment.Get(name).value_or("");
  environment.Set(name, before.empty() ? entry : Format("{}:{}", entry, before));
}

}  // namespace

void StripOuterRun(Environment& environment) {
  FilterVariable(environment, "LD_PRELOAD", ": ", ':', [](std::string_view entry) {
    return !entry.ends_with(Format("/{}", kClientFile));
  });
  FilterVariable(environment, "LD_LIBRARY_PATH", ":;", ':',
                 [](std::string_view entry) { return !entry.ends_with(kRuntimeFolder); });
  // An empty value marks a process outside of any run. The launcher itself may be a process of the
  // outer run; without the mark, its client library would add that run's variables again.
  if (environment.Get("CUSPAN_SOCKET")) environment.Set("CUSPAN_SOCKET", "");
  environment.Unset("CUSPAN_SECRET");
  if (environment.Get(kCufileSettings).value_or("").ends_with(kCufileFile))
    environment.Unset(kCufileSettings);
  environment.Unset(RunKey::kVariable);
}

void AddClient(Environment& environment, const InstallPaths& paths, const RunKey& key) {
  Prepend(environment, "LD_PRELOAD", paths.client);
  Prepend(environment, "LD_LIBRARY_PATH", paths.runtime);
  environment.Set("CUSPAN_SOCKET", key.Address());
  environment.Set("CUSPAN_SECRET", ToHex(key.secret));
  if (!environment.Get(kCufileSettings) && ::access(kCufileOfNode, F_OK) != 0)
    environment.Set(kCufileSettings, paths.cufile);
  // They described this node's GPUs. Values set later by the program's script refer to the run's.
  environment.Unset("CUDA_VISIBLE_DEVICES");
  environment.Unset("GPU_DEVICE_ORDINAL");
}

}  // namespace cuspan
