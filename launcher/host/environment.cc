#include "launcher/host/environment.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "common/format.h"

namespace cuspan {
namespace {

bool HasName(const std::string& entry, std::string_view name) {
  return entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=';
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

void StripMpi(Environment& environment) {
  // Observed in the environment of ranks of Open MPI 4.1.4 and MPICH 4.0.2.
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
  // Settings of the user, needed by an mpirun started by the program,
  constexpr std::string_view kOfUser[] = {"OMPI_ALLOW_RUN_AS_ROOT", "PMIX_MCA_gds", "OMPI_MCA_"};
  // except the parameters set by mpirun in ranks.
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
