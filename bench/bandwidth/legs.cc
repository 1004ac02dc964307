#include "bench/bandwidth/legs.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/common/child.h"
#include "bench/common/median.h"
#include "bench/common/raw_link.h"
#include "common/format.h"
#include "common/log.h"
#include "common/settings.h"

namespace cuspan::bench::bandwidth {
namespace {

using Samples = std::vector<double>;
using Legs = std::map<std::string, Samples>;

// A file name. The file is removed with this object.
class TemporaryFile {
 public:
  TemporaryFile() {
    const char* folder = std::getenv("TMPDIR");
    path_ = Format("{}/cuspan-bench-XXXXXX", folder != nullptr ? folder : "/tmp");
    const int fd = ::mkstemp(path_.data());
    if (fd >= 0)
      ::close(fd);
    else
      path_.clear();
  }
  TemporaryFile(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Adds the time of each leg for each transfer of `bytes` bytes.
Status ReadTrace(const std::string& path, std::uint64_t bytes, Legs& legs) {
  std::ifstream file(path);
  const nlohmann::json trace = nlohmann::json::parse(file, nullptr, false);
  if (trace.is_discarded()) return Status::Internal("the file {} is not a trace", path);
  struct Sum {
    std::uint64_t bytes = 0;
    double seconds = 0;
  };
  // Key: leg and transfer. Transfer numbers are per connection, but only one connection copies
  // here.
  std::map<std::pair<std::string, std::uint64_t>, Sum> sums;
  for (const nlohmann::json& event : trace["traceEvents"]) {
    if (event["ph"] != "X" || event["cat"] != "transfer") continue;
    Sum& sum = sums[{event["name"], event["args"]["transfer"]}];
    sum.bytes += event["args"]["bytes"].get<std::uint64_t>();
    sum.seconds += event["dur"].get<double>() / 1e6;
  }
  for (const auto& [key, sum] : sums)
    if (sum.bytes == bytes && key.second != 0) legs[key.first].push_back(sum.seconds);
  return Status::Ok();
}

class LegsBench {
 public:
  LegsBench(const SweepOptions& options, std::string folder)
      : options_(options),
        folder_(std::move(folder)),
        bytes_(*std::max_element(options.transfers.begin(), options.transfers.end())) {}

  Result<std::vector<LegsRow>> Run() {
    std::vector<LegsRow> rows;
    for (const std::string& placement : options_.placements) {
      for (const std::string& direction : options_.directions) {
        if (direction == "both") continue;
        for (const std::string& memory : options_.memories) {
          const bool peers = direction == "device-to-device";
          if (peers && memory != options_.memories.front()) continue;
          for (const std::uint64_t buffer : options_.buffers) {
            LegsRow row;
            row.direction = direction;
            row.memory = peers ? "device" : memory;
            row.placement = placement;
            row.transfer_bytes = bytes_;
            row.buffer_bytes = buffer;
            row.buffers = options_.buffer_count;
            CUSPAN_RETURN_IF_ERROR(Measure(row));
            if (!row.legs.empty()) rows.push_back(std::move(row));
          }
        }
      }
    }
    return rows;
  }

 private:
  // Adds the program's samples, in seconds.
  Status RunProgram(const LegsRow& row, bool pipelined, const std::string& trace,
                    Samples& samples) {
    std::vector<std::string> words = {folder_ + "/../../bin/cuspan", "run", "--device",
                                      options_.device};
    if (row.placement == "agents")
      words.insert(words.end(), {"--hosts", options_.hosts, "--same-node", "never"});
    if (!trace.empty()) words.insert(words.end(), {"--trace", trace});
    words.insert(words.end(), {"--", folder_ + "/bench-bandwidth-program", "--seconds",
                               Format("{}", options_.seconds), "--repetitions", "5",
                               Format("{}:{}:{}:{}", row.direction, row.memory, bytes_,
                                      row.memory == "device" ? 2 : 1)});
    Environment environment = Environment::OfThisProcess();
    environment.Set(settings::kStagingBytes.name, std::to_string(row.buffer_bytes));
    environment.Set(settings::kStagingBuffers.name, std::to_string(row.buffers));
    environment.Set(settings::kSendsInFlight.name, std::to_string(options_.sends));
    environment.Set(settings::kPipeline.name, pipelined ? "on" : "off");
    if (row.memory == "device") {
      // Otherwise the devices would use peer access.
      environment.Set(settings::kPeerMemory.name, "never");
      if (!environment.Get(settings::kSoftGpus.name))
        environment.Set(settings::kSoftGpus.name, "2");
    }
    CUSPAN_ASSIGN_OR_RETURN(const std::string text, Capture(words, false, &environment));
    std::istringstream line(text);
    std::string word;
    for (int i = 0; i < 4; ++i) line >> word;
    for (double gbps = 0; line >> gbps;)
      samples.push_back(static_cast<double>(bytes_) / gbps / 1e9);
    return Status::Ok();
  }

  Status Measure(LegsRow& row) {
    Samples pipelined;
    Samples not_pipelined;
    Samples traced;
    Samples network;
    Legs legs;
    const std::string host = options_.hosts.substr(0, options_.hosts.find_first_of(",:"));
    for (int round = 0; round < options_.rounds; ++round) {
      const TemporaryFile trace;
      if (trace.path().empty()) return Status::Unavailable("no file for a trace can be created");
      CUSPAN_RETURN_IF_ERROR(RunProgram(row, true, "", pipelined));
      CUSPAN_RETURN_IF_ERROR(RunProgram(row, false, "", not_pipelined));
      CUSPAN_RETURN_IF_ERROR(RunProgram(row, false, trace.path(), traced));
      CUSPAN_RETURN_IF_ERROR(ReadTrace(trace.path(), bytes_, legs));
      if (row.placement != "agents") continue;
      const Result<std::vector<double>> gbps =
          RunRaw(folder_, RelayKind::kMpi, host, 1,
                 {"window", std::to_string(row.buffer_bytes), std::to_string(options_.sends),
                  std::to_string(std::min<std::uint64_t>(bytes_, 256 << 20))});
      if (gbps.ok()) network.push_back(static_cast<double>(bytes_) / gbps->front() / 1e9);
    }
    // Without a second device or staging, there are no legs.
    if (pipelined.empty() || not_pipelined.empty() || legs.empty()) return Status::Ok();
    row.pipelined = Median(pipelined);
    row.not_pipelined = Median(not_pipelined);
    double sum = 0;
    for (const auto& [name, samples] : legs) {
      double seconds = Median(samples);
      if (name.starts_with("network") && !network.empty())
        seconds = std::min(seconds, Median(network));
      row.legs[name] = seconds;
      row.slowest = std::max(row.slowest, seconds);
      // Sending and receiving overlap.
      if (name != "network: receive") sum += seconds;
    }
    row.chunk =
        sum * std::min(1.0, static_cast<double>(row.buffer_bytes) / static_cast<double>(bytes_));
    return Status::Ok();
  }

  const SweepOptions& options_;
  const std::string folder_;
  const std::uint64_t bytes_;
};

}  // namespace

Result<std::vector<LegsRow>> MeasureLegs(const SweepOptions& options) {
  CUSPAN_ASSIGN_OR_RETURN(const std::string folder, OwnFolder());
  CUSPAN_RETURN_IF_ERROR(ChooseTransport(options.transport));
  return LegsBench(options, folder).Run();
}

std::string LegsTable(const std::vector<LegsRow>& rows) {
  std::string text =
      "Legs, each alone, and the copy, ms, medians; bound: 1.1 x the slowest leg + one chunk\n";
  for (const LegsRow& row : rows) {
    text += Format(
        "{} {} {}, {} MiB, buffers of {} KiB: pipelined {:.3f}, not pipelined {:.3f} "
        "({:.0f} % saved), of the bound {:.3f}\n",
        row.direction, row.memory, row.placement, row.transfer_bytes >> 20, row.buffer_bytes >> 10,
        row.pipelined * 1e3, row.not_pipelined * 1e3, row.saved() * 100, row.ratio());
    for (const auto& [name, seconds] : row.legs)
      text += Format("    {:<34}{:.3f}\n", name, seconds * 1e3);
  }
  return text;
}

}  // namespace cuspan::bench::bandwidth
