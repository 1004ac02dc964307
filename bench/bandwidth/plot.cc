#include "bench/bandwidth/plot.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "bench/bandwidth/report.h"
#include "common/format.h"

namespace cuspan::bench {
namespace {

constexpr double kWidth = 820;
constexpr double kHeight = 480;
constexpr double kLeft = 70;
constexpr double kRight = 150;
constexpr double kTop = 50;
constexpr double kBottom = 60;
// Colours that are told apart without red and green.
constexpr const char* kColours[] = {"#0072b2", "#e69f00", "#009e73", "#cc79a7",
                                    "#56b4e9", "#d55e00", "#f0e442", "#000000"};

// Steps of 1, 2 or 5 times a power of ten, about six of them.
double StepFor(double highest) {
  const double raw = highest / 6;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (raw <= factor * power) return factor * power;
  return 10 * power;
}

class Canvas {
 public:
  Canvas(std::uint64_t smallest, std::uint64_t largest, double highest)
      : low_(std::log2(static_cast<double>(smallest))),
        high_(std::log2(static_cast<double>(largest))),
        highest_(highest) {}

  double X(std::uint64_t bytes) const {
    return kLeft + (std::log2(static_cast<double>(bytes)) - low_) / (high_ - low_) *
                       (kWidth - kLeft - kRight);
  }
  double Y(double gbps) const {
    return kHeight - kBottom - gbps / highest_ * (kHeight - kTop - kBottom);
  }
  void Line(double x1, double y1, double x2, double y2, const char* style) {
    text_ += Format("<line x1='{:.1f}' y1='{:.1f}' x2='{:.1f}' y2='{:.1f}' {}/>\n", x1, y1, x2, y2,
                    style);
  }
  void Text(double x, double y, const char* anchor, const std::string& words) {
    text_ +=
        Format("<text x='{:.1f}' y='{:.1f}' text-anchor='{}'>{}</text>\n", x, y, anchor, words);
  }
  void Add(const std::string& element) { text_ += element; }
  const std::string& text() const { return text_; }

 private:
  const double low_;
  const double high_;
  const double highest_;
  std::string text_;
};

}  // namespace

std::string Plot(const SweepResult& result, const std::string& direction, const std::string& memory,
                 const std::string& placement) {
  std::map<std::uint64_t, std::map<std::uint64_t, double>> lines;  // By buffer, by transfer.
  double mpi = 0;
  double highest = 0;
  std::optional<int> lanes;  // The first that were measured.
  for (const Row& row : result.rows) {
    if (row.direction != direction || row.memory != memory || row.placement != placement ||
        row.proxies != 1 || !row.pipelined || row.lanes != lanes.value_or(row.lanes))
      continue;
    lanes = row.lanes;
    lines[row.buffer_bytes][row.transfer_bytes] = row.gbps;
    mpi = std::max(mpi, row.mpi_gbps.value_or(0));
    highest = std::max({highest, row.gbps, mpi});
  }
  if (lines.empty() || lines.begin()->second.size() < 2 || highest <= 0) return {};
  const auto& points = lines.begin()->second;
  const double step = StepFor(highest);
  Canvas canvas(points.begin()->first, points.rbegin()->first, std::ceil(highest / step) * step);
  const double right = kWidth - kRight;
  const double bottom = kHeight - kBottom;
  for (double at = 0; at <= highest + step; at += step) {
    if (canvas.Y(at) < kTop - 1) break;
    canvas.Line(kLeft, canvas.Y(at), right, canvas.Y(at), "stroke='#dddddd'");
    canvas.Text(kLeft - 8, canvas.Y(at) + 4, "end", Format("{:g}", at));
  }
  for (const auto& [bytes, gbps] : points) {
    canvas.Line(canvas.X(bytes), bottom, canvas.X(bytes), bottom + 5, "stroke='#000000'");
    canvas.Text(canvas.X(bytes), bottom + 20, "middle", SizeText(bytes));
  }
  canvas.Line(kLeft, bottom, right, bottom, "stroke='#000000'");
  canvas.Line(kLeft, kTop, kLeft, bottom, "stroke='#000000'");
  canvas.Text((kLeft + right) / 2, kHeight - 15, "middle", "bytes of the transfer");
  canvas.Text(kLeft, kTop - 12, "start",
              Format("GB/s, {}, {} memory, {}", direction, memory, placement));
  std::size_t index = 0;
  for (const auto& [buffer, line] : lines) {
    const char* const colour = kColours[index % std::size(kColours)];
    std::string path;
    for (const auto& [bytes, gbps] : line)
      path += Format("{:.1f},{:.1f} ", canvas.X(bytes), canvas.Y(gbps));
    canvas.Add(
        Format("<polyline points='{}' fill='none' stroke='{}' stroke-width='2'/>\n", path, colour));
    const double at = kTop + 20 * static_cast<double>(index);
    canvas.Line(right + 12, at, right + 36, at,
                Format("stroke='{}' stroke-width='2'", colour).c_str());
    canvas.Text(right + 42, at + 4, "start", Format("buffers of {}", SizeText(buffer)));
    ++index;
  }
  if (mpi > 0) {
    canvas.Line(kLeft, canvas.Y(mpi), right, canvas.Y(mpi),
                "stroke='#000000' stroke-dasharray='6 4'");
    canvas.Text(right + 12, canvas.Y(mpi) + 4, "start", "raw MPI");
  }
  return Format(
      "<svg xmlns='http://www.w3.org/2000/svg' width='{0:g}' height='{1:g}' viewBox='0 0 {0:g} "
      "{1:g}' font-family='sans-serif' font-size='12'>\n<rect width='100%' height='100%' "
      "fill='#ffffff'/>\n{2}</svg>\n",
      kWidth, kHeight, canvas.text());
}

}  // namespace cuspan::bench
