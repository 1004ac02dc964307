// What runs that share GPUs do, as text and JSON. Pure.
#pragma once

#include <cstddef>
#include <string>

#include "protocol/wire/frame.h"

namespace cuspan {

// For a person: a line for each run on each GPU, and one for each GPU that nobody shares.
std::string TopTable(const RunReady& found);
// The same as a JSON array, an object a GPU.
std::string TopJson(const RunReady& found);
// What draws the table, and below it the notes of `found`, over what a terminal shows: as much as
// it has room for, with the cursor below. Of 0 lines or columns: all, however many there are.
std::string TopScreen(const RunReady& found, std::size_t lines, std::size_t columns);

}  // namespace cuspan
