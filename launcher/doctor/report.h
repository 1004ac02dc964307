// What the doctor prints.
#pragma once

#include <string>
#include <vector>

#include "launcher/doctor/checks.h"

namespace cuspan::doctor {

// For a person: a line a host, then the findings by host, or how many GPUs a run can use.
std::string ReportText(const std::vector<Visit>& visits, const std::vector<Finding>& findings);
// The same as a JSON object: "hosts", "findings" and "healthy".
std::string ReportJson(const std::vector<Visit>& visits, const std::vector<Finding>& findings);

// Whether nothing was found that would keep a run from working.
bool IsHealthy(const std::vector<Finding>& findings);

}  // namespace cuspan::doctor
