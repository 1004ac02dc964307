#include "launcher/doctor/checks.h"

#include <algorithm>
#include <iterator>

#include "common/settings.h"

namespace cuspan::doctor {
namespace {

bool SameVersion(const HostFacts& facts, const HostFacts& own) {
  return facts.version == own.version && facts.protocol == own.protocol;
}

Finding VersionFinding(const Needs& needs, const Visit& visit, const HostFacts& own) {
  const bool same_number = visit.facts->version == own.version;
  return {"cuspan-version", Severity::kError, visit.host,
          same_number ? Format("{} is another build of cuspan {}, with a different protocol",
                               needs.cuspan, own.version)
                      : Format("{} is cuspan {}, here it is {}", needs.cuspan, visit.facts->version,
                               own.version),
          "install the same version on every host, or name its directory with --remote-prefix"};
}

}  // namespace

std::uint64_t UsableDevices(const Visit& visit) {
  if (!visit.facts) return 0;
  const auto usable = std::count_if(
      visit.facts->gpus.begin(), visit.facts->gpus.end(),
      [](const GpuFacts& gpu) { return gpu.compute_mode != 2; });  // CU_COMPUTEMODE_PROHIBITED
  return std::min<std::uint64_t>(static_cast<std::uint64_t>(usable), visit.devices);
}

std::vector<Finding> CheckSettings(const Visit& visit, const Visit& own) {
  std::vector<Finding> found;
  if (!visit.facts) return found;
  for (const std::string& name : visit.facts->unknown_settings) {
    // Settings of the own host are passed to other hosts.
    const std::vector<std::string>& known = own.facts->unknown_settings;
    if (!visit.own && std::find(known.begin(), known.end(), name) != known.end()) continue;
    found.push_back({"setting-unknown", Severity::kWarning, visit.host,
                     Format("cuspan has no variable {}", name),
                     "correct or unset it; cuspan help variables lists them"});
  }
  return found;
}

std::vector<Finding> CheckAll(const Needs& needs, const std::vector<Visit>& visits) {
  std::vector<Finding> all;
  const auto add = [&all](std::vector<Finding> found) {
    std::move(found.begin(), found.end(), std::back_inserter(all));
  };
  const Visit& own = visits.front();
  std::uint64_t devices = 0;
  for (const Visit& visit : visits) devices += UsableDevices(visit);
  for (const Visit& visit : visits) {
    add(CheckReached(needs, visit));
    if (!visit.facts) continue;
    if (own.facts && !SameVersion(*visit.facts, *own.facts)) {
      all.push_back(VersionFinding(needs, visit, *own.facts));
      continue;
    }
    add(CheckPrograms(needs, visit));
    add(CheckGpus(needs, visit, devices > 0));
    add(CheckLimits(needs, visit, visit.own ? devices : UsableDevices(visit)));
    add(CheckFolders(needs, visit));
    if (own.facts) add(CheckSettings(visit, own));
    add(CheckLinks(visit, own));
  }
  add(CheckSoftware(needs, visits));
  return all;
}

}  // namespace cuspan::doctor
