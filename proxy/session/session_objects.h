// The client's objects on the device, by handle.
#pragma once

#include <vector>

#include "proxy/gpu/driver.h"
#include "proxy/gpu/patch_kernel.h"
#include "proxy/objects/array.h"
#include "proxy/objects/code.h"
#include "proxy/objects/graph.h"
#include "proxy/objects/handle_table.h"
#include "proxy/objects/launch_batches.h"
#include "proxy/objects/variable_ranges.h"
#include "proxy/streams/roles.h"
#include "proxy/streams/worker.h"

namespace cuspan::proxy {

// Threads: any for the tables; for objects, see their types.
struct SessionObjects {
  // The worker, too, outlives it, except for tasks of its own.
  SessionObjects(const Driver& driver, Worker& worker)
      : patch_kernel(driver), batches(driver, worker) {}

  HandleTable<Module> modules{"module"};
  HandleTable<Linker> linkers{"linker"};
  HandleTable<Kernel> kernels{"kernel"};  // Filled by the worker, read by the receiving thread.
  HandleTable<Array> arrays{"array"};     // The same until `executors`.
  HandleTable<Texture> textures{"texture"};
  HandleTable<Surface> surfaces{"surface"};
  HandleTable<GraphExec> executors{"executable graph"};  // Last one filled by the worker.
  HandleTable<Graph> graphs{"graph"};                    // Receiving thread only.
  VariableRanges variables;

  // --- Launches. Threads: the receiving thread.

  PatchKernel patch_kernel CUSPAN_GUARDED_BY(receiving_thread);
  LaunchBatches batches CUSPAN_GUARDED_BY(receiving_thread);
  std::vector<void*> argument_pointers
      CUSPAN_GUARDED_BY(receiving_thread);  // Arguments of the launch being submitted.
};

}  // namespace cuspan::proxy
