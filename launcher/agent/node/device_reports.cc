#include "launcher/agent/node/device_reports.h"

#include <algorithm>

#include "launcher/agent/node/device_use.h"

namespace cuspan {
namespace {

// Number of reports of any size guaranteed to fit into a message.
constexpr std::size_t kReportsAMessage = 16;

bool SameDevice(const DeviceReport& one, const DeviceReport& other) {
  return one.device == other.device && one.relayed == other.relayed && one.host == other.host &&
         one.name == other.name;
}

void AddTo(DeviceReport& sum, const DeviceReport& report) {
  AddUse(sum.use, report.use);
  AddWaits(sum.waits, report.waits);
  sum.ranks = std::max(sum.ranks, report.ranks);
}

}  // namespace

void DeviceReports::Add(DeviceReport report) {
  AddUse(uses_[{report.device, report.relayed}], report.use);
  // The latest reports are probably those of the same session.
  const auto same =
      std::find_if(reports_.rbegin(), reports_.rend(), [&](const DeviceReport& known) {
        return known.session == report.session && SameDevice(known, report);
      });
  if (same != reports_.rend()) return AddTo(*same, report);
  if (report.session != 0 && reports_.size() < kMaxReports) {
    reports_.push_back(std::move(report));
    return;
  }
  const auto sum = std::find_if(sums_.begin(), sums_.end(), [&](const DeviceReport& known) {
    return SameDevice(known, report);
  });
  if (sum == sums_.end()) {
    report.session = 0;
    sums_.push_back(std::move(report));
    return;
  }
  AddTo(*sum, report);
}

std::vector<DeviceReport> DeviceReports::All() const {
  std::vector<DeviceReport> all = reports_;
  all.insert(all.end(), sums_.begin(), sums_.end());
  return all;
}

std::vector<std::vector<DeviceReport>> DeviceReports::Collect() {
  std::vector<std::vector<DeviceReport>> pieces;
  for (std::vector<DeviceReport>* const part : {&reports_, &sums_}) {
    for (DeviceReport& report : std::exchange(*part, {})) {
      if (pieces.empty() || pieces.back().size() == kReportsAMessage) pieces.emplace_back();
      pieces.back().push_back(std::move(report));
    }
  }
  return pieces;
}

}  // namespace cuspan
