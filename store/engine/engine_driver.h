// Functions of the CUDA driver called by the engine: a proxy's driver, or the program's own.
#pragma once

#include <cuda.h>

namespace cuspan::store {

struct EngineDriver {
  decltype(&::cuCtxSetCurrent) set_current = nullptr;
  decltype(&::cuDeviceGetAttribute) attribute = nullptr;
  decltype(&::cuMemHostRegister) register_memory = nullptr;
  decltype(&::cuMemHostUnregister) unregister_memory = nullptr;
  decltype(&::cuMemHostGetDevicePointer) device_pointer = nullptr;
};

// A context for the engine's threads, and its device.
struct EngineContext {
  EngineDriver driver;
  CUcontext context = nullptr;
  CUdevice device = 0;
};

}  // namespace cuspan::store
