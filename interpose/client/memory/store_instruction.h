// Decodes x86-64 instructions writing memory, as far as needed to execute them through another
// mapping of the same pages. Pure: reads only the instruction's bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cuspan {

struct StoreInstruction {
  enum class Kind {
    kUnknown,  // Not decoded; it may write anything.
    kStore,    // Writes `bytes` bytes, and reads none of them.
    kUpdate,   // Reads and writes `bytes` bytes.
    kFill,     // stos: writes rax to [rdi].
    kCopy,     // movs: copies [rsi] to [rdi].
  };
  Kind kind = Kind::kUnknown;
  // Size of the store; of one element of a string instruction.
  std::uint8_t bytes = 0;
  // Number of the general register (0: rax … 15: r15) used as base of the address. The instruction
  // uses it for nothing else.
  std::uint8_t base = 0;
  // Number of the mask register selecting elements of the store, and their size; 0: no mask.
  std::uint8_t mask = 0;
  std::uint8_t element = 0;
  // True if no later load of the thread may be older: a lock prefix, or xchg.
  bool fences = false;
  // String instructions: true if rcx holds the count.
  bool repeated = false;
  std::uint8_t length = 0;  // Bytes of the instruction.

  // Source of a kStore's bytes. kOther: the instruction must be run.
  enum class Source {
    kOther,
    kGeneral,    // The low bytes of general register `number`.
    kHighByte,   // Its second byte.
    kVector,     // The low bytes of vector register `number`.
    kHighHalf,   // Its bytes 8 to 15.
    kImmediate,  // `immediate`.
  };
  Source source = Source::kOther;
  std::uint8_t number = 0;
  std::int32_t immediate = 0;
};

// Decodes the instruction at `code`; reads no byte after its end. Stack pointers, segments fs and
// gs, and gathered addresses are unknown.
StoreInstruction DecodeStore(const unsigned char* code);

}  // namespace cuspan
