#include "bench/bandwidth/sweep.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <tuple>

#include "bench/common/child.h"
#include "bench/common/raw_mpi.h"
#include "common/format.h"
#include "common/log.h"
#include "common/settings.h"

namespace cuspan::bench {
namespace {

using Samples = std::vector<double>;

// What the program measures: direction, memory, bytes, devices.
using Copy = std::tuple<std::string, std::string, std::uint64_t, int>;
using Copies = std::map<Copy, Samples>;

double Median(Samples samples) {
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

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
  bool pipelined = true;
  std::vector<std::string> words;  // Before the program.
  Environment environment;
  Copies copies;
};

class Sweeper {
 public:
  Sweeper(const SweepOptions& options, std::string folder)
      : options_(options), folder_(std::move(folder)) {}

  Result<SweepResult> Run() {
    ListPlaces();
    for (int round = 0; round < options_.rounds; ++round) {
      MeasureLocal(round);
      for (Place& place : places_) {
        if (place.name == "agents") MeasureMpi(place.buffer_bytes);
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

  void ListPlaces() {
    const std::string cuspan = folder_ + "/../../bin/cuspan";
    for (const std::string& name : options_.placements) {
      for (const std::uint64_t bytes : options_.buffers) {
        for (const bool pipelined : options_.pipelined) {
          Place place;
          place.name = name;
          place.buffer_bytes = bytes;
          place.pipelined = pipelined;
          place.words = {cuspan, "run", "--device", options_.device};
          if (name == "agents")
            place.words.insert(place.words.end(),
                               {"--hosts", options_.hosts, "--same-node", "never"});
          place.words.push_back("--");
          place.environment = Environment::OfThisProcess();
          const auto set = [&](const Setting& setting, const std::string& value) {
            place.environment.Set(setting.name, value);
          };
          set(settings::kStagingBytes, std::to_string(bytes));
          set(settings::kStagingBuffers, std::to_string(options_.buffer_count));
          set(settings::kSendsInFlight, std::to_string(options_.sends));
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

  void MeasureMpi(std::uint64_t bytes) {
    if (no_mpi_) return;
    const std::string host = options_.hosts.substr(0, options_.hosts.find_first_of(",:"));
    const std::uint64_t total = std::min<std::uint64_t>(
        *std::max_element(options_.transfers.begin(), options_.transfers.end()), 256 << 20);
    const auto measure = [&](std::vector<std::string> words, Samples& samples) {
      const Result<double> number = RawMpi(folder_, host, words);
      if (number.ok()) return samples.push_back(*number);
      no_mpi_ = true;
      LogWarn("raw MPI can not be measured here: {}", number.status().message());
    };
    if (one_way_.empty()) measure({"ping", "64"}, one_way_);
    for (const char* const way : {"window", "duplex"}) {
      const bool both = std::find(options_.directions.begin(), options_.directions.end(), "both") !=
                        options_.directions.end();
      if (no_mpi_ || (way == std::string("duplex") && !both)) continue;
      measure({way, std::to_string(bytes), std::to_string(options_.sends), std::to_string(total)},
              mpi_[{way, bytes}]);
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
        row.buffers = place.pipelined ? options_.buffer_count : 1;
        row.pipelined = place.pipelined;
        row.gbps = Median(samples);
        const auto mpi =
            mpi_.find({row.direction == "both" ? "duplex" : "window", place.buffer_bytes});
        if (place.name == "agents" && row.direction != "device-to-device" && mpi != mpi_.end() &&
            !mpi->second.empty())
          row.mpi_gbps = Median(mpi->second);
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
  std::map<std::pair<std::string, std::uint64_t>, Samples> mpi_;  // By way and message size.
  Samples one_way_;
  bool no_local_ = false;
  bool no_mpi_ = false;
};

}  // namespace

Result<SweepResult> Sweep(const SweepOptions& options) {
  const Result<std::string> folder = OwnFolder();
  if (!folder.ok()) return folder.status();
  CUSPAN_RETURN_IF_ERROR(ChooseTransport(options.transport));
  return Sweeper(options, *folder).Run();
}

}  // namespace cuspan::bench
