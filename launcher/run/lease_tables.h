// Leases as text and JSON.
#pragma once

#include <string>
#include <vector>

#include "protocol/wire/frame.h"

namespace cuspan {

// The runs of `found`, which is what hosts say that were looked at: each once, in the order of
// arrival, with what it holds on all of these hosts.
std::string QueueTable(const RunReady& found);
std::string QueueJson(const RunReady& found);

// Whether a run has device `number` of `found`.
bool IsHeld(const RunReady& found, std::size_t number);
// The tickets of the runs that have it: several where they share it, none where it is free or the
// one that has it does not say so.
std::vector<const LeaseTicket*> HoldersOf(const RunReady& found, std::size_t number);
// The same for people: "free", the runs with their users, or "held".
std::string LeaseText(const RunReady& found, std::size_t number);

}  // namespace cuspan
