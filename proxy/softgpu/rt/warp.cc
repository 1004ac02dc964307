#include "proxy/softgpu/rt/warp.h"

#include <algorithm>
#include <bit>

#include "proxy/softgpu/rt/matrix.h"

namespace cuspan::softgpu {
namespace {

// Number of yields of a spinning lane before lanes waiting for it continue.
constexpr std::uint32_t kPatience = 1024;

// Calls `visit(lane)` for each lane of `mask`, lowest first.
template <typename Visit>
void ForEachLane(std::uint32_t mask, Visit visit) {
  for (; mask != 0; mask &= mask - 1) visit(static_cast<std::uint32_t>(std::countr_zero(mask)));
}

struct Source {
  std::uint32_t lane;
  bool in_range;
};

// Returns the lane read by `lane` (PTX ISA, "shfl.sync").
Source ShuffleSource(ShuffleMode mode, std::uint32_t lane, std::uint32_t b, std::uint32_t c) {
  const int offset = static_cast<int>(b & 31);
  const std::uint32_t segment = c >> 8 & 31;
  const int highest = static_cast<int>((lane & segment) | (c & 31 & ~segment));
  const int lowest = static_cast<int>(lane & segment);
  const int own = static_cast<int>(lane);
  int from = own;
  bool in_range = false;
  switch (mode) {
    case ShuffleMode::kUp:
      from = own - offset;
      in_range = from >= highest;
      break;
    case ShuffleMode::kDown:
      from = own + offset;
      in_range = from <= highest;
      break;
    case ShuffleMode::kButterfly:
      from = own ^ offset;
      in_range = from <= highest;
      break;
    case ShuffleMode::kIndex:
      from = lowest | (offset & static_cast<int>(~segment));
      in_range = from <= highest;
      break;
  }
  return {static_cast<std::uint32_t>(in_range ? from : own), in_range};
}

}  // namespace

std::uint32_t CombineWords(std::uint32_t operation, std::uint32_t left, std::uint32_t right) {
  const auto a = static_cast<std::int32_t>(left), b = static_cast<std::int32_t>(right);
  switch (operation) {
    case 0:
      return left + right;
    case 1:
      return static_cast<std::uint32_t>(std::min(a, b));
    case 2:
      return static_cast<std::uint32_t>(std::max(a, b));
    case 3:
      return std::min(left, right);
    case 4:
      return std::max(left, right);
    case 5:
      return left & right;
    case 6:
      return left | right;
    default:
      return left ^ right;
  }
}

void Warp::Begin(std::uint32_t existing) {
  alive_ = running_ = existing;
  meetings_ = 0;
  reconverging_ = yielding_ = 0;
}

std::uint32_t Warp::ExtractReconverged() {
  if (running_ != 0 || reconverging_ == 0) return 0;
  // A spinning lane may be in a long loop, or wait for a reconverging lane, e.g. for its lock.
  // After kPatience yields the latter is assumed, for the rest of the launch.
  if (yielding_ != 0 && patience_used_ < kPatience) {
    ++patience_used_;
    return 0;
  }
  if (yielding_ == 0 && patience_used_ < kPatience) patience_used_ = 0;
  std::uint64_t lowest = ~std::uint64_t{0};
  ForEachLane(reconverging_,
              [&](std::uint32_t lane) { lowest = std::min(lowest, positions_[lane]); });
  std::uint32_t lanes = 0;
  ForEachLane(reconverging_, [&](std::uint32_t lane) {
    lanes |= std::uint32_t{positions_[lane] == lowest} << lane;
  });
  reconverging_ &= ~lanes;
  return lanes;
}

void Warp::Exit(std::uint32_t lane) {
  alive_ &= ~(1u << lane);
  running_ &= ~(1u << lane);
}

std::uint32_t Warp::Arrive(std::uint32_t lane, const CollectiveCall& call) {
  values_[lane] = call.value;
  b_[lane] = call.b;
  c_[lane] = call.c;
  std::uint32_t index = 0;
  while (index < meetings_ &&
         (meeting_[index].key != call.key || meeting_[index].mask != call.mask)) {
    ++index;
  }
  if (index == meetings_) meeting_[meetings_++] = Meeting{call.key, call.mask, 0};
  meeting_[index].arrived |= 1u << lane;
  if (call.mask == 0) return 0;  // kActiveMask: ExtractCompleted decides.
  return Complete(meeting_[index]) ? Conclude(index) : 0;
}

std::uint32_t Warp::ExtractCompleted() {
  for (std::uint32_t index = 0; index < meetings_; ++index) {
    const Meeting& meeting = meeting_[index];
    const bool ready = meeting.mask == 0 ? running_ == 0 : Complete(meeting);
    if (ready) return Conclude(index);
  }
  return 0;
}

bool Warp::Complete(const Meeting& meeting) const {
  return (meeting.mask & alive_ & ~meeting.arrived) == 0;
}

std::uint32_t Warp::Conclude(std::uint32_t index) {
  const Meeting meeting = meeting_[index];
  meeting_[index] = meeting_[--meetings_];
  Compute(meeting);
  return meeting.arrived;
}

void Warp::Compute(const Meeting& meeting) {
  const std::uint32_t lanes = meeting.arrived;
  const auto mode = static_cast<std::uint32_t>(meeting.key >> 8);
  switch (static_cast<Collective>(meeting.key & 0xff)) {
    case Collective::kSync:
      return;
    case Collective::kActiveMask:
      ForEachLane(lanes, [&](std::uint32_t lane) { results_[lane] = {lanes, 0}; });
      return;
    case Collective::kShuffle:
      ForEachLane(lanes, [&](std::uint32_t lane) {
        const Source source =
            ShuffleSource(static_cast<ShuffleMode>(mode), lane, b_[lane], c_[lane]);
        // Reading a lane outside the collective is undefined; the lane's own value is used.
        const std::uint32_t from = (lanes >> source.lane & 1) != 0 ? source.lane : lane;
        results_[lane] = {static_cast<std::uint32_t>(values_[from]), source.in_range ? 1u : 0u};
      });
      return;
    case Collective::kVote: {
      std::uint32_t ballot = 0;
      ForEachLane(lanes, [&](std::uint32_t lane) { ballot |= (values_[lane] != 0) << lane; });
      std::uint32_t result = ballot;
      switch (static_cast<VoteMode>(mode)) {
        case VoteMode::kAll:
          result = ballot == lanes;
          break;
        case VoteMode::kAny:
          result = ballot != 0;
          break;
        case VoteMode::kUniform:
          result = ballot == lanes || ballot == 0;
          break;
        case VoteMode::kBallot:
          break;
      }
      ForEachLane(lanes, [&](std::uint32_t lane) { results_[lane] = {result, 0}; });
      return;
    }
    case Collective::kMatch:
      ForEachLane(lanes, [&](std::uint32_t lane) {
        std::uint32_t equal = 0;
        ForEachLane(lanes, [&](std::uint32_t other) {
          equal |= (values_[other] == values_[lane]) << other;
        });
        const bool all = equal == lanes;
        const bool any_mode = static_cast<MatchMode>(mode) == MatchMode::kAny;
        results_[lane] = {any_mode || all ? equal : 0, all ? 1u : 0u};
      });
      return;
    case Collective::kMatrix: {
      // Each lane's value is the address of its registers.
      const std::uint64_t operation = meeting.key >> 8;
      const unsigned count = MatrixOperation::Unpack(operation).words();
      std::array<std::uint32_t, kMaxMatrixWords* 32> words = {};
      ForEachLane(lanes, [&](std::uint32_t lane) {
        const auto* const own = reinterpret_cast<const std::uint32_t*>(values_[lane]);
        for (unsigned i = 0; i < count; ++i) words[32 * i + lane] = own[i];
      });
      ComputeMatrix(operation, words.data());
      ForEachLane(lanes, [&](std::uint32_t lane) {
        auto* const own = reinterpret_cast<std::uint32_t*>(values_[lane]);
        for (unsigned i = 0; i < count; ++i) own[i] = words[32 * i + lane];
      });
      return;
    }
    case Collective::kReduce: {
      const auto first = static_cast<std::uint32_t>(std::countr_zero(lanes));
      auto result = static_cast<std::uint32_t>(values_[first]);
      ForEachLane(lanes & (lanes - 1), [&](std::uint32_t lane) {
        result = CombineWords(mode, result, static_cast<std::uint32_t>(values_[lane]));
      });
      ForEachLane(lanes, [&](std::uint32_t lane) { results_[lane] = {result, 0}; });
      return;
    }
  }
}

}  // namespace cuspan::softgpu
