#include "bench/store/engine.h"

#include <algorithm>
#include <optional>
#include <sstream>
#include <utility>

#include "bench/common/median.h"
#include "bench/store/places.h"
#include "common/format.h"

namespace cuspan::bench::store {
namespace {

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
  PlaceFigures table(
      "engine",
      Format("arrays in a file of {} MiB, medians of {} rounds", options.mebibytes, options.rounds),
      "/ plain loads", results);
  for (const Place& place : PlacesOf(options, own)) {
    CUSPAN_ASSIGN_OR_RETURN(
        const std::optional<std::string> output,
        RunAt(place, {own + "/bench-store-engine-program", file, std::to_string(options.rounds)}));
    if (!output) continue;
    CUSPAN_ASSIGN_OR_RETURN(const Figures figures, Parse(*output));
    for (const auto& [figure, rates] : figures)
      table.Add(figure, place, UnitOf(figure), Median(rates.values),
                Format("{:.2f}", Median(rates.ratios)));
  }
  return Status::Ok();
}

}  // namespace cuspan::bench::store
