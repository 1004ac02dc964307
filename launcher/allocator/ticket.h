// Tickets: files that represent runs in a host's queue and list their GPUs. Also the names of all
// lock files. Pure.
//
//   cuspan-queue-HOST             locked for moments, while a run queries or takes GPUs
//   cuspan-lease-HOST-GPU         locked while a run has the GPU
//   cuspan-wait-HOST-ORDER-RUN    ticket of a waiting run
//   cuspan-run-HOST-ORDER-RUN     ticket of a run holding GPUs there
//
// A ticket is locked while the run's agent on the host lives. ORDER is the start time of the run in
// nanoseconds since 1970, RUN its id, both as 16 hexadecimal digits: their order as text is the
// order of arrival.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "structs.gen.h"

namespace cuspan {

// Maximum bytes read of a ticket.
inline constexpr std::size_t kTicketBytes = 8192;

// Form of a host's name in file names: letters, digits, '.', '_' and '-', at most 64.
std::string HostForNames(std::string_view host);
// True for a valid key of a GPU: letters, digits and '-', at most 64.
bool IsGpuKey(std::string_view key);
// True for a valid id of a job: letters and digits, at most 32.
bool IsJobId(std::string_view id);

std::string QueueName(std::string_view host);
std::string LeasePrefix(std::string_view host);
std::string TicketPrefix(std::string_view host, bool waiting);
// Name from a ticket's host, order, run and waiting.
std::string TicketName(const LeaseTicket& ticket);
// Parses a ticket's name; empty if it lacks this prefix.
std::optional<LeaseTicket> ParseTicketName(std::string_view name, std::string_view host,
                                           bool waiting);

// Text of a ticket: its program, number of GPUs wanted, job, and GPUs held.
std::string TicketText(const LeaseTicket& ticket);
// Adds the content of a ticket's text to `ticket`. Any user may have written it: text not exactly
// as written by TicketText is ignored, and only printable characters are kept.
void ReadTicketText(std::string_view text, LeaseTicket& ticket);

}  // namespace cuspan
