// The environments of the processes that cuspan starts.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/batch_system.h"

namespace cuspan {

// A list of NAME=value strings.
class Environment {
 public:
  Environment() = default;
  explicit Environment(std::vector<std::string> entries) : entries_(std::move(entries)) {}
  static Environment OfThisProcess();

  std::optional<std::string_view> Get(std::string_view name) const;
  void Set(std::string_view name, std::string_view value);
  void Unset(std::string_view name);

  const std::vector<std::string>& entries() const { return entries_; }
  // For execve; valid as long as this object is not changed.
  std::vector<char*> Pointers() const;

 private:
  std::vector<std::string> entries_;
};

// Removes what the mpirun of Open MPI or MPICH adds for its ranks, and keeps what the user chose
// for all: which network to use, say (OMPI_MCA_btl_tcp_if_include).
void StripMpi(Environment& environment);
// True inside a rank of an MPI job, as Open MPI, PMIx or PMI mark it.
bool InsideMpiJob(const Environment& environment);
// The batch system of the job around; kNone also where CUSPAN_BATCH is off.
BatchSystem BatchSystemAround(const Environment& environment);

// The names of the CUSPAN_* settings that are set, for agents on other hosts; without secrets.
std::vector<std::string> SettingNames(const Environment& environment);

}  // namespace cuspan
