// Order of sending bytes written by one side to the other, a possible waiter for a flag among them.
// The order of the writes is unknown. Likely flags are therefore sent last: a word by itself, and
// the first and the last word of a longer piece.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "interpose/client/memory/block_allocator.h"

namespace cuspan {

// Runs of bytes, in ascending order.
using ByteRuns = std::vector<BlockAllocator::Range>;

// Runs of each part in ascending order.
using OrderedRuns = std::array<ByteRuns, 5>;

// Number of pieces; runs near each other form one piece.
std::size_t CountPieces(const ByteRuns& runs);

// Returns the runs, some of them cut in two or three, in the order of their arrival.
OrderedRuns InOrderOfArrival(const ByteRuns& runs);

}  // namespace cuspan
