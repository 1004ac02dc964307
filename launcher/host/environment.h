// Environments of the processes started by cuspan.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/batch_system.h"

namespace cuspan {

// List of NAME=value strings.
class Environment {
 public:
  Environment() = default;
  explicit Environment(std::vector<std::string> entries) : entries_(std::move(entries)) {}
  static Environment OfThisProcess();

  std::optional<std::string_view> Get(std::string_view name) const;
  void Set(std::string_view name, std::string_view value);
  void Unset(std::string_view name);

  const std::vector<std::string>& entries() const { return entries_; }
  // Argument for execve; valid until this object changes.
  std::vector<char*> Pointers() const;

 private:
  std::vector<std::string> entries_;
};

// Removes variables added for ranks by the mpirun of Open MPI or MPICH. Keeps the user's own, such
// as a choice of the network (OMPI_MCA_btl_tcp_if_include).
void StripMpi(Environment& environment);
// True in a rank of an MPI job, as marked by Open MPI, PMIx or PMI.
bool InsideMpiJob(const Environment& environment);
// Batch system of the surrounding job; kNone also if CUSPAN_BATCH is off.
BatchSystem BatchSystemAround(const Environment& environment);

// Names of the CUSPAN_* settings present, for agents on other hosts; without secrets.
std::vector<std::string> SettingNames(const Environment& environment);

}  // namespace cuspan
