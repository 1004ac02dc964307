// Places of the GPU compared by a scenario: this machine without cuspan, one node, and agents.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/store/results.h"
#include "launcher/host/environment.h"

namespace cuspan::bench::store {

struct Place {
  std::string name;                // local, same-node or agents.
  std::string relay;               // Between agents; else empty.
  std::vector<std::string> words;  // Command before the program.

  bool local() const { return name == "local"; }
};

// All places, the local one first. Without it if the options ask for the software GPU.
std::vector<Place> PlacesOf(const Options& options, const std::string& own);

// Output of a measuring program. Empty: the program failed at the local place, since this machine
// has no GPU. `environment`: as of Capture.
Result<std::optional<std::string>> RunAt(const Place& place,
                                         const std::vector<std::string>& program,
                                         const Environment* environment = nullptr);

// Figures of a scenario in all forms, in relation to those of the local place.
class PlaceFigures {
 public:
  // Begins the table. `title`: of the table; `plain`: heading of the ratios `to_plain`.
  PlaceFigures(std::string scenario, const std::string& title, const std::string& plain,
               Results& results);
  // `to_plain` may be empty.
  void Add(const std::string& figure, const Place& place, const std::string& unit, double value,
           const std::string& to_plain);

 private:
  const std::string scenario_;
  Results& results_;
  std::map<std::string, double> local_;  // Values by figure.
};

}  // namespace cuspan::bench::store
