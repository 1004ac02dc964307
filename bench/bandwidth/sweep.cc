#include "bench/bandwidth/sweep.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <tuple>

#include "bench/common/child.h"
#include "bench/common/median.h"
#include "bench/common/raw_mpi.h"
#include "common/format.h"
#include "common/log.h"
#include "common/settings.h"
#include "launcher/plan.h"

namespace cuspan::bench::bandwidth {
namespace {

using Samples = std::vector<double>;

// What the program measures: direction, memory, bytes, devices.
using Copy = std::tuple<std::string, std::string, std::uint64_t, int>;
using Copies = std::map<Copy, Samples>;

Status Read(const std::string& text, Copies& copies) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    Copy copy;
    auto& [direction, memory, bytes, devices] = copy;
    if (!(words >> direction >> memory >> bytes >> devices))
      return Status::Internal("the measuring program printed '{}'", line);
    for (double sample = 0; words >> sample;) copies[copy].push_back(sample);
  }
  return Status::Ok();
}

// One way to run the program: where, and with which staging.
struct Place {
  std::string name;
  std::uint64_t buffer_bytes = 0;
  std::uint64_t buffers = 0;
  std::uint64_t sends = 0;
  int lanes = 1;
  bool pipelined = true;
  std::vector<std::string> words;  // Before the program.
  Environment environment;
  Copies copies;
};

// What is measured of raw MPI: way, size of a message, ranks on each side.
using Raw = std::tuple<std::string, std::uint64_t, int>;

class Sweeper {
 public:
  Sweeper(const SweepOptions& options, std::string folder)
      : options_(options), folder_(std::move(folder)) {}

  Result<SweepResult> Run() {
    ListPlaces();
    for (int round = 0; round < options_.rounds; ++round) {
      MeasureLocal(round);
      for (Place& place : places_) {
        if (place.name == "agents") MeasureMpi(place.buffer_bytes, place.lanes);
        const Result<std::string> text = Capture(Words(place.words), false, &place.environment);
        if (!text.ok())
          return Status::Internal("{}, buffers of {} bytes: {}", place.name, place.buffer_bytes,
                                  text.status().message());
        CUSPAN_RETURN_IF_ERROR(Read(*text, place.copies));
      }
    }
    return Collect();
  }

 private:
  std::vector<std::string> Words(const std::vector<std::string>& before) const {
    std::vector<std::string> words = before;
    words.insert(words.end(), {folder_ + "/bench-bandwidth-program", "--seconds",
                               Format("{}", options_.seconds), "--repetitions", "5"});
    for (const std::string& direction : options_.directions) {
      for (const std::string& memory : options_.memories) {
        const bool peers = direction == "device-to-device";
        if (peers && memory != options_.memories.front()) continue;  // No host memory in it.
        for (const std::uint64_t bytes : options_.transfers)
          for (const int proxies : options_.proxies) {
            if (peers && proxies != options_.proxies.front()) continue;
            words.push_back(Format("{}:{}:{}:{}", direction, peers ? "device" : memory, bytes,
                                   peers ? 2 : proxies));
          }
      }
    }
    return words;
  }

  std::uint64_t SendsOn(int lanes) const {
    if (options_.sends_chosen || lanes == 1) return options_.sends;
    return SendsInFlightFor(static_cast<std::uint32_t>(lanes));
  }

  void ListPlaces() {
    const std::string cuspan = folder_ + "/../../bin/cuspan";
    for (const std::string& name : options_.placements) {
      for (const std::uint64_t bytes : options_.buffers) {
        // On one node there are none.
        const std::vector<int> lanes = name == "agents" ? options_.lanes : std::vector{1};
        for (std::size_t i = 0; i < lanes.size() * options_.pipelined.size(); ++i) {
          const bool pipelined = options_.pipelined[i % options_.pipelined.size()];
          Place place;
          place.name = name;
          place.buffer_bytes = bytes;
          place.lanes = lanes[i / options_.pipelined.size()];
          place.pipelined = pipelined;
          place.buffers = options_.buffer_count;
          if (!options_.buffer_count_chosen && place.lanes > 2)
            place.buffers = StagingBuffersFor(static_cast<std::uint32_t>(place.lanes));
          place.sends = SendsOn(place.lanes);
          place.words = {cuspan, "run", "--device", options_.device};
          if (name == "agents")
            place.words.insert(place.words.end(),
                               {"--hosts", options_.hosts, "--same-node", "never", "--lanes",
                                std::to_string(place.lanes)});
          place.words.push_back("--");
          place.environment = Environment::OfThisProcess();
          const auto set = [&](const Setting& setting, const std::string& value) {
            place.environment.Set(setting.name, value);
          };
          set(settings::kStagingBytes, std::to_string(bytes));
          set(settings::kStagingBuffers, std::to_string(place.buffers));
          set(settings::kSendsInFlight, std::to_string(place.sends));
          set(settings::kPipeline, pipelined ? "on" : "off");
          // More than one software GPU only where more are wanted.
          const bool peers = std::find(options_.directions.begin(), options_.directions.end(),
                                       "device-to-device") != options_.directions.end();
          const int devices = std::max(
              *std::max_element(options_.proxies.begin(), options_.proxies.end()), peers ? 2 : 1);
          if (devices > 1 && !place.environment.Get(settings::kSoftGpus.name))
            set(settings::kSoftGpus, std::to_string(devices));
          places_.push_back(std::move(place));
        }
      }
    }
  }

  void MeasureLocal(int round) {
    if (options_.device == "soft" || no_local_) return;
    // The same program with no library of ours: fails where there is no GPU.
    const Result<std::string> text = Capture(Words({}), true);
    no_local_ = !text.ok() || !Read(*text, local_).ok();
    if (no_local_ && round == 0) local_.clear();
  }

  void MeasureMpi(std::uint64_t bytes, int lanes) {
    if (no_mpi_) return;
    const std::string host = options_.hosts.substr(0, options_.hosts.find_first_of(",:"));
    const std::uint64_t total = std::min<std::uint64_t>(
        *std::max_element(options_.transfers.begin(), options_.transfers.end()), 256 << 20);
    const auto measure = [&](int ranks, std::vector<std::string> words) {
      const Result<std::vector<double>> numbers = RawMpi(folder_, host, ranks, words);
      if (numbers.ok()) return *numbers;
      no_mpi_ = true;
      LogWarn("raw MPI cannot be measured here: {}", numbers.status().message());
      return std::vector<double>();
    };
    if (one_way_.empty())
      for (const double time : measure(1, {"ping", "64"})) one_way_.push_back(time);
    for (const char* const way : {"window", "duplex"}) {
      const bool both = std::find(options_.directions.begin(), options_.directions.end(), "both") !=
                        options_.directions.end();
      if (no_mpi_ || (way == std::string("duplex") && !both)) continue;
      const std::vector<double> numbers = measure(
          lanes,
          {way, std::to_string(bytes), std::to_string(SendsOn(lanes)), std::to_string(total)});
      if (numbers.size() != 2) continue;
      mpi_[{way, bytes, lanes}].push_back(numbers[0]);
      mpi_memory_[{way, bytes, lanes}].push_back(numbers[1]);
    }
  }

  Result<SweepResult> Collect() const {
    SweepResult result;
    result.local = !no_local_ && !local_.empty();
    if (!one_way_.empty()) result.mpi_one_way_us = Median(one_way_);
    for (const Place& place : places_) {
      for (const auto& [copy, samples] : place.copies) {
        if (samples.empty()) continue;
        Row row;
        std::tie(row.direction, row.memory, row.transfer_bytes, row.proxies) = copy;
        row.placement = place.name;
        row.buffer_bytes = place.buffer_bytes;
        row.buffers = place.pipelined ? place.buffers : 1;
        row.lanes = place.lanes;
        row.sends = place.sends;
        row.pipelined = place.pipelined;
        row.gbps = Median(samples);
        const Raw raw{row.direction == "both" ? "duplex" : "window", place.buffer_bytes,
                      place.lanes};
        if (place.name == "agents" && row.direction != "device-to-device" && mpi_.contains(raw)) {
          row.mpi_gbps = Median(mpi_.at(raw));
          row.mpi_memory_gbps = Median(mpi_memory_.at(raw));
        }
        const auto local = local_.find(copy);
        if (result.local && local != local_.end() && !local->second.empty())
          row.local_gbps = Median(local->second);
        result.rows.push_back(std::move(row));
      }
    }
    return result;
  }

  const SweepOptions& options_;
  const std::string folder_;
  std::vector<Place> places_;
  Copies local_;
  std::map<Raw, Samples> mpi_;
  std::map<Raw, Samples> mpi_memory_;
  Samples one_way_;
  bool no_local_ = false;
  bool no_mpi_ = false;
};

}  // namespace

Result<SweepResult> Sweep(const SweepOptions& options) {
  CUSPAN_ASSIGN_OR_RETURN(const std::string folder, OwnFolder());
  CUSPAN_RETURN_IF_ERROR(ChooseTransport(options.transport));
  return Sweeper(options, folder).Run();
}

}  // namespace cuspan::bench::bandwidth
