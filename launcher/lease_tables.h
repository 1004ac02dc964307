// Leases as text and JSON.
#pragma once

#include <string>

#include "protocol/wire/frame.h"

namespace cuspan {

// The runs of `found`, which is what hosts say that were looked at: each once, in the order of
// arrival, with what it holds on all of these hosts.
std::string QueueTable(const RunReady& found);
std::string QueueJson(const RunReady& found);

// Who has device `number` of `found`: "free", a run and its user, or "held" by one that does not
// say it.
std::string LeaseText(const RunReady& found, std::size_t number);
// The same as a run's id; empty if free or not known.
std::string LeaseRun(const RunReady& found, std::size_t number);

}  // namespace cuspan
