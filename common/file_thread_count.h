// Number of threads for files: CUSPAN_FILE_THREADS.
#pragma once

namespace cuspan {

// Threads of one process that read and write files. A wrong value of the setting is a warning in
// the log.
unsigned FileThreadCount();

}  // namespace cuspan
