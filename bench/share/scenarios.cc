#include "bench/share/scenarios.h"

#include <algorithm>
#include <iterator>

#include "bench/share/stage.h"

namespace cuspan::bench::share {
namespace {

struct Scenario {
  const char* name;
  Status (*measure)(Stage& stage);
};
constexpr Scenario kScenarios[] = {{"latency", Latency},   {"throughput", Throughput},
                                   {"pairs", Pairs},       {"matrix", Matrix},
                                   {"fair", Fair},         {"cost", Cost},
                                   {"decision", Decision}, {"swap", Swap},
                                   {"faults", Faults},     {"change", Change}};

}  // namespace

std::vector<std::string> ScenarioNames() {
  std::vector<std::string> names;
  for (const Scenario& known : kScenarios) names.emplace_back(known.name);
  return names;
}

Result<std::vector<Row>> Measure(const Options& options) {
  CUSPAN_ASSIGN_OR_RETURN(Stage stage, Stage::Open(options));
  for (const std::string& name : options.scenarios) {
    const auto* const found =
        std::find_if(std::begin(kScenarios), std::end(kScenarios),
                     [&](const Scenario& known) { return name == known.name; });
    if (found == std::end(kScenarios)) return Status::Invalid("unknown scenario '{}'", name);
    stage.Begin(name);
    CUSPAN_RETURN_IF_ERROR(found->measure(stage));
  }
  return stage.ExtractRows();
}

}  // namespace cuspan::bench::share
