#include "launcher/allocator/ticket.h"

#include <algorithm>
#include <charconv>

#include "common/format.h"

namespace cuspan {
namespace {

constexpr std::size_t kDigits = 16;
constexpr std::size_t kProgramBytes = 64;
constexpr std::size_t kMaxGpusOfTicket = 128;

bool IsLetterOrDigit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool IsHex(std::string_view text) {
  return text.size() == kDigits && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

// Removes the next line from `text` and returns it without its end; empty if incomplete.
std::optional<std::string_view> ConsumeLine(std::string_view& text) {
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end + 1);
  return line;
}

// Removes the next line; returns its part after `name` and a blank.
std::optional<std::string_view> ConsumeField(std::string_view& text, std::string_view name) {
  const std::optional<std::string_view> line = ConsumeLine(text);
  if (!line || !line->starts_with(name) || line->size() <= name.size() ||
      (*line)[name.size()] != ' ')
    return std::nullopt;
  return line->substr(name.size() + 1);
}

}  // namespace

std::string HostForNames(std::string_view host) {
  std::string name(host.substr(0, 64));
  for (char& c : name)
    if (!IsLetterOrDigit(c) && c != '.' && c != '_' && c != '-') c = '_';
  return name.empty() ? "localhost" : name;
}

bool IsGpuKey(std::string_view key) {
  return !key.empty() && key.size() <= 64 &&
         std::all_of(key.begin(), key.end(), [](char c) { return IsLetterOrDigit(c) || c == '-'; });
}

bool IsJobId(std::string_view id) {
  return !id.empty() && id.size() <= 32 && std::all_of(id.begin(), id.end(), IsLetterOrDigit);
}

std::string QueueName(std::string_view host) {
  return Format("cuspan-queue-{}", HostForNames(host));
}

std::string LeasePrefix(std::string_view host) {
  return Format("cuspan-lease-{}-", HostForNames(host));
}

std::string TicketPrefix(std::string_view host, bool waiting) {
  return Format("cuspan-{}-{}-", waiting ? "wait" : "run", HostForNames(host));
}

std::string TicketName(const LeaseTicket& ticket) {
  return Format("{}{:016x}-{}", TicketPrefix(ticket.host, ticket.waiting), ticket.order,
                ticket.run);
}

std::optional<LeaseTicket> ParseTicketName(std::string_view name, std::string_view host,
                                           bool waiting) {
  const std::string prefix = TicketPrefix(host, waiting);
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  // A longer name belongs to another host with this host's name as a prefix.
  if (name.size() != 2 * kDigits + 1 || name[kDigits] != '-' || !IsHex(name.substr(0, kDigits)) ||
      !IsHex(name.substr(kDigits + 1)))
    return std::nullopt;
  LeaseTicket ticket;
  std::from_chars(name.data(), name.data() + kDigits, ticket.order, 16);
  ticket.run = name.substr(kDigits + 1);
  ticket.host = host;
  ticket.waiting = waiting;
  return ticket;
}

std::string TicketText(const LeaseTicket& ticket) {
  std::string text = Format("cuspan 1\nprogram {}\nwanted {}\n",
                            Printable(ticket.program, kProgramBytes), ticket.wanted);
  if (IsJobId(ticket.job)) AppendFormat(text, "job {}\n", ticket.job);
  for (const std::string& gpu : ticket.gpus) AppendFormat(text, "gpu {}\n", gpu);
  return text + "end\n";
}

void ReadTicketText(std::string_view text, LeaseTicket& ticket) {
  text = text.substr(0, kTicketBytes);
  if (ConsumeLine(text) != "cuspan 1") return;
  const std::optional<std::string_view> program = ConsumeField(text, "program");
  const std::optional<std::string_view> wanted = ConsumeField(text, "wanted");
  if (!program || !wanted) return;
  std::uint32_t number = 0;
  const auto [end, error] =
      std::from_chars(wanted->data(), wanted->data() + wanted->size(), number);
  if (error != std::errc{} || end != wanted->data() + wanted->size()) return;
  std::optional<std::string_view> job;
  if (text.starts_with("job ")) {
    job = ConsumeField(text, "job");
    if (!job || !IsJobId(*job)) return;
  }
  std::vector<std::string> gpus;
  while (!text.starts_with("end\n")) {
    const std::optional<std::string_view> gpu = ConsumeField(text, "gpu");
    if (!gpu || !IsGpuKey(*gpu) || gpus.size() == kMaxGpusOfTicket) return;
    gpus.emplace_back(*gpu);
  }
  ticket.program = Printable(*program, kProgramBytes);
  ticket.wanted = number;
  ticket.job = job.value_or("");
  ticket.gpus = std::move(gpus);
}

}  // namespace cuspan
