// Translation of PTX's memory semantics (.relaxed, .acquire, .volatile …) to LLVM's.
#pragma once

#include <llvm/Support/AtomicOrdering.h>

#include "proxy/softgpu/emit/function_emitter.h"

namespace cuspan::softgpu::emit {

struct MemoryOrder {
  llvm::AtomicOrdering ordering = llvm::AtomicOrdering::NotAtomic;
  bool is_volatile = false;

  bool is_atomic() const { return ordering != llvm::AtomicOrdering::NotAtomic; }
  // Loads cannot release and stores cannot acquire; PTX has no such forms.
  llvm::AtomicOrdering ForLoad() const {
    return ordering == llvm::AtomicOrdering::Acquire || ordering == llvm::AtomicOrdering::Monotonic
               ? ordering
               : llvm::AtomicOrdering::SequentiallyConsistent;
  }
  llvm::AtomicOrdering ForStore() const {
    return ordering == llvm::AtomicOrdering::Release || ordering == llvm::AtomicOrdering::Monotonic
               ? ordering
               : llvm::AtomicOrdering::SequentiallyConsistent;
  }
};

// Reads the semantics and the scope from the instruction's modifiers.
MemoryOrder ConsumeMemoryOrder(FunctionEmitter& e);
// Reads cache operators and prefetch and eviction hints; they have no effect here.
void ConsumeCacheHints(FunctionEmitter& e);

}  // namespace cuspan::softgpu::emit
