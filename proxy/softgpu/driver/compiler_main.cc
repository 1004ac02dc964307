// The library's side of cuspan-kernel-compiler: the program has no code of its own, so that what
// it makes is always what the library would have made.
#include "proxy/softgpu/jit/compiler_process.h"

extern "C" __attribute__((visibility("default"))) int cuspan_soft_compiler_main(int argument_count,
                                                                                char** arguments) {
  return cuspan::softgpu::jit::CompilerMain(argument_count, arguments);
}
