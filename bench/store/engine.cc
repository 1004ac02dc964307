#include "bench/store/engine.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <utility>

#include "bench/common/child.h"
#include "bench/common/median.h"
#include "common/format.h"

namespace cuspan::bench::store {
namespace {

// A place of the GPU.
struct Place {
  std::string name;   // local, same-node or agents.
  std::string relay;  // Between agents; else empty.
  std::vector<std::string> words;
};

// Rates of one figure, of arrays and of plain loads, one for each round.
struct Rates {
  std::vector<double> values;
  std::vector<double> ratios;
};
// Figures in the order of the program's output.
using Figures = std::vector<std::pair<std::string, Rates>>;

Result<Figures> Parse(const std::string& output) {
  Figures figures;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    std::size_t last = line.rfind(' ');
    const std::size_t middle =
        last == line.npos || last == 0 ? line.npos : line.rfind(' ', last - 1);
    if (middle == line.npos || middle == 0)
      return Status::Internal("the measuring program printed '{}'", line);
    std::istringstream numbers(line.substr(middle));
    double value = 0;
    double plain = 0;
    if (!(numbers >> value >> plain) || plain <= 0)
      return Status::Internal("the measuring program printed '{}'", line);
    const std::string name = line.substr(0, middle);
    auto found = std::find_if(figures.begin(), figures.end(),
                              [&](const auto& figure) { return figure.first == name; });
    if (found == figures.end()) found = figures.insert(found, {name, {}});
    found->second.values.push_back(value);
    found->second.ratios.push_back(value / plain);
  }
  return figures;
}

std::string UnitOf(const std::string& figure) {
  if (figure == "lines of 512 B") return "M/s";
  return figure == "hits, random words" ? "G/s" : "GB/s";
}

}  // namespace

Status MeasureEngine(const Options& options, const std::string& own, const std::string& file,
                     Results& results) {
  const std::string cuspan = own + "/../../bin/cuspan";
  std::vector<Place> places = {{"local", "", {}}, {"same-node", "", RunHere(options, cuspan)}};
  for (const RelayKind relay : options.relays) {
    const std::string name(NameOf(relay));
    places.push_back({"agents", name, RunAway(options, cuspan, name, "auto")});
  }
  results.table += Format(
      "arrays in a file of {} MiB, medians of {} rounds\n{:<30} {:<10} {:<5} {:>9} "
      "{:>5} {:>13} {:>9}\n",
      options.mebibytes, options.rounds, "", "place", "relay", "", "", "/ plain loads", "/ local");
  std::map<std::string, double> local;
  for (const Place& place : places) {
    const bool is_local = place.name == "local";
    if (is_local && options.device == "soft") continue;
    std::vector<std::string> words = place.words;
    words.insert(words.end(),
                 {own + "/bench-store-engine-program", file, std::to_string(options.rounds)});
    const Result<std::string> output = Capture(words, is_local);
    if (!output.ok() && is_local) continue;  // No GPU here.
    if (!output.ok()) return output.status();
    CUSPAN_ASSIGN_OR_RETURN(const Figures figures, Parse(*output));
    for (const auto& [figure, rates] : figures) {
      const double value = Median(rates.values);
      if (is_local) local[figure] = value;
      const std::string to_plain = Format("{:.2f}", Median(rates.ratios));
      const auto native = local.find(figure);
      const std::string to_local =
          is_local || native == local.end() ? "" : Format("{:.2f}", value / native->second);
      results.table += Format("{:<30} {:<10} {:<5} {:>9.2f} {:>5} {:>13} {:>9}\n", figure,
                              place.name, place.relay, value, UnitOf(figure), to_plain, to_local);
      Add({"engine", figure, place.name, place.relay, UnitOf(figure), value, to_local, "", "",
           to_plain},
          results);
    }
  }
  return Status::Ok();
}

}  // namespace cuspan::bench::store
