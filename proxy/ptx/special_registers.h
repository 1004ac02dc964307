// Predefined, read-only registers. (PTX ISA, "Special Registers")
#pragma once

#include <cstdint>
#include <string_view>

#include "proxy/ptx/types.h"

namespace cuspan::ptx {

enum class SpecialRegister : std::uint8_t {
  kNone,
  kTidX,
  kTidY,
  kTidZ,
  kNtidX,
  kNtidY,
  kNtidZ,
  kCtaidX,
  kCtaidY,
  kCtaidZ,
  kNctaidX,
  kNctaidY,
  kNctaidZ,
  kLaneid,
  kWarpid,
  kNwarpid,
  kSmid,
  kNsmid,
  kGridid,
  kClusteridX,
  kClusteridY,
  kClusteridZ,
  kNclusteridX,
  kNclusteridY,
  kNclusteridZ,
  kClusterCtaid,   // Zero: every cluster is one block.
  kClusterNctaid,  // One.
  kClusterCtarank,
  kClusterNctarank,
  kIsExplicitCluster,
  kLanemaskEq,
  kLanemaskLe,
  kLanemaskLt,
  kLanemaskGe,
  kLanemaskGt,
  kClock,
  kClockHi,
  kClock64,
  kGlobaltimer,
  kGlobaltimerLo,
  kGlobaltimerHi,
  kDynamicSmemSize,
  kTotalSmemSize,
  kReservedSmemBegin,
  kReservedSmemEnd,
  kReservedSmemCap,
  kEnvreg0,
  kEnvreg1,
  kEnvreg2,
  kEnvreg3,
  kZero,  // Registers always read as zero: performance counters, w components.
};

// Finds the register by `name` (with '%') and `component` ("x", or empty); kNone if unknown.
SpecialRegister SpecialRegisterNamed(std::string_view name, std::string_view component);
// True for registers of PTX not implemented here. (PTX ISA 9.0, "Special Registers")
bool IsUnknownHere(std::string_view name);
// Returns the width: 32 or 64.
unsigned BitsOf(SpecialRegister which);

}  // namespace cuspan::ptx
