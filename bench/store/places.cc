#include "bench/store/places.h"

#include <utility>

#include "bench/common/child.h"
#include "common/format.h"

namespace cuspan::bench::store {

std::vector<Place> PlacesOf(const Options& options, const std::string& own) {
  const std::string cuspan = own + "/../../bin/cuspan";
  std::vector<Place> places;
  if (options.device != "soft") places.push_back({"local", "", {}});
  places.push_back({"same-node", "", RunHere(options, cuspan)});
  for (const RelayKind relay : options.relays) {
    const std::string name(NameOf(relay));
    places.push_back({"agents", name, RunAway(options, cuspan, name, "auto")});
  }
  return places;
}

Result<std::optional<std::string>> RunAt(const Place& place,
                                         const std::vector<std::string>& program,
                                         const Environment* environment) {
  std::vector<std::string> words = place.words;
  words.insert(words.end(), program.begin(), program.end());
  Result<std::string> output = Capture(words, place.local(), environment);
  if (output.ok()) return std::optional(std::move(*output));
  if (place.local()) return std::optional<std::string>();
  return output.status();
}

PlaceFigures::PlaceFigures(std::string scenario, const std::string& title, const std::string& plain,
                           Results& results)
    : scenario_(std::move(scenario)), results_(results) {
  results_.table += Format("{}\n{:<30} {:<10} {:<5} {:>9} {:>5} {:>13} {:>9}\n", title, "", "place",
                           "relay", "", "", plain, "/ local");
}

void PlaceFigures::Add(const std::string& figure, const Place& place, const std::string& unit,
                       double value, const std::string& to_plain) {
  std::string to_local;
  if (place.local())
    local_[figure] = value;
  else if (const auto native = local_.find(figure); native != local_.end())
    to_local = Format("{:.2f}", value / native->second);
  results_.table += Format("{:<30} {:<10} {:<5} {:>9.2f} {:>5} {:>13} {:>9}\n", figure, place.name,
                           place.relay, value, unit, to_plain, to_local);
  store::Add({scenario_, figure, place.name, place.relay, unit, value, to_local, "", "", to_plain},
             results_);
}

}  // namespace cuspan::bench::store
