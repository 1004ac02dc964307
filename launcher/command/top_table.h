// Activity of runs sharing GPUs, as text and JSON. Pure.
#pragma once

#include <cstddef>
#include <string>

#include "protocol/wire/frame.h"

namespace cuspan {

// Text with a line for each run on each GPU, and one for each GPU not shared.
std::string TopTable(const RunReady& found);
// The same as a JSON array, one object per GPU.
std::string TopJson(const RunReady& found);
// Terminal output that draws the table over the screen, followed by the notes of `found`. It is cut
// to the given size, with the cursor below. 0 lines or columns: no limit.
std::string TopScreen(const RunReady& found, std::size_t lines, std::size_t columns);

}  // namespace cuspan
