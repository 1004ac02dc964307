#include "launcher/run/lease_tables.h"

#include <time.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "launcher/run/lease_key.h"
#include "launcher/run/tables.h"

namespace cuspan {
namespace {

struct QueuedRun {
  const LeaseTicket* ticket = nullptr;  // Ticket on one of its hosts.
  bool waiting = true;                  // True if it waits on all of its hosts.
  bool shares = false;                  // It has a GPU open to other runs.
  std::vector<std::string> gpus;        // "host:ordinal", or the key of an unknown device.
  std::vector<std::string> hosts;
};

// Key: order and id.
using Runs = std::map<std::pair<std::uint64_t, std::string>, QueuedRun>;

Runs Collect(const RunReady& found) {
  Runs runs;
  for (const LeaseTicket& ticket : found.tickets) {
    QueuedRun& run = runs[{ticket.order, ticket.run}];
    run.ticket = &ticket;
    run.waiting = run.waiting && ticket.waiting;
    run.hosts.push_back(ticket.host);
    for (const std::string& key : ticket.gpus) {
      const auto device = std::find_if(found.devices.begin(), found.devices.end(),
                                       [&](const DeviceDescription& known) {
                                         return known.host == ticket.host && LeaseKey(known) == key;
                                       });
      run.gpus.push_back(device == found.devices.end()
                             ? Format("{}:{}", ticket.host, key)
                             : Format("{}:{}", ticket.host, device->ordinal));
    }
  }
  std::set<std::string> sharing;
  for (const SharedGpu& gpu : found.shared)
    for (const SharingRun& run : gpu.runs) sharing.insert(run.run);
  for (auto& [key, run] : runs) run.shares = sharing.contains(key.second);
  return runs;
}

// Local time "14:05:31", with the date unless it is today.
std::string TimeText(std::uint64_t nanoseconds) {
  const auto at = static_cast<time_t>(nanoseconds / 1'000'000'000);
  const time_t now = ::time(nullptr);
  tm then{}, today{};
  if (::localtime_r(&at, &then) == nullptr || ::localtime_r(&now, &today) == nullptr) return "?";
  char text[32];
  const bool same_day = then.tm_year == today.tm_year && then.tm_yday == today.tm_yday;
  const std::size_t length =
      ::strftime(text, sizeof text, same_day ? "%H:%M:%S" : "%Y-%m-%d %H:%M:%S", &then);
  return {text, length};
}

std::string Joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ",") + part;
  return text;
}

}  // namespace

std::string QueueTable(const RunReady& found) {
  const Runs runs = Collect(found);
  if (runs.empty()) return "no run holds a GPU or waits for one\n";
  std::vector<std::vector<std::string>> rows = {
      {"run", "user", "started", "state", "wanted", "gpus", "program"}};
  for (const auto& [key, run] : runs)
    rows.push_back({run.ticket->run, run.ticket->user, TimeText(run.ticket->order),
                    run.waiting  ? "waiting"
                    : run.shares ? "sharing"
                                 : "running",
                    run.ticket->wanted == 0 ? "all" : std::to_string(run.ticket->wanted),
                    run.gpus.empty() ? "-" : Joined(run.gpus), run.ticket->program});
  return AlignColumns(rows);
}

std::string QueueJson(const RunReady& found) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& [key, run] : Collect(found))
    list.push_back({{"run", run.ticket->run},
                    {"user", run.ticket->user},
                    {"started_ns", run.ticket->order},
                    {"state", run.waiting ? "waiting" : "running"},
                    {"shared", run.shares},
                    {"wanted", run.ticket->wanted},
                    {"gpus", run.gpus},
                    {"hosts", run.hosts},
                    {"program", run.ticket->program}});
  return list.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

bool IsHeld(const RunReady& found, std::size_t number) {
  return number < found.held.size() && found.held[number] != 0;
}

std::vector<const LeaseTicket*> HoldersOf(const RunReady& found, std::size_t number) {
  std::vector<const LeaseTicket*> holders;
  if (!IsHeld(found, number)) return holders;
  const DeviceDescription& device = found.devices[number];
  const std::string key = LeaseKey(device);
  for (const LeaseTicket& ticket : found.tickets)
    if (ticket.host == device.host &&
        std::find(ticket.gpus.begin(), ticket.gpus.end(), key) != ticket.gpus.end())
      holders.push_back(&ticket);
  return holders;
}

std::string LeaseText(const RunReady& found, std::size_t number) {
  const std::vector<const LeaseTicket*> holders = HoldersOf(found, number);
  if (holders.empty()) return IsHeld(found, number) ? "held" : "free";
  std::string text;
  for (const LeaseTicket* holder : holders)
    AppendFormat(text, "{}{} ({})", text.empty() ? "" : ", ", holder->run, holder->user);
  return holders.size() == 1 ? text : Format("{} runs share it: {}", holders.size(), text);
}

}  // namespace cuspan
