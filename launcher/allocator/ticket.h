// Tickets: the files by which runs stand in a host's queue and say what they hold, and the names of
// all lock files. Pure.
//
//   cuspan-queue-HOST             locked for moments, while somebody looks or takes
//   cuspan-lease-HOST-GPU         locked while a run has the GPU
//   cuspan-wait-HOST-ORDER-RUN    a run's ticket, locked while its agent on the host lives:
//   cuspan-run-HOST-ORDER-RUN     it waits, or it holds GPUs there
//
// ORDER is the time at which the run was started in nanoseconds since 1970, and RUN its id, both as
// 16 hexadecimal digits: their order as text is the order of arrival.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "structs.gen.h"

namespace cuspan {

// The most that is read of a ticket.
inline constexpr std::size_t kTicketBytes = 8192;

// A host's name as file names have it: letters, digits, '.', '_' and '-', at most 64.
std::string HostForNames(std::string_view host);
// Whether a text may stand for a GPU in a name: letters, digits and '-', at most 64.
bool IsGpuKey(std::string_view key);
// Whether a text may stand for a job: letters and digits, at most 32.
bool IsJobId(std::string_view id);

std::string QueueName(std::string_view host);
std::string LeasePrefix(std::string_view host);
std::string TicketPrefix(std::string_view host, bool waiting);
// Of a ticket's host, order, run and waiting.
std::string TicketName(const LeaseTicket& ticket);
// What a ticket's name says; nothing when it is none of that prefix.
std::optional<LeaseTicket> ParseTicketName(std::string_view name, std::string_view host,
                                           bool waiting);

// The text of a ticket: its program, how many GPUs it wants, its job, and the GPUs that it holds.
std::string TicketText(const LeaseTicket& ticket);
// Adds to `ticket` what such a text says. Anybody may have written it: what is not exactly as
// TicketText writes it is left out, and nothing but printable characters comes through.
void ReadTicketText(std::string_view text, LeaseTicket& ticket);

}  // namespace cuspan
