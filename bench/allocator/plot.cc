#include "bench/allocator/plot.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "common/format.h"

namespace cuspan::bench {
namespace {

constexpr double kPanelWidth = 340;
constexpr double kPanelHeight = 300;
constexpr double kLeft = 60;
constexpr double kTop = 40;
constexpr double kGap = 80;
constexpr double kWidth = kLeft + 2 * kPanelWidth + kGap + 130;
constexpr double kHeight = kTop + kPanelHeight + 60;
// Colours that are told apart without red and green.
constexpr const char* kColours[] = {"#0072b2", "#e69f00", "#009e73", "#cc79a7", "#000000"};

const char* ColourOf(Policy policy) {
  return kColours[static_cast<std::size_t>(policy) % std::size(kColours)];
}

// The next of 1, 2, 5, 10, 20 … that is not below `value`.
double RoundUp(double value) {
  if (value <= 0) return 1;
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (value <= factor * power) return factor * power;
  return 10 * power;
}

// One panel at `left`: what `value` gives of each outcome, against the load.
std::string Panel(const std::vector<Outcome>& outcomes, double left, const char* title,
                  double highest, const std::function<double(const Outcome&)>& value) {
  double low = outcomes.front().load;
  double high = low;
  for (const Outcome& outcome : outcomes) {
    low = std::min(low, outcome.load);
    high = std::max(high, outcome.load);
  }
  const double range = high > low ? high - low : 1;
  const auto x = [&](double load) { return left + (load - low) / range * kPanelWidth; };
  const auto y = [&](double v) { return kTop + kPanelHeight * (1 - v / highest); };
  std::string text = Format("<text x='{:.0f}' y='{:.0f}'>{}</text>\n", left, kTop - 14, title);
  for (int i = 0; i <= 5; ++i) {
    const double at = highest * i / 5;
    AppendFormat(text,
                 "<line x1='{0:.1f}' y1='{2:.1f}' x2='{1:.1f}' y2='{2:.1f}' stroke='#dddddd'/>\n"
                 "<text x='{3:.1f}' y='{4:.1f}' text-anchor='end'>{5:g}</text>\n",
                 left, left + kPanelWidth, y(at), left - 6, y(at) + 4, at);
  }
  std::map<double, bool> loads;
  std::map<Policy, std::string> lines;
  for (const Outcome& outcome : outcomes) {
    loads[outcome.load] = true;
    AppendFormat(lines[outcome.policy], "{:.1f},{:.1f} ", x(outcome.load), y(value(outcome)));
    AppendFormat(text, "<circle cx='{:.1f}' cy='{:.1f}' r='3' fill='{}'/>\n", x(outcome.load),
                 y(value(outcome)), ColourOf(outcome.policy));
  }
  for (const auto& [load, unused] : loads)
    AppendFormat(text, "<text x='{:.1f}' y='{:.1f}' text-anchor='middle'>{:g}</text>\n", x(load),
                 kTop + kPanelHeight + 18, load);
  for (const auto& [policy, points] : lines)
    AppendFormat(text, "<polyline points='{}' fill='none' stroke='{}' stroke-width='2'/>\n", points,
                 ColourOf(policy));
  AppendFormat(text, "<text x='{:.1f}' y='{:.1f}' text-anchor='middle'>offered load</text>\n",
               left + kPanelWidth / 2, kTop + kPanelHeight + 40);
  return text;
}

}  // namespace

std::string PlotOutcomes(const std::vector<Outcome>& outcomes) {
  if (outcomes.empty()) return {};
  double longest = 0;
  std::map<Policy, bool> policies;
  for (const Outcome& outcome : outcomes) {
    longest = std::max(longest, outcome.wait_mean / 60);
    policies[outcome.policy] = true;
  }
  const double second = kLeft + kPanelWidth + kGap;
  std::string text = Panel(outcomes, kLeft, "mean wait, minutes", RoundUp(longest),
                           [](const Outcome& outcome) { return outcome.wait_mean / 60; }) +
                     Panel(outcomes, second, "utilisation", 1,
                           [](const Outcome& outcome) { return outcome.utilisation; });
  double at = kTop + 6;
  for (const auto& [policy, unused] : policies) {
    const double left = second + kPanelWidth + 14;
    AppendFormat(text,
                 "<line x1='{:.1f}' y1='{:.1f}' x2='{:.1f}' y2='{:.1f}' stroke='{}' "
                 "stroke-width='2'/>\n<text x='{:.1f}' y='{:.1f}'>{}</text>\n",
                 left, at, left + 22, at, ColourOf(policy), left + 28, at + 4, PolicyName(policy));
    at += 20;
  }
  return Format(
      "<svg xmlns='http://www.w3.org/2000/svg' width='{0:g}' height='{1:g}' viewBox='0 0 {0:g} "
      "{1:g}' font-family='sans-serif' font-size='12'>\n<rect width='100%' height='100%' "
      "fill='#ffffff'/>\n{2}</svg>\n",
      kWidth, kHeight, text);
}

}  // namespace cuspan::bench
