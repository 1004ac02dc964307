// How PTX's memory semantics (.relaxed, .acquire, .volatile …) read in LLVM's terms.
#pragma once

#include <llvm/Support/AtomicOrdering.h>

#include "proxy/softgpu/emit/function_emitter.h"

namespace cuspan::softgpu::emit {

struct MemoryOrder {
  llvm::AtomicOrdering ordering = llvm::AtomicOrdering::NotAtomic;
  bool is_volatile = false;

  bool is_atomic() const { return ordering != llvm::AtomicOrdering::NotAtomic; }
  // Loads can not release and stores can not acquire; PTX has no such forms.
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

// Takes the semantics and the scope from the instruction's modifiers.
MemoryOrder TakeMemoryOrder(FunctionEmitter& e);
// Takes cache operators and prefetch and eviction hints, which change nothing here.
void TakeCacheHints(FunctionEmitter& e);

}  // namespace cuspan::softgpu::emit
