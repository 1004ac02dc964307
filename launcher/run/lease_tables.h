// Leases as text and JSON.
#pragma once

#include <string>
#include <vector>

#include "protocol/wire/frame.h"

namespace cuspan {

// Runs in `found`, the reports of the hosts queried: each once, in order of arrival, with its GPUs
// on all of these hosts.
std::string QueueTable(const RunReady& found);
std::string QueueJson(const RunReady& found);

// True if a run holds device `number` of `found`.
bool IsHeld(const RunReady& found, std::size_t number);
// Tickets of the runs holding the device. Several if they share it; empty if it is free or its
// holder's ticket does not list it.
std::vector<const LeaseTicket*> HoldersOf(const RunReady& found, std::size_t number);
// Text for the user: "free", the runs with their users, or "held".
std::string LeaseText(const RunReady& found, std::size_t number);

}  // namespace cuspan
