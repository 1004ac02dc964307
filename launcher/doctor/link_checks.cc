// Checks of connections between hosts.
#include <cmath>

#include "launcher/doctor/checks.h"
#include "launcher/host/wait_status.h"
#include "launcher/text/words.h"

namespace cuspan::doctor {
namespace {

// Maximum difference of clocks, in s; more would confuse readers of logs.
constexpr double kClockSeconds = 1;
// Exit statuses of shells for a missing command, and for one not executable.
constexpr int kNotFoundStatus = 127;
constexpr int kNotExecutableStatus = 126;

// Last line of the remote shell or the cuspan there.
std::string LastLine(const std::string& text) {
  const std::vector<std::string_view> lines = OutputLines(text);
  return lines.empty() ? "" : Printable(lines.back(), 200);
}

bool Has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// Remedy for a question of ssh with no terminal to answer it.
std::string ShellAction(const Needs& needs, const Visit& visit) {
  if (Has(visit.errors, "Host key verification failed"))
    return Format("accept its host key once: ssh {} true (ssh-keyscan adds many)", visit.host);
  if (Has(visit.errors, "Permission denied"))
    return Format("allow the remote shell to log in without a password: ssh-copy-id {}",
                  visit.host);
  return Format(
      "'{} {} true' must work from here without a prompt; --remote-shell names another command",
      needs.remote_shell, visit.host);
}

Finding Unreached(const Needs& needs, const Visit& visit) {
  const Severity severity = needs.may_lack_shell ? Severity::kWarning : Severity::kError;
  const std::string said = LastLine(visit.errors);
  if (visit.own) {
    const std::string how = visit.wait_status ? DescribeExit(*visit.wait_status)
                                              : Format("did not end in {} s", visit.waited_seconds);
    return {"probe-failed", Severity::kError, visit.host,
            Format("the check of this host {}{}{}", how, said.empty() ? "" : ": ", said),
            "the driver may hang: check that nvidia-smi answers; --timeout allows more time"};
  }
  if (!visit.wait_status)
    return {
        "remote-shell-timeout", severity, visit.host,
        Format("the remote shell did not answer within {} s{}{}", visit.waited_seconds,
               said.empty() ? "" : ": ", said),
        Format(
            "try '{} {} true': it must work without a prompt. If the host is slow, use --timeout",
            needs.remote_shell, visit.host)};
  const int status = WIFEXITED(*visit.wait_status) ? WEXITSTATUS(*visit.wait_status) : -1;
  if (Has(visit.errors, "unknown command 'doctor'"))
    return {"cuspan-version", Severity::kError, visit.host,
            Format("{} has an older version, without this command", needs.cuspan),
            "install the same version on every host, or name its directory with --remote-prefix"};
  if ((status == kNotFoundStatus || status == kNotExecutableStatus) &&
      Has(visit.errors, needs.cuspan))
    return {"cuspan-missing", Severity::kError, visit.host,
            Format("{} cannot be run there: {}", needs.cuspan, said),
            "install cuspan in the same directory on every host, or name its directory with "
            "--remote-prefix"};
  if (!visit.resolves)
    return {"name-unresolved", severity, visit.host, "its name has no address here",
            "correct the name, or add it to /etc/hosts or to DNS"};
  return {"remote-shell-failed", severity, visit.host,
          Format("the remote shell {}{}{}", DescribeExit(*visit.wait_status),
                 said.empty() ? "" : ": ", said),
          ShellAction(needs, visit)};
}

// Hosts unreachable at all their addresses; the reasons are probably the same.
std::string Joined(const std::vector<const Reached*>& all) {
  std::string text;
  for (const Reached* const one : all)
    text += Format("{}{} ({})", text.empty() ? "" : ", ", one->host, one->problem);
  return text;
}

std::string RateText(double bytes_per_second) {
  const double megabits = bytes_per_second * 8 / 1e6;
  return megabits < 1000 ? Format("{:.0f} Mbit/s", megabits)
                         : Format("{:.1f} Gbit/s", megabits / 1000);
}

}  // namespace

std::vector<Finding> CheckReached(const Needs& needs, const Visit& visit) {
  std::vector<Finding> found;
  if (!visit.facts) found.push_back(Unreached(needs, visit));
  if (const std::string said = LastLine(visit.stray); visit.facts && !said.empty())
    found.push_back({"remote-shell-output", Severity::kWarning, visit.host,
                     Format("the remote shell prints on standard output: {}", said),
                     "let its startup files (~/.bashrc) print for interactive shells only"});
  if (std::abs(visit.clock_apart) > kClockSeconds)
    found.push_back(
        {"clock-apart", Severity::kWarning, visit.host,
         Format("its clock is {:.0f} s {} this host's, so times in logs and traces do not match",
                std::abs(visit.clock_apart), visit.clock_apart > 0 ? "ahead of" : "behind"),
         "synchronise the clocks (chrony, systemd-timesyncd)"});
  return found;
}

std::vector<Finding> CheckLinks(const Visit& visit, const Visit& own) {
  std::vector<Finding> found;
  std::vector<const Reached*> blocked;
  std::vector<const Reached*> stalled;
  for (const Reached& reached : visit.reached)
    if (!reached.problem.empty()) (reached.stalled ? stalled : blocked).push_back(&reached);
  if (!blocked.empty())
    found.push_back(
        {"connection-blocked", Severity::kError, visit.host,
         Format("no TCP connection from {} to {}", visit.host, Joined(blocked)),
         "let these hosts connect to each other's ports above 1023. If MPI and UCX are set to use "
         "other ports, and the firewall opens those, ignore this (docs/operations.md)"});
  if (visit.unanswered)
    found.push_back(
        {"connection-unknown", Severity::kWarning, visit.host,
         Format("the connections from {} to other hosts were not tried in time", visit.host),
         "a firewall may drop packets: try fewer hosts"});
  if (!stalled.empty())
    found.push_back(
        {"path-mtu", Severity::kError, visit.host,
         Format("small packets pass from {} to {}, large ones do not", visit.host, Joined(stalled)),
         "give all interfaces and switches on the way one MTU, and let ICMP pass"});
  if (!visit.measured || !visit.measured->problem.empty()) return found;
  const Reached& link = *visit.measured;
  if (link.mtu != 0 && link.peer_mtu != 0 && link.mtu != link.peer_mtu)
    found.push_back({"mtu-differs", Severity::kWarning, visit.host,
                     Format("the MTU is {} from {} to it, and {} on the way back", link.mtu,
                            own.host, link.peer_mtu),
                     "give the interfaces of all hosts one MTU (ip link set dev … mtu …)"});
  if (link.bytes_per_second < kEnoughBytesPerSecond)
    found.push_back(
        {"link-slow", Severity::kWarning, visit.host,
         Format("the rate from {} to it is {}", own.host, RateText(link.bytes_per_second)),
         "name the host by the address of a faster interface; copies to its GPUs are limited to "
         "this rate"});
  return found;
}

}  // namespace cuspan::doctor
