#include "bench/bandwidth/sweep.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <tuple>

#include "bench/common/child.h"
#include "bench/common/median.h"
#include "bench/common/raw_link.h"
#include "common/format.h"
#include "common/log.h"
#include "common/settings.h"
#include "launcher/run/plan.h"

namespace cuspan::bench::bandwidth {
namespace {

using Samples = std::vector<double>;

// Measurement of the program: direction, memory, bytes, devices.
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

// One placement of the program, with its staging settings.
struct Place {
  std::string name;
  RelayKind relay = RelayKind::kMpi;
  std::uint64_t buffer_bytes = 0;
  std::uint64_t buffers = 0;
  std::uint64_t sends = 0;
  int lanes = 1;
  bool pipelined = true;
  std::vector<std::string> words;  // Command before the program.
  Environment environment;
  Copies copies;
};

// Samples of raw MPI or UCX; may be incomplete.
struct Raw {
  // Key: mode ("window" or "duplex"), message size, ranks per side.
  using Key = std::tuple<std::string, std::uint64_t, int>;
  std::map<Key, Samples> cached;
  std::map<Key, Samples> memory;
  Samples one_way;
  bool absent = false;
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
        if (place.name == "agents") MeasureRaw(place);
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
        if (peers && memory != options_.memories.front()) continue;  // Independent of host memory.
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
        // One node has no agents.
        const bool agents = name == "agents";
        const std::vector<int> lanes = agents ? options_.lanes : std::vector{1};
        const std::size_t relays = agents ? options_.relays.size() : 1;
        const std::size_t ways = options_.pipelined.size();
        for (std::size_t i = 0; i < lanes.size() * ways * relays; ++i) {
          Place place;
          place.name = name;
          if (agents) place.relay = options_.relays[i % relays];
          place.buffer_bytes = bytes;
          place.lanes = lanes[i / relays / ways];
          place.pipelined = options_.pipelined[i / relays % ways];
          place.buffers = options_.buffer_count;
          if (!options_.buffer_count_chosen && place.lanes > 2)
            place.buffers = StagingBuffersFor(static_cast<std::uint32_t>(place.lanes));
          place.sends = SendsOn(place.lanes);
          place.words = {cuspan, "run", "--device", options_.device};
          if (agents)
            place.words.insert(
                place.words.end(),
                {"--hosts", options_.hosts, "--same-node", "never", "--relay",
                 std::string(NameOf(place.relay)), "--lanes", std::to_string(place.lanes)});
          place.words.push_back("--");
          place.environment = Environment::OfThisProcess();
          const auto set = [&](const Setting& setting, const std::string& value) {
            place.environment.Set(setting.name, value);
          };
          set(settings::kStagingBytes, std::to_string(bytes));
          set(settings::kStagingBuffers, std::to_string(place.buffers));
          set(settings::kSendsInFlight, std::to_string(place.sends));
          set(settings::kPipeline, place.pipelined ? "on" : "off");
          // Several software GPUs only if needed.
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
    // Same program without cuspan: fails if there is no GPU.
    const Result<std::string> text = Capture(Words({}), true);
    no_local_ = !text.ok() || !Read(*text, local_).ok();
    if (no_local_ && round == 0) local_.clear();
  }

  // Measures the references for a placement: MPI always, and UCX if it is one of the relays.
  void MeasureRaw(const Place& place) {
    for (const RelayKind kind : kRelayKinds) {
      const bool wanted =
          kind == RelayKind::kMpi ||
          std::find(options_.relays.begin(), options_.relays.end(), kind) != options_.relays.end();
      if (wanted && !raw_[kind].absent) MeasureRaw(kind, raw_[kind], place);
    }
  }

  void MeasureRaw(RelayKind kind, Raw& raw, const Place& place) {
    const std::string host = options_.hosts.substr(0, options_.hosts.find_first_of(",:"));
    const std::uint64_t total = std::min<std::uint64_t>(
        *std::max_element(options_.transfers.begin(), options_.transfers.end()), 256 << 20);
    const auto measure = [&](int ranks, std::vector<std::string> words) {
      const Result<std::vector<double>> numbers = RunRaw(folder_, kind, host, ranks, words);
      if (numbers.ok()) return *numbers;
      raw.absent = true;
      LogWarn("raw {} cannot be measured here: {}", RawName(kind), numbers.status().message());
      return std::vector<double>();
    };
    if (raw.one_way.empty())
      for (const double time : measure(1, {"ping", "64"})) raw.one_way.push_back(time);
    for (const char* const way : {"window", "duplex"}) {
      const bool both = std::find(options_.directions.begin(), options_.directions.end(), "both") !=
                        options_.directions.end();
      if (raw.absent || (way == std::string("duplex") && !both)) continue;
      const std::vector<double> numbers =
          measure(place.lanes, {way, std::to_string(place.buffer_bytes),
                                std::to_string(SendsOn(place.lanes)), std::to_string(total)});
      if (numbers.size() != 2) continue;
      const Raw::Key key{way, place.buffer_bytes, place.lanes};
      raw.cached[key].push_back(numbers[0]);
      raw.memory[key].push_back(numbers[1]);
    }
  }

  // Median of the samples of a kind. Empty if there are none.
  std::optional<double> OfRaw(RelayKind kind, std::map<Raw::Key, Samples> Raw::*samples,
                              const Raw::Key& key) const {
    const auto raw = raw_.find(kind);
    if (raw == raw_.end()) return std::nullopt;
    const auto found = (raw->second.*samples).find(key);
    return found == (raw->second.*samples).end() ? std::nullopt
                                                 : std::optional(Median(found->second));
  }
  std::optional<double> OneWay(RelayKind kind) const {
    const auto raw = raw_.find(kind);
    if (raw == raw_.end() || raw->second.one_way.empty()) return std::nullopt;
    return Median(raw->second.one_way);
  }

  Result<SweepResult> Collect() const {
    SweepResult result;
    result.local = !no_local_ && !local_.empty();
    result.mpi_one_way_us = OneWay(RelayKind::kMpi);
    result.ucx_one_way_us = OneWay(RelayKind::kUcx);
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
        const auto [low, high] = std::minmax_element(samples.begin(), samples.end());
        row.gbps_low = *low;
        row.gbps_high = *high;
        if (place.name == "agents") row.relay = NameOf(place.relay);
        if (place.name == "agents" && row.direction != "device-to-device") {
          const Raw::Key key{row.direction == "both" ? "duplex" : "window", place.buffer_bytes,
                             place.lanes};
          row.mpi_gbps = OfRaw(RelayKind::kMpi, &Raw::cached, key);
          row.mpi_memory_gbps = OfRaw(RelayKind::kMpi, &Raw::memory, key);
          row.ucx_gbps = OfRaw(RelayKind::kUcx, &Raw::cached, key);
          row.ucx_memory_gbps = OfRaw(RelayKind::kUcx, &Raw::memory, key);
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
  std::map<RelayKind, Raw> raw_;
  bool no_local_ = false;
};

}  // namespace

Result<SweepResult> Sweep(const SweepOptions& options) {
  CUSPAN_ASSIGN_OR_RETURN(const std::string folder, OwnFolder());
  CUSPAN_RETURN_IF_ERROR(ChooseTransport(options.transport));
  return Sweeper(options, folder).Run();
}

}  // namespace cuspan::bench::bandwidth
