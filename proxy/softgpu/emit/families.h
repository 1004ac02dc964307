// Instruction families: the emitting function of each opcode.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "proxy/softgpu/emit/function_emitter.h"

namespace cuspan::softgpu::emit {

// Set of allowed first types of an instruction.
enum TypeSet : std::uint16_t {
  kNoType = 1,
  kPredicates = 2,
  kBytes = 4,     // .b8 .u8 .s8
  kIntegers = 8,  // .b, .u and .s of 16 to 64 bits
  kWide = 16,     // .b128
  kHalves = 32,   // .f16 .bf16
  kSingle = 64,   // .f32
  kDouble = 128,  // .f64
  kPacked = 256,  // .f16x2 .bf16x2
  kTf32Type = 512,
  kWords = 1024,           // .b, .u and .s of 32 bits
  kPackedIntegers = 2048,  // .u16x2 .s16x2
  kPackedBytes = 4096,     // .e4m3x2 .e5m2x2
  kFloats = kSingle | kDouble,
  kAnyType = 0xffff,
};
// Sets containing `type`.
std::uint16_t TypeSetOf(ptx::Type type);

struct Opcode {
  std::string_view name;
  std::uint8_t min_operands;
  std::uint8_t max_operands;
  std::uint16_t types;
  void (*emit)(FunctionEmitter&);
};

std::span<const Opcode> ArithmeticOpcodes();   // arithmetic.cc: add, mul, min … for all types
std::span<const Opcode> IntegerOpcodes();      // int.cc
std::span<const Opcode> VideoOpcodes();        // video.cc: packed bytes and dot products
std::span<const Opcode> ScalarVideoOpcodes();  // scalar_video.cc
std::span<const Opcode> FloatOpcodes();        // float.cc
std::span<const Opcode> CompareOpcodes();      // compare.cc
std::span<const Opcode> ConvertOpcodes();      // convert.cc
std::span<const Opcode> MemoryOpcodes();       // mem.cc
std::span<const Opcode> AtomicOpcodes();       // atomic.cc
std::span<const Opcode> MbarrierOpcodes();     // mbarrier.cc: barriers in memory
std::span<const Opcode> AsyncCopyOpcodes();    // async_copy.cc: cp, and tensor maps
std::span<const Opcode> CollectiveOpcodes();   // collective.cc
std::span<const Opcode> MatrixOpcodes();       // matrix.cc
std::span<const Opcode> TextureOpcodes();      // texture.cc: textures and surfaces
std::span<const Opcode> ControlOpcodes();      // control.cc
std::span<const Opcode> CallOpcodes();         // call.cc

// Returns the entry for `name`, or null.
const Opcode* FindOpcode(std::string_view name);

}  // namespace cuspan::softgpu::emit
