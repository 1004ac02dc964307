#include "bench/store/served.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/common/median.h"
#include "bench/store/places.h"
#include "bench/store/plain_reads.h"
#include "common/cores.h"
#include "common/format.h"
#include "launcher/host/environment.h"

namespace cuspan::bench::store {
namespace {

constexpr int kServingThreads[] = {4, 8, 14};
// Serving threads of the figures of one number.
constexpr int kUsualThreads = 8;
// Threads of plain reads from a drive without io_uring.
constexpr int kBlockingThreads = 32;
constexpr std::uint32_t kLine = 4096;

// Sizes of a measurement.
struct Load {
  int warps = 4224;
  std::uint64_t warm = 500'000;  // Lines touched.
  std::uint64_t cold = 60'000;
};
// The software GPU runs on the cores of the reading threads.
constexpr Load kSoftLoad = {32, 2000, 2000};

struct ServedCase {
  std::string figure;
  std::string unit;
  std::uint32_t line = kLine;
  std::uint64_t touched = 0;
  int threads = 0;
  const char* resident = "off";  // CUSPAN_FILE_RESIDENT.
  bool cold = false;
};

struct ServedRound {
  double lines = 0;  // Fetched.
  double seconds = 0;
  double bytes = 0;  // Read from the file.
};

// Rounds of the measuring program except for the first one, which also loads the kernel.
Result<std::vector<ServedRound>> ParseRounds(const std::string& output, int rounds) {
  std::vector<ServedRound> parsed;
  std::istringstream numbers(output);
  for (ServedRound one; numbers >> one.lines >> one.seconds >> one.bytes;) {
    if (one.lines == 0)
      return Status::Unavailable(
          "no line of the file was fetched: --folder must be a directory of the GPU's node, too");
    if (one.seconds <= 0) break;
    parsed.push_back(one);
  }
  if (parsed.size() != static_cast<std::size_t>(rounds) + 1)
    return Status::Internal("the measuring program printed '{}'", output);
  parsed.erase(parsed.begin());
  return parsed;
}

// Rate in the case's unit.
double Rate(const ServedCase& served, double lines, double seconds) {
  if (served.unit == "GB/s") return lines * served.line / seconds / 1e9;
  return lines / seconds / (served.unit == "M/s" ? 1e6 : 1e3);
}

// Numbers of serving threads: those for which the machine has cores, at least the first one.
std::vector<int> ThreadCounts() {
  const int cores = AvailableCores();
  std::vector<int> counts;
  for (const int threads : kServingThreads)
    if (counts.empty() || threads <= cores) counts.push_back(threads);
  return counts;
}

class Served {
 public:
  Served(const Options& options, const std::string& own, const std::string& file, Results& results)
      : options_(options),
        program_(own + "/bench-store-served-program"),
        file_(file),
        bytes_(static_cast<std::uint64_t>(options.mebibytes) << 20),
        load_(options.device == "soft" ? kSoftLoad : Load()),
        places_(PlacesOf(options, own)),
        table_("served",
               Format("lines read for kernels, a file of {} MiB, medians of {} rounds",
                      options.mebibytes, options.rounds),
               "/ plain reads", results),
        results_(results) {}

  Status Measure() {
    const std::vector<int> counts = ThreadCounts();
    for (const int threads : counts) {
      ServedCase served = Warm(Format("served, {} threads", threads), "M/s", kLine, threads);
      CUSPAN_RETURN_IF_ERROR(MeasureCase(served, threads == counts.back()));
    }
    const int threads = std::min(kUsualThreads, counts.back());
    CUSPAN_RETURN_IF_ERROR(MeasureCase(Warm("served, 512 B", "M/s", 512, threads), false));
    CUSPAN_RETURN_IF_ERROR(MeasureCase(Warm("served, 64 KiB", "GB/s", 65536, threads), false));
    ServedCase all = Warm("auto, all lines touched", "M/s", kLine, threads);
    all.touched = bytes_ / kLine;
    all.resident = "auto";
    CUSPAN_RETURN_IF_ERROR(MeasureCase(all, false));
    // The last one: the others need the file's pages.
    ServedCase cold = Warm("served, cold", "k/s", kLine, threads);
    cold.touched = std::min(load_.cold, bytes_ / kLine);
    cold.cold = true;
    CUSPAN_RETURN_IF_ERROR(MeasureCase(cold, false));
    results_.table +=
        ring_ ? Format("served, cold: plain reads by io_uring, {} at a time\n", kRingDepth)
              : Format("served, cold: plain reads by {} threads\n", kBlockingThreads);
    return Status::Ok();
  }

 private:
  ServedCase Warm(std::string figure, const char* unit, std::uint32_t line, int threads) const {
    return {std::move(figure), unit, line, std::min(load_.warm, bytes_ / line), threads};
  }

  // At all places. `with_bytes`: also the bytes read per byte of lines.
  Status MeasureCase(const ServedCase& served, bool with_bytes) {
    std::optional<double> plain;
    if (std::string_view(served.resident) == "off") {
      CUSPAN_ASSIGN_OR_RETURN(plain, PlainRate(served));
    }
    std::vector<std::pair<const Place*, double>> amounts;
    for (const Place& place : places_) {
      CUSPAN_ASSIGN_OR_RETURN(const std::optional<std::vector<ServedRound>> rounds,
                              RunCase(served, place));
      if (!rounds) continue;
      std::vector<double> rates;
      std::vector<double> read;
      for (const ServedRound& round : *rounds) {
        rates.push_back(Rate(served, round.lines, round.seconds));
        read.push_back(round.bytes / (round.lines * served.line));
      }
      const double value = Median(rates);
      table_.Add(served.figure, place, served.unit, value,
                 plain ? Format("{:.2f}", value / *plain) : "");
      if (with_bytes) amounts.emplace_back(&place, Median(read));
    }
    for (const auto& [place, amount] : amounts)
      table_.Add("bytes read per byte of lines", *place, "ratio", amount, "");
    return Status::Ok();
  }

  // Empty: as of RunAt.
  Result<std::optional<std::vector<ServedRound>>> RunCase(const ServedCase& served,
                                                          const Place& place) const {
    Environment environment = Environment::OfThisProcess();
    environment.Set("CUSPAN_FILE_RESIDENT", served.resident);
    environment.Set("CUSPAN_STORE_THREADS", std::to_string(served.threads));
    CUSPAN_ASSIGN_OR_RETURN(const std::optional<std::string> output,
                            RunAt(place,
                                  {program_, file_, std::to_string(served.line),
                                   std::to_string(served.touched), std::to_string(load_.warps),
                                   std::to_string(options_.rounds + 1), served.cold ? "1" : "0"},
                                  &environment));
    if (!output) return std::optional<std::vector<ServedRound>>();
    CUSPAN_ASSIGN_OR_RETURN(std::vector<ServedRound> rounds, ParseRounds(*output, options_.rounds));
    return std::optional(std::move(rounds));
  }

  // Rate of plain reads of the same lines.
  Result<double> PlainRate(const ServedCase& served) {
    std::vector<double> rates;
    for (int round = 0; round <= options_.rounds; ++round) {
      const std::vector<std::uint64_t> numbers =
          LinesOfRound(bytes_ / served.line, served.touched, round);
      CUSPAN_ASSIGN_OR_RETURN(const double seconds, PlainSeconds(served, numbers));
      if (round != 0) rates.push_back(Rate(served, static_cast<double>(numbers.size()), seconds));
    }
    return Median(rates);
  }

  Result<double> PlainSeconds(const ServedCase& served, const std::vector<std::uint64_t>& numbers) {
    if (!served.cold) return ReadByThreads(file_, numbers, served.line, served.threads);
    CUSPAN_RETURN_IF_ERROR(DropPages(file_));
    if (ring_) {
      Result<double> seconds = ReadByRing(file_, numbers, served.line);
      if (seconds.ok() || seconds.status().code() != StatusCode::kUnsupported) return seconds;
      ring_ = false;
    }
    return ReadByThreads(file_, numbers, served.line, kBlockingThreads);
  }

  const Options& options_;
  const std::string program_;
  const std::string file_;
  const std::uint64_t bytes_;
  const Load load_;
  const std::vector<Place> places_;
  PlaceFigures table_;
  Results& results_;
  bool ring_ = true;  // Until io_uring can not be used.
};

}  // namespace

Status MeasureServed(const Options& options, const std::string& own, const std::string& file,
                     Results& results) {
  return Served(options, own, file, results).Measure();
}

}  // namespace cuspan::bench::store
