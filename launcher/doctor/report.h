// Output of the doctor.
#pragma once

#include <string>
#include <vector>

#include "launcher/doctor/checks.h"

namespace cuspan::doctor {

// Text for the user: one line per host, the findings by host, and the number of GPUs usable for a
// run.
std::string ReportText(const std::vector<Visit>& visits, const std::vector<Finding>& findings);
// The same as a JSON object: "hosts", "findings" and "healthy".
std::string ReportJson(const std::vector<Visit>& visits, const std::vector<Finding>& findings);

// True if no finding prevents a run.
bool IsHealthy(const std::vector<Finding>& findings);

}  // namespace cuspan::doctor
