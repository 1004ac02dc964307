// What the library exports beside the driver's functions.
#include "proxy/softgpu/compilations.h"
#include "proxy/softgpu/jit/compile_notice.h"
#include "proxy/softgpu/jit/compiler_process.h"

#define CUSPAN_SOFT_OWN extern "C" __attribute__((visibility("default")))

// cuspan-kernel-compiler has no code of its own: what it makes is what the library makes.
CUSPAN_SOFT_OWN int cuspan_soft_compiler_main(int argument_count, char** arguments) {
  return cuspan::softgpu::jit::CompilerMain(argument_count, arguments);
}

CUSPAN_SOFT_OWN void cuspan_soft_watch_compilations(cuspan::softgpu::CompilationWatcher watcher,
                                                    void* argument) {
  cuspan::softgpu::SetCompilationWatcher(watcher, argument);
}
