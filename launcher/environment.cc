#include "launcher/environment.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

namespace cuspan {
namespace {

constexpr std::string_view kClientFile = "libcuspan.so";
constexpr std::string_view kRuntimeFolder = "/lib/cuspan/runtime";

bool HasName(const std::string& entry, std::string_view name) {
  return entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=';
}

// The entries of `list`, split at any of `separators`, for which `keep` holds,
// joined again by `joiner`.
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

// Replaces a list variable by what `keep` leaves of it; unsets it when nothing is left.
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

Environment Environment::OfThisProcess() {
  std::vector<std::string> entries;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry)
    entries.emplace_back(*entry);
  return Environment(std::move(entries));
}

std::optional<std::string_view> Environment::Get(std::string_view name) const {
  for (const std::string& entry : entries_)
    if (HasName(entry, name)) return std::string_view(entry).substr(name.size() + 1);
  return std::nullopt;
}

void Environment::Set(std::string_view name, std::string_view value) {
  std::string wanted = Format("{}={}", name, value);
  for (std::string& entry : entries_) {
    if (HasName(entry, name)) {
      entry = std::move(wanted);
      return;
    }
  }
  entries_.push_back(std::move(wanted));
}

void Environment::Unset(std::string_view name) {
  std::erase_if(entries_, [name](const std::string& entry) { return HasName(entry, name); });
}

std::vector<char*> Environment::Pointers() const {
  std::vector<char*> pointers;
  for (const std::string& entry : entries_) pointers.push_back(const_cast<char*>(entry.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

void StripOuterRun(Environment& environment) {
  FilterVariable(environment, "LD_PRELOAD", ": ", ':', [](std::string_view entry) {
    return !entry.ends_with(Format("/{}", kClientFile));
  });
  FilterVariable(environment, "LD_LIBRARY_PATH", ":;", ':',
                 [](std::string_view entry) { return !entry.ends_with(kRuntimeFolder); });
  // An empty one says that a process is outside of any run: where the launcher itself is a process
  // of the outer run, its library would otherwise add that run's variables again.
  if (environment.Get("CUSPAN_SOCKET")) environment.Set("CUSPAN_SOCKET", "");
  environment.Unset("CUSPAN_SECRET");
  environment.Unset(RunKey::kVariable);
}

void StripMpi(Environment& environment) {
  // As seen in the environment of a rank of Open MPI 4.1.4, and of MPICH 4.0.2.
  constexpr std::string_view kOfMpirun[] = {"OMPI_",
                                            "PMIX_",
                                            "PRTE_",
                                            "ORTE_",
                                            "HFI_NO_BACKTRACE",
                                            "IPATH_NO_BACKTRACE",  //
                                            "PMI_RANK=",
                                            "PMI_SIZE=",
                                            "PMI_FD=",
                                            "PMI_PORT=",
                                            "PMI_ID=",
                                            "PMI_SPAWNED=",
                                            "HYDI_",
                                            "MPI_LOCALNRANKS=",
                                            "MPI_LOCALRANKID=",
                                            "MPIR_CVAR_CH3_INTERFACE_HOSTNAME=",
                                            "GFORTRAN_UNBUFFERED_PRECONNECTED="};
  // The user's own, which an mpirun that the app starts needs as well,
  constexpr std::string_view kOfUser[] = {"OMPI_ALLOW_RUN_AS_ROOT", "PMIX_MCA_gds", "OMPI_MCA_"};
  // but for the parameters that mpirun sets in ranks.
  constexpr std::string_view kParametersOfRanks[] = {
      "OMPI_MCA_ess",      "OMPI_MCA_hwloc_base_binding_policy",
      "OMPI_MCA_initial_", "OMPI_MCA_mpi_oversubscribe",
      "OMPI_MCA_orte_",    "OMPI_MCA_pmix",
      "OMPI_MCA_rmaps_",   "OMPI_MCA_shmem_RUNTIME_QUERY_hint"};
  const auto among = [](std::string_view entry, const auto& prefixes) {
    return std::any_of(std::begin(prefixes), std::end(prefixes),
                       [&](std::string_view prefix) { return entry.starts_with(prefix); });
  };
  std::vector<std::string> gone;
  for (const std::string& entry : environment.entries()) {
    if (!among(entry, kOfMpirun)) continue;
    if (!among(entry, kOfUser) || among(entry, kParametersOfRanks))
      gone.push_back(entry.substr(0, entry.find('=')));
  }
  for (const std::string& name : gone) environment.Unset(name);
}

bool InsideMpiJob(const Environment& environment) {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"})
    if (environment.Get(name)) return true;
  return false;
}

BatchSystem BatchSystemAround(const Environment& environment) {
  return BatchSystemBy([&](std::string_view name) { return environment.Get(name); });
}

void AddClient(Environment& environment, const InstallPaths& paths, const RunKey& key) {
  Prepend(environment, "LD_PRELOAD", paths.client);
  Prepend(environment, "LD_LIBRARY_PATH", paths.runtime);
  environment.Set("CUSPAN_SOCKET", key.Address());
  environment.Set("CUSPAN_SECRET", ToHex(key.secret));
  // It was about this node's GPUs. What the program's own script sets is about the run's.
  environment.Unset("CUDA_VISIBLE_DEVICES");
  environment.Unset("GPU_DEVICE_ORDINAL");
}

std::vector<std::string> SettingNames(const Environment& environment) {
  std::vector<std::string> names;
  for (const std::string& entry : environment.entries()) {
    const std::string name = entry.substr(0, entry.find('='));
    if (name.starts_with("CUSPAN_") && name != "CUSPAN_SOCKET" && name != "CUSPAN_SECRET")
      names.push_back(name);
  }
  return names;
}

}  // namespace cuspan
