#include "proxy/ptx/special_registers.h"

namespace cuspan::ptx {
namespace {

using R = SpecialRegister;

struct Scalar {
  std::string_view name;
  R which;
};
constexpr Scalar kScalars[] = {
    {"%laneid", R::kLaneid},
    {"%warpid", R::kWarpid},
    {"%nwarpid", R::kNwarpid},
    {"%smid", R::kSmid},
    {"%nsmid", R::kNsmid},
    {"%gridid", R::kGridid},
    {"%cluster_ctarank", R::kClusterCtarank},
    {"%cluster_nctarank", R::kClusterNctarank},
    {"%is_explicit_cluster", R::kIsExplicitCluster},
    {"%lanemask_eq", R::kLanemaskEq},
    {"%lanemask_le", R::kLanemaskLe},
    {"%lanemask_lt", R::kLanemaskLt},
    {"%lanemask_ge", R::kLanemaskGe},
    {"%lanemask_gt", R::kLanemaskGt},
    {"%clock", R::kClock},
    {"%clock_hi", R::kClockHi},
    {"%clock64", R::kClock64},
    {"%globaltimer", R::kGlobaltimer},
    {"%globaltimer_lo", R::kGlobaltimerLo},
    {"%globaltimer_hi", R::kGlobaltimerHi},
    {"%dynamic_smem_size", R::kDynamicSmemSize},
    {"%total_smem_size", R::kTotalSmemSize},
    {"%aggr_smem_size", R::kTotalSmemSize},
    {"%reserved_smem_offset_begin", R::kReservedSmemBegin},
    {"%reserved_smem_offset_0", R::kReservedSmemBegin},
    {"%reserved_smem_offset_1", R::kReservedSmemBegin},
    {"%reserved_smem_offset_end", R::kReservedSmemEnd},
    {"%reserved_smem_offset_cap", R::kReservedSmemCap},
    {"%envreg0", R::kEnvreg0},
    {"%envreg1", R::kEnvreg1},
    {"%envreg2", R::kEnvreg2},
    {"%envreg3", R::kEnvreg3},
    {"%pm0", R::kZero},
    {"%pm1", R::kZero},
    {"%pm2", R::kZero},
    {"%pm3", R::kZero},
    {"%pm4", R::kZero},
    {"%pm5", R::kZero},
    {"%pm6", R::kZero},
    {"%pm7", R::kZero},
};

// Registers with components. %cluster_* have the same value in each component.
struct Vector {
  std::string_view name;
  R x, y, z;
};
constexpr Vector kVectors[] = {
    {"%tid", R::kTidX, R::kTidY, R::kTidZ},
    {"%ntid", R::kNtidX, R::kNtidY, R::kNtidZ},
    {"%ctaid", R::kCtaidX, R::kCtaidY, R::kCtaidZ},
    {"%nctaid", R::kNctaidX, R::kNctaidY, R::kNctaidZ},
    {"%clusterid", R::kClusteridX, R::kClusteridY, R::kClusteridZ},
    {"%nclusterid", R::kNclusteridX, R::kNclusteridY, R::kNclusteridZ},
    {"%cluster_ctaid", R::kClusterCtaid, R::kClusterCtaid, R::kClusterCtaid},
    {"%cluster_nctaid", R::kClusterNctaid, R::kClusterNctaid, R::kClusterNctaid},
};

}  // namespace

SpecialRegister SpecialRegisterNamed(std::string_view name, std::string_view component) {
  if (component.empty()) {
    for (const auto& scalar : kScalars)
      if (scalar.name == name) return scalar.which;
    return R::kNone;
  }
  for (const auto& vector : kVectors) {
    if (vector.name != name) continue;
    if (component == "x") return vector.x;
    if (component == "y") return vector.y;
    if (component == "z") return vector.z;
    if (component == "w") return R::kZero;
  }
  return R::kNone;
}

bool IsUnknownHere(std::string_view name) {
  return name.starts_with("%envreg") || name.starts_with("%pm") ||
         name.starts_with("%reserved_smem_offset_") || name == "%current_graph_exec";
}

unsigned BitsOf(SpecialRegister which) {
  switch (which) {
    case R::kGridid:
    case R::kClock64:
    case R::kGlobaltimer:
      return 64;
    default:
      return 32;
  }
}

}  // namespace cuspan::ptx
